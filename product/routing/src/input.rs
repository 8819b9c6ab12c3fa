//! The events that a driver reports to the machine.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use meridian_base::{
    Digest, Duration, Holdings, ModelId, PeerId, ReplicaId, RequestId, SiblingId, SiblingRecord,
    Time, residency,
};

use crate::adapters::AdapterReport;
use crate::admission::Admission;
use crate::config::{Config, ShadowConfig};
use crate::policy::{Params, Spec};
use crate::replica::{Load, ReplicaSpec};
use crate::request::{Outcome, Request, Usage};
use crate::topology::PeerSpec;

/// An event.
#[derive(Clone, Debug)]
pub enum Input {
    /// A replica joins, or the description of an existing one changes. Ids from
    /// [`Config::max_replicas`] on are ignored.
    Joined {
        /// Its id.
        id: ReplicaId,
        /// Its description.
        spec: ReplicaSpec,
    },
    /// A replica drains: it finishes its requests and receives no new ones.
    Draining(ReplicaId),
    /// A draining replica receives requests again. Its known cache contents stay valid.
    Resumed(ReplicaId),
    /// A replica is gone. The driver ends its requests.
    Left(ReplicaId),
    /// Another gateway that serves or served the replica sends its cache contents.
    Inherited {
        /// Which replica.
        id: ReplicaId,
        /// The result of [`Routing::holdings`](crate::Routing::holdings) on that gateway.
        holdings: Holdings,
    },
    /// A probe was answered.
    Reported {
        /// Which replica.
        id: ReplicaId,
        /// When the probe was sent: dispatches after this are not in the report.
        asked: Time,
        /// The engine's figures; all `None` for an engine that reports only that it is alive.
        load: Load,
    },
    /// The adapters of a replica, as far as its engine reports them.
    Adapters {
        /// Which replica.
        id: ReplicaId,
        /// The report.
        report: AdapterReport,
    },
    /// The longest contexts of a replica's models, as its engine reports them. They replace earlier ones;
    /// a model without one may have any.
    Contexts {
        /// Which replica.
        id: ReplicaId,
        /// Tokens of prompt and reply together.
        contexts: Vec<(ModelId, u32)>,
    },
    /// A replica that is full asks for no requests for so long.
    Paused {
        /// Which replica.
        id: ReplicaId,
        /// How long; at most [`MOST_PAUSE`](crate::MOST_PAUSE) counts.
        pause: Duration,
    },
    /// A probe was not answered.
    ProbeFailed(ReplicaId),
    /// A probe was not answered, but the replica kept streaming answers: it is alive, with unknown
    /// load.
    Alive {
        /// Which replica.
        id: ReplicaId,
        /// When the probe was sent.
        asked: Time,
    },
    /// A request arrives.
    Arrived(Request),
    /// The prefill leg of a request succeeded. For legs that begin together, the first token of the
    /// answer may come first; this is then ignored.
    Prefilled {
        /// The request.
        id: RequestId,
        /// The token counts that the prefill engine reported.
        usage: Option<Usage>,
    },
    /// The prefill leg of a request failed, before its answer began. The driver has ended the other
    /// leg, if it began.
    PrefillFailed {
        /// The request.
        id: RequestId,
        /// The result. A client error sends the request whole to a replica that answers, and so
        /// does [`Outcome::NoKv`].
        outcome: Outcome,
    },
    /// The first token of a request's answer came.
    FirstToken(RequestId),
    /// An attempt ended.
    Finished {
        /// The request.
        id: RequestId,
        /// The result.
        outcome: Outcome,
        /// Whether it may be retried elsewhere: no byte has reached the client yet, or the answer
        /// can be resumed.
        retry: bool,
        /// The token counts that the engine reported.
        usage: Option<Usage>,
        /// Block hashes of prompt and reply together, if the driver followed the reply. With
        /// `retry`, the answer broke off after this much of it, and this is now the prompt.
        extended: Option<Vec<u64>>,
        /// For a forward: the peer's own id of the replica that served it, if the peer reported it.
        served: Option<ReplicaId>,
    },
    /// One engine's connection broke while a peer served the request, and the attempt there has
    /// ended: exactly one more engine gets it.
    DiedElsewhere(RequestId),
    /// The client disconnected.
    Cancelled(RequestId),
    /// A peer joins, or the description of an existing one changes. At most 64: ids from 64 on are
    /// ignored.
    PeerJoined {
        /// Its id.
        id: PeerId,
        /// Its description.
        spec: PeerSpec,
    },
    /// A peer is gone. The driver ends the requests forwarded to it.
    PeerLeft(PeerId),
    /// A peer's digest arrived.
    Digested {
        /// Which peer.
        peer: PeerId,
        /// Its sequence number: a digest that is not newer than the last is ignored.
        sent: u64,
        /// A round trip measured since the last digest.
        rtt: Option<Duration>,
        /// The digest.
        digest: Arc<Digest>,
    },
    /// The policy or its weights changed; they apply to decisions from now on. The driver
    /// fingerprints prompts as the policy requires.
    Configured {
        /// The policy.
        policy: &'static Spec,
        /// Complete parameters of it.
        params: Params,
        /// When a replica may receive another request.
        admission: Admission,
    },
    /// The shadow policy changed, or ends with `None`. Its counts then start at 0.
    ShadowedBy(Option<ShadowConfig>),
    /// Other settings changed; they apply from now on. The policy, its parameters, the admission mode
    /// and the shadow policy in it are ignored.
    Tuned(Box<Config>),
    /// Everything that the configuration and the registry say about regions. Residency rules are
    /// checked against it from now on, also for requests in progress.
    Atlas(Arc<residency::Atlas>),
    /// A sibling reports events of its requests. The driver leaves out those about replicas that it does
    /// not have.
    Sibling {
        /// Which sibling.
        from: SiblingId,
        /// The events, oldest first.
        records: Vec<SiblingRecord>,
    },
    /// A sibling is gone, or will report all of its requests again: those known so far do not count.
    SiblingLost(SiblingId),
    /// A peer is idle and asks for held requests.
    StealAsked {
        /// Which peer.
        by: PeerId,
        /// The most requests that it takes.
        count: u32,
    },
}
