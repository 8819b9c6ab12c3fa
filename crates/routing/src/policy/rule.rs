//! The rule of a policy: one pure question, and the events that it learns from.
//!
//! [`Policy::pick`] may be asked any number of times about the same request, by a dry run or while
//! the queue is searched for the request that fits best, so it changes nothing. A policy remembers
//! only what the `on_*` events say really happened.

use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng, Time};

use super::forwarding::{Forwarding, ToNearest};
use super::pick::Pick;
use super::view::View;
use crate::explain::{CandidateRow, Decision};
use crate::peer::Peers;
use crate::replicas::Replicas;
use crate::request::Request;

/// A request as it was sent to a replica.
#[derive(Clone, Copy, Debug)]
pub struct Dispatched<'a> {
    /// The request.
    pub request: &'a Request,
    /// Where it was sent.
    pub replica: ReplicaId,
    /// Prefill expected there, ms: its unmatched prompt at the replica's calibrated speed.
    pub prefill_ms: f32,
}

/// A decision rule.
pub trait Policy: Send {
    /// Picks among `view.eligible`. Ties that the rule leaves open are broken with `draw`, a stream of
    /// the request's own: it depends on the gateway's seed, the request and the attempt, and on
    /// nothing that was decided before.
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick;

    /// The rule's second layer: whether a request leaves the region. By default, when no replica here
    /// is eligible, for the nearest peer with room.
    fn forwarding(&self) -> &dyn Forwarding {
        &ToNearest
    }

    /// Whether a request that the policy keeps queued waits for room alone, and not for a time.
    fn waits_for_room(&self) -> bool {
        false
    }

    /// The terms of a candidate's score in `decision`, for the explain endpoint. Off the hot path.
    fn terms(&self, _candidate: &CandidateRow, _decision: &Decision) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// A request was sent to a replica.
    fn on_dispatched(&mut self, _now: Time, _sent: Dispatched<'_>) {}

    /// The first token of an answer came `ttft_ms` after the request was sent, for rules that tune
    /// themselves by latency (saturation `auto`).
    fn on_first_token(&mut self, _now: Time, _replica: ReplicaId, _ttft_ms: f64) {}

    /// A request of [`Policy::on_dispatched`] is over at `replica`, however it ended.
    fn on_ended(&mut self, _request: &Request, _replica: ReplicaId) {}

    /// The set of replicas changed: rings are rebuilt here.
    fn on_replicas_changed(&mut self, _replicas: &Replicas) {}

    /// The set of peers changed.
    fn on_peers_changed(&mut self, _peers: &Peers) {}
}
