//! Promises the next free capacity of a full replica to the request that has waited longest.
//!
//! Under KV fit a short prompt fits where a long one does not, so in a full region a stream of
//! short prompts can starve the long ones. After a while, therefore, a request is sent to the full
//! replica that scores best and waits in its engine, which starts it as soon as it fits. Until its
//! first token the replica receives nothing else. A replica has at most one such promise.
//!
//! In an overloaded region this costs throughput: capacity is idle while it accumulates, and fewer
//! long prompts are served than short ones would be (lab/docs/experiments.md, meridian-ablation).
//! Without it the longest prompts wait for minutes, or are refused.
//!
//! A promised request may be split, too: its KV then waits at the prefill replica until the other
//! one has room for it, and its prompt takes no time of the replica that is full. The engine that
//! waits for the KV extends its lease.

use meridian_base::{ReplicaId, RequestId, Time};

use super::Routing;
use super::decide::Choice;
use crate::active::Active;
use crate::admission::Admission;
use crate::policy::{Chosen, Pick};
use crate::replica::Promise;
use crate::why::Why;

impl Routing {
    /// Makes one promise; false if no request has waited long enough, or no replica is left to
    /// promise.
    pub(super) fn promise(&mut self, now: Time) -> bool {
        if self.promise_due().is_none_or(|due| due > now) {
            return false;
        }
        // Requests are considered in serving order, so a promise does not bypass classes, deadlines
        // or fairness. Requests that no promise can help are skipped, so none waits behind another
        // model's.
        let mut order = core::mem::take(&mut self.released);
        self.held.fronts(now, &mut order);
        let made = order.iter().any(|id| self.promise_to(now, *id));
        self.released = order;
        made
    }

    /// When the oldest request may be promised capacity, if there is a replica to promise.
    pub(super) fn promise_due(&self) -> Option<Time> {
        // The other admission modes ignore the prompt's length.
        let is_fit = self.config.admission == Admission::PendingKv;
        (is_fit && self.any_promisable(self.replicas.ids()))
            .then(|| self.held.promise_due())
            .flatten()
    }

    fn promise_to(&mut self, now: Time, id: RequestId) -> bool {
        let Some(mut active) = self.actives.take(id) else { return false };
        let is_due = self.held.is_due(now, active.arrived);
        let kept_for = is_due.then(|| self.pick_full(now, &mut active)).flatten();
        if let Some(to) = kept_for {
            self.held.release(&active.request);
            let (waited, replica) = (now.since(active.arrived), to.replica);
            self.dispatch(now, &mut active, Chosen { why: Why::Promised { waited }, ..to });
            let by_report = !active.request.streams;
            // What the replica reports before it has the request says nothing about it.
            let at = if to.prefill.is_some() { Time::MAX } else { now };
            let promise = Promise { to: id, at, by_report };
            self.replicas.update(now, replica, |r| r.promised = Some(promise));
        }
        self.actives.insert(active);
        kept_for.is_some()
    }

    fn any_promisable(&self, ids: &[ReplicaId]) -> bool {
        ids.iter().any(|id| self.replicas.row(*id).closed.is_none())
    }

    /// The best of the replicas that take requests but have no capacity for this one.
    fn pick_full(&mut self, now: Time, active: &mut Active) -> Option<Chosen> {
        if !self.any_promisable(self.serves.get(&active.request.model)?) {
            return None;
        }
        self.write_dispatch();
        self.places.refresh(&mut active.permitted, &active.request, &self.peers);
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.beyond.clear();
        self.match_prefix(active, &mut scratch);
        let sorted = self.sort_out(active, &mut scratch);
        let takes = |id: &ReplicaId| {
            let is_open = self.replicas.row(*id).closed.is_none();
            is_open && self.replicas.shows_room(*id, active.request.streams)
        };
        let is_offered = sorted == Err(Choice::Hold) && scratch.offer_full(takes);
        let pick = is_offered.then(|| {
            self.find_prefills(active, &mut scratch);
            self.ask(now, active, &mut scratch)
        });
        self.scratch = scratch;
        match pick {
            Some(Pick::Replica(chosen)) => Some(chosen),
            Some(Pick::Wait) | None => None,
        }
    }
}
