//! The actions that the machine asks of its driver.

use meridian_base::{Duration, PeerId, ReplicaId, RequestId, SiblingRecord};

use crate::why::{RejectWhy, Why};

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send the request to the replica.
    Dispatch {
        /// The request.
        id: RequestId,
        /// The replica that answers.
        replica: ReplicaId,
        /// The replica that computes the prompt, if it is another one: the driver reports the end of
        /// that leg with [`Input::Prefilled`](crate::Input::Prefilled) or
        /// [`Input::PrefillFailed`](crate::Input::PrefillFailed).
        prefill: Option<ReplicaId>,
        /// Why they were chosen.
        why: Why,
        /// Prompt tokens expected in the cache of the replica that computes the prompt.
        matched_tokens: u32,
        /// Which attempt this is, from 1.
        attempt: u32,
    },
    /// Forward the request to the peer, with `hops` one higher. The driver reports its first token,
    /// its end or its cancellation as after an [`Output::Dispatch`]; if the peer refuses it, that
    /// is [`Outcome::Full`](crate::Outcome::Full).
    Forward {
        /// The request.
        id: RequestId,
        /// The peer.
        peer: PeerId,
        /// Why it was chosen.
        why: Why,
        /// Prompt tokens expected in its caches.
        matched_tokens: u32,
        /// Which attempt this is, from 1.
        attempt: u32,
    },
    /// Ask a peer for some of its held requests; the peer gets
    /// [`Input::StealAsked`](crate::Input::StealAsked).
    Steal {
        /// Which peer.
        from: PeerId,
        /// The most requests to take.
        count: u32,
    },
    /// Tell the siblings.
    Share(SiblingRecord),
    /// No replica has free capacity: the request waits in the queue. Nothing to do.
    Held(RequestId),
    /// Refuse the request, which ends it.
    Reject {
        /// The request.
        id: RequestId,
        /// Why.
        why: RejectWhy,
        /// When a retry may succeed.
        retry_after: Duration,
    },
    /// Probe a replica; answer with [`Input::Reported`](crate::Input::Reported),
    /// [`Input::ProbeFailed`](crate::Input::ProbeFailed) or [`Input::Alive`](crate::Input::Alive).
    Probe(ReplicaId),
    /// A replica missed its probes: stop waiting for its answers.
    Down(ReplicaId),
    /// A replica that was down is alive again.
    Up(ReplicaId),
}
