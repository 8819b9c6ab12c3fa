//! The trait of a policy: one pure function that picks a replica, and the events that update its
//! state.
//!
//! [`Policy::pick`] may be called any number of times for the same request, by a dry run or by a
//! search of the queue for the request that fits best, so it changes no state. Only the `on_*`
//! events, which report actual dispatches and their ends, change a policy's state.

use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng, Time};

use super::forwarding::{Forwarding, ToNearest};
use super::pick::Pick;
use super::view::View;
use crate::explain::{CandidateRow, Decision};
use crate::peer::Peers;
use crate::replicas::Replicas;
use crate::request::Request;

/// A request that was sent to a replica.
#[derive(Clone, Copy, Debug)]
pub struct Dispatched<'a> {
    /// The request.
    pub request: &'a Request,
    /// Where it was sent.
    pub replica: ReplicaId,
    /// Expected prefill there, ms: its unmatched prompt at the replica's calibrated speed.
    pub prefill_ms: f32,
}

/// A decision rule.
pub trait Policy: Send {
    /// Picks among `view.eligible`. Ties that the rule leaves open are broken with `draw`, a
    /// separate random stream per request: it depends on the gateway's seed, the request and the
    /// attempt, and not on earlier decisions.
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick;

    /// The policy's second layer: whether to forward the request. By default, to the nearest peer
    /// with free capacity when no replica here is eligible.
    fn forwarding(&self) -> &dyn Forwarding {
        &ToNearest
    }

    /// Whether a request that the policy keeps queued waits only for capacity, and not for a time.
    fn waits_for_room(&self) -> bool {
        false
    }

    /// Whether the pick among a random sample of hundreds of candidates, with all that have longer
    /// prefix matches, is as good as among all. Not for a rule that takes turns or that maps a
    /// request to one replica.
    fn may_sample(&self) -> bool {
        false
    }

    /// Whether [`Policy::pick`] decides about both legs of a request. Otherwise it is asked again,
    /// among the prefill replicas that pair with its pick.
    fn prices_pairs(&self) -> bool {
        false
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

    /// A request was sent to a replica. A policy that is configured while requests are at replicas
    /// gets this event for each of them first, in the order and with the times of their dispatch.
    fn on_dispatched(&mut self, _now: Time, _sent: Dispatched<'_>) {}

    /// The first token of an answer arrived `ttft_ms` after the request was sent, for policies that
    /// tune themselves by latency (saturation `auto`).
    fn on_first_token(&mut self, _now: Time, _replica: ReplicaId, _ttft_ms: f64) {}

    /// A request reported to [`Policy::on_dispatched`] ended at `replica`, with any outcome.
    fn on_ended(&mut self, _request: &Request, _replica: ReplicaId) {}

    /// The set of replicas changed: rebuild rings here.
    fn on_replicas_changed(&mut self, _replicas: &Replicas) {}

    /// The set of peers changed.
    fn on_peers_changed(&mut self, _peers: &Peers) {}
}
