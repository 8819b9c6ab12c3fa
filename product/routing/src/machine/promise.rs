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
use crate::active::Active;
use crate::admission::Admission;
use crate::decide::{self, Tables};
use crate::policy::Chosen;
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
        let mut order = core::mem::take(&mut self.buffers.order);
        self.queue.fronts(now, &mut order);
        let made = order.iter().any(|id| self.promise_to(now, *id));
        self.buffers.order = order;
        made
    }

    /// When the oldest request may be promised capacity, if there is a replica to promise.
    fn promise_due(&self) -> Option<Time> {
        self.is_promisable().then(|| self.queue.promise_due()).flatten()
    }

    /// Whether any replica may be promised to a request.
    pub(super) fn is_promisable(&self) -> bool {
        // The other admission modes ignore the prompt's length.
        let is_fit = self.config.admission == Admission::PendingKv;
        is_fit && self.fleet.any_open(self.fleet.ids())
    }

    fn promise_to(&mut self, now: Time, id: RequestId) -> bool {
        let Some(mut active) = self.actives.take(id) else { return false };
        let is_due = self.queue.is_due(now, active.waits_from);
        let kept_for = is_due.then(|| self.pick_full(now, &mut active)).flatten();
        if let Some(to) = kept_for {
            self.queue.release(&active.request);
            let (waited, replica) = (now.since(active.arrived), to.replica);
            self.dispatch(now, &mut active, Chosen { why: Why::Promised { waited }, ..to });
            let by_report = !active.request.streams;
            // What the replica reports before it has the request says nothing about it.
            let at = if to.prefill.is_some() { Time::MAX } else { now };
            let promise = Promise { to: id, at, by_report };
            self.fleet.update(now, replica, |r| r.promised = Some(promise));
        }
        self.actives.insert(active);
        kept_for.is_some()
    }

    /// The best of the replicas that take requests but have no capacity for this one.
    fn pick_full(&mut self, now: Time, active: &mut Active) -> Option<Chosen> {
        let serving = self.fleet.serving(active.request.model)?;
        if !self.fleet.any_open(serving) {
            return None;
        }
        self.write_dispatch();
        self.regions.refresh(&mut active.permitted, &active.request);
        let Routing { fleet, queue, regions, rule, buffers, .. } = self;
        let scratch = &mut buffers.newest;
        scratch.start_afresh();
        let takes = |id: &ReplicaId| {
            let is_open = fleet.row(*id).closed.is_none();
            is_open && fleet.replicas().shows_room(*id, active.request.streams)
        };
        let tables = Tables::of(fleet, queue, regions, rule);
        decide::pick_full(&tables, now, active, scratch, takes)
    }
}
