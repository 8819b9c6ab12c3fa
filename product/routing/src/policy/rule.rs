//! The trait of a policy: one pure function that picks a replica, what the machine must know of it,
//! and the events that update its state.
//!
//! [`Policy::pick`] may be called any number of times for the same request, by a dry run or by a
//! search of the queue for the request that fits best, so it changes no state. Only
//! [`Policy::update`], which reports actual dispatches and their ends, changes a policy's state.

use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng, Time};

use super::choose;
use super::forwarding::Forwarding;
use super::pick::{Forward, Pick};
use super::view::View;
use crate::explain::{CandidateRow, Decision};
use crate::peer::Peers;
use crate::replicas::Replicas;
use crate::request::Request;

/// A decision rule.
pub trait Policy: Send {
    /// Picks among `view.eligible`. Ties that the rule leaves open are broken with `draw`, a
    /// separate random stream per request: it depends on the gateway's seed, the request and the
    /// attempt, and not on earlier decisions.
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick;

    /// What the machine must know of the rule. Asked once, when the policy is built.
    fn features(&self) -> Features {
        Features::default()
    }

    /// The policy's second layer: whether to forward the request, and to which of `view.reachable`,
    /// once [`Forwarding::looks_beyond`] is true. `local` is the policy's pick; `None` if no replica
    /// here is eligible. By default, the nearest peer with free capacity.
    fn forward(&self, view: &View<'_>, _local: Option<&Pick>, _draw: &mut Rng) -> Option<Forward> {
        choose::nearest(view)
    }

    /// Whether `from` computes the prompt of a request that `to` answers, if the policy does not
    /// price pairs and picked both. Otherwise `to` computes it too.
    fn splits(&self, _view: &View<'_>, _from: ReplicaId, _to: ReplicaId) -> bool {
        true
    }

    /// The terms of a candidate's score in `decision`, for the explain endpoint. Off the hot path.
    fn terms(&self, _candidate: &CandidateRow, _decision: &Decision) -> Vec<(&str, f64)> {
        Vec::new()
    }

    /// Something happened that the policy's own state may depend on.
    fn update(&mut self, _event: PolicyEvent<'_>) {}
}

/// What the machine must know of a policy besides its picks. The default is what most published
/// rules need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Features {
    /// Whether a request that the policy keeps queued waits only for capacity, and not for a time.
    pub waits_for_room: bool,
    /// Whether the pick among a random sample of hundreds of candidates, with all that have longer
    /// prefix matches, is as good as among all. Not for a rule that takes turns or that maps a
    /// request to one replica.
    pub may_sample: bool,
    /// Whether [`Policy::pick`] decides about both legs of a request. Otherwise it is asked again,
    /// among the prefill replicas that pair with its pick.
    pub prices_pairs: bool,
    /// Its relation to the peers.
    pub forwarding: Forwarding,
}

/// An event for a policy's own state.
#[derive(Clone, Copy, Debug)]
pub enum PolicyEvent<'a> {
    /// A request was sent to a replica. A policy that is configured while requests are at replicas
    /// gets this event for each of them first, in the order and with the times of their dispatch.
    Dispatched(Dispatched<'a>),
    /// The first token of an answer arrived, for policies that tune themselves by latency.
    FirstToken {
        /// Where it came from.
        replica: ReplicaId,
        /// Time since the request was sent.
        ttft_ms: f64,
    },
    /// A request of an earlier [`PolicyEvent::Dispatched`] ended, with any outcome.
    Ended {
        /// The request.
        request: &'a Request,
        /// Where it was sent.
        replica: ReplicaId,
    },
    /// The set of replicas changed: rebuild rings here.
    Replicas(&'a Replicas),
    /// The set of peers changed.
    Peers(&'a Peers),
}

/// A request that was sent to a replica.
#[derive(Clone, Copy, Debug)]
pub struct Dispatched<'a> {
    /// When.
    pub at: Time,
    /// The request.
    pub request: &'a Request,
    /// Where it was sent.
    pub replica: ReplicaId,
    /// Prompt tokens that it computes there.
    pub unmatched_tokens: f32,
    /// Expected prefill there, ms: its unmatched prompt at the replica's calibrated speed.
    pub prefill_ms: f32,
}
