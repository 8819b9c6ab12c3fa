//! The events of the simulation.

use std::sync::Arc;

use meridian_base::{Duration, ReplicaId, RequestId, SiblingRecord, Time};
use meridian_routing::{Digest, Holdings, Load, Outcome};

use crate::legs::Message;

/// An event. Gateways and replicas are indices into the world's lists.
#[derive(Debug)]
pub(crate) enum Event {
    /// The next program of an open load starts.
    Next { load: u16 },
    /// A client of a closed load starts its next program.
    Client { client: u32 },
    /// A client's think time ends and it sends.
    Send { program: u32, node: u32 },
    /// A request reaches a gateway.
    Arrive { id: RequestId, gateway: u16, attempt: u32 },
    /// A request reaches a replica.
    Submit { id: RequestId, replica: u32, attempt: u32 },
    /// The answer of a prefill leg, sent to arrive at `since`, reaches a gateway.
    Prefilled { id: RequestId, gateway: u16, attempt: u32, since: Time },
    /// A message about the KV of a split attempt reaches an engine.
    Kv { name: RequestId, replica: u32, message: Message },
    /// A first token reaches a gateway.
    First { id: RequestId, gateway: u16, attempt: u32 },
    /// The end of an attempt reaches a gateway.
    Ended { id: RequestId, gateway: u16, attempt: u32, outcome: Outcome },
    /// The end of a request reaches its client.
    Over { id: RequestId, fate: crate::Fate },
    /// An engine's timer fires.
    Engine { replica: u32 },
    /// A gateway's timer fires.
    Gateway { gateway: u16 },
    /// A probe's or digest's news may have reached a gateway with held requests.
    Wake { gateway: u16 },
    /// A probe reaches a replica.
    Probe { gateway: u16, id: ReplicaId, asked: Time },
    /// Its answer reaches the gateway; `None` if there was none.
    Report { gateway: u16, id: ReplicaId, asked: Time, load: Option<Load> },
    /// A gateway sends its digest to its peers.
    Tell { gateway: u16 },
    /// A digest reaches a peer.
    Digest { to: u16, from: u16, number: u64, rtt: Duration, digest: Arc<Digest> },
    /// An idle gateway asks a peer for work.
    Steal { to: u16, from: u16, count: u32 },
    /// The n-th fault of the scenario.
    Fault { at: u32 },
    /// Replicas without a gateway are assigned one.
    Adopt,
    /// A client gives up on a gateway that has been suspended since then.
    Impatient { id: RequestId, gateway: u16, since: Time },
    /// Peers declare a gateway gone that has been suspended since then.
    Gone { gateway: u16, since: Time },
    /// A gateway processes the news of its probes.
    Look { gateway: u16 },
    /// An attempt at a replica that is down has been silent for too long.
    Broken { id: RequestId, gateway: u16, replica: u32, attempt: u32 },
    /// Another gateway's data about a replica's cache reaches one that was given the replica.
    Inherited { gateway: u16, replica: u32, holdings: Holdings },
    /// A record of a sibling's request reaches a gateway; replicas are indices into the world's list.
    Sibling { to: u16, from: u16, number: u64, record: SiblingRecord },
    /// A gateway's question for all requests reaches its sibling.
    SiblingAsked { by: u16, of: u16 },
    /// The answer, which includes the records up to `number`.
    SiblingAnswered { to: u16, from: u16, number: u64, all: Vec<SiblingRecord> },
    /// The autoscaler runs.
    Scale,
    /// A requested replica is ready.
    Provisioned { replica: u32 },
    /// A sample of all replicas is taken.
    Sample,
}
