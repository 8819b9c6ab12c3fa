//! Whoever waited longest is promised the next room of a full replica.
//!
//! Under KV fit a short prompt fits where a long one does not, so in a full region the short ones
//! pass the long ones for as long as they come. After a while a request is therefore sent to the
//! full replica that scores best and waits in its engine, which starts it as soon as there is room;
//! until its first token the replica takes nothing else. One such promise a replica.
//!
//! In an overloaded region this costs requests a second: room stands empty while it is gathered,
//! and fewer long prompts are served than short ones would be (docs/experiments.md,
//! meridian-ablation). Without it the longest prompts wait for minutes, or are refused.

use meridian_base::{ReplicaId, RequestId, Time};

use super::Routing;
use super::decide::Choice;
use crate::active::Active;
use crate::admission::Admission;
use crate::policy::Pick;
use crate::replica::Promise;
use crate::why::Why;

impl Routing {
    /// Makes one promise; false when nobody waited long enough, or no replica is left to promise.
    pub(super) fn promise(&mut self, now: Time) -> bool {
        if self.promise_due().is_none_or(|due| due > now) {
            return false;
        }
        // In serving order, so that a promise is no way round classes, deadlines and fairness; past
        // those that no promise can help, so that no request waits behind another model's.
        let mut order = core::mem::take(&mut self.released);
        self.held.fronts(now, &mut order);
        let made = order.iter().any(|id| self.promise_to(now, *id));
        self.released = order;
        made
    }

    /// From when on the oldest may be promised room, if there is a replica to promise.
    pub(super) fn promise_due(&self) -> Option<Time> {
        // The other modes do not ask how long a prompt is.
        let is_fit = self.config.admission == Admission::PendingKv;
        (is_fit && self.any_promisable(self.replicas.ids()))
            .then(|| self.held.promise_due())
            .flatten()
    }

    fn promise_to(&mut self, now: Time, id: RequestId) -> bool {
        let Some(mut active) = self.actives.take(id) else { return false };
        let is_due = self.held.is_due(now, active.arrived);
        let kept_for = is_due.then(|| self.pick_full(now, &mut active)).flatten();
        if let Some(replica) = kept_for {
            self.held.release(&active.request);
            let waited = now.since(active.arrived);
            self.dispatch(now, &mut active, replica, Why::Promised { waited });
            let by_report = !active.request.streams;
            let promise = Promise { to: id, at: now, by_report };
            self.replicas.update(now, replica, |r| r.promised = Some(promise));
        }
        self.actives.insert(active);
        kept_for.is_some()
    }

    fn any_promisable(&self, ids: &[ReplicaId]) -> bool {
        ids.iter().any(|id| self.replicas.row(*id).closed.is_none())
    }

    /// The best of the replicas that take requests and have no room for this one.
    fn pick_full(&mut self, now: Time, active: &mut Active) -> Option<ReplicaId> {
        if !self.any_promisable(self.serves.get(&active.request.model)?) {
            return None;
        }
        self.write_dispatch();
        self.places.refresh(&mut active.permitted, &active.request, &self.peers);
        let mut scratch = core::mem::take(&mut self.scratch);
        self.match_prefix(active, &mut scratch);
        let sorted = self.sort_out(active, &mut scratch);
        let takes = |id: &ReplicaId| {
            let is_open = self.replicas.row(*id).closed.is_none();
            is_open && self.replicas.shows_room(*id, active.request.streams)
        };
        let pick = (sorted == Err(Choice::Hold) && scratch.offer_full(takes))
            .then(|| self.ask(now, active, &scratch));
        self.scratch = scratch;
        match pick {
            Some(Pick::Replica(chosen)) => Some(chosen.replica),
            Some(Pick::Wait) | None => None,
        }
    }
}
