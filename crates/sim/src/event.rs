//! What can happen.

use std::sync::Arc;

use meridian_base::{Duration, ReplicaId, RequestId, Time};
use meridian_routing::{Digest, Holdings, Load, Outcome};

/// An event. Places of gateways and replicas are those of the world's lists.
#[derive(Debug)]
pub(crate) enum Event {
    /// The next program of an open load starts.
    Next { load: u16 },
    /// A client of a closed load starts its next program.
    Client { client: u32 },
    /// A client has thought enough and sends.
    Send { program: u32, node: u32 },
    /// A request reaches a gateway.
    Arrive { id: RequestId, gateway: u16, attempt: u32 },
    /// A request reaches a replica.
    Submit { id: RequestId, replica: u32, attempt: u32 },
    /// A first token reaches a gateway.
    First { id: RequestId, gateway: u16, attempt: u32 },
    /// The end of an attempt reaches a gateway.
    Ended { id: RequestId, gateway: u16, attempt: u32, outcome: Outcome },
    /// The end of a request reaches its client.
    Over { id: RequestId, fate: crate::Fate },
    /// An engine has something to do.
    Engine { replica: u32 },
    /// A gateway has something to do.
    Gateway { gateway: u16 },
    /// News may have reached a gateway that holds requests.
    Wake { gateway: u16 },
    /// A probe reaches a replica.
    Probe { gateway: u16, id: ReplicaId, asked: Time },
    /// Its answer reaches the gateway; `None`: there was none.
    Report { gateway: u16, id: ReplicaId, asked: Time, load: Option<Load> },
    /// A gateway tells its peers how it is.
    Tell { gateway: u16 },
    /// A digest reaches a peer.
    Digest { to: u16, from: u16, number: u64, rtt: Duration, digest: Arc<Digest> },
    /// An idle gateway asks a peer for work.
    Steal { to: u16, from: u16, count: u32 },
    /// The n-th fault of the scenario.
    Fault { at: u32 },
    /// Replicas without a gateway are given one.
    Adopt,
    /// A client has waited long enough for a gateway that is suspended since then.
    Impatient { id: RequestId, gateway: u16, since: Time },
    /// Peers have heard nothing of a gateway that is suspended since then.
    Gone { gateway: u16, since: Time },
    /// A gateway looks at what its probes told it.
    Look { gateway: u16 },
    /// An attempt at a replica that is down has been silent for too long.
    Broken { id: RequestId, gateway: u16, replica: u32, attempt: u32 },
    /// What another gateway knows of a replica's cache reaches one that was given the replica.
    Inherited { gateway: u16, replica: u32, holdings: Holdings },
    /// The autoscaler looks.
    Scale,
    /// A replica that was asked for is there.
    Provisioned { replica: u32 },
    /// A sample of all replicas is taken.
    Sample,
}
