//! Releases requests from the held queue when capacity frees up.

use meridian_base::{PeerId, Priority, ReplicaId, RequestId, Time};

use super::decide::{Choice, Sending};
use super::{CLOSED_RETICK, RETICK, Routing};
use crate::why::Ineligible;

impl Routing {
    /// Dispatches held requests while any of the first ones fits.
    pub(super) fn release(&mut self, now: Time) {
        if self.held.len() > 0 && self.may_find(now) {
            while self.held.len() > 0 && self.anybody_open() && self.release_one(now) {}
            self.looked(now);
        }
        while self.promise(now) {}
        self.retick = match self.held.len() {
            0 => None,
            _ => Some(self.retick.unwrap_or(Time::MAX).min(self.next_look(now))),
        };
    }

    /// When to examine held requests again without an event. While no replica is open, time alone
    /// opens none, but it may bring a promise.
    fn next_look(&self, now: Time) -> Time {
        let again = match (self.look_again(), self.anybody_open()) {
            (Some(again), _) => again,
            (None, true) => return now + RETICK,
            (None, false) => now + CLOSED_RETICK,
        };
        let promise = self.promise_due().map_or(Time::MAX, |due| due.max(now + RETICK));
        promise.min(again)
    }

    /// Whether any replica that answers could take any request. Most events open no replica, and
    /// without this check a full region would spend most of its time searching the queue in vain.
    #[must_use]
    pub fn anybody_open(&self) -> bool {
        // A request pinned to a draining replica may still go there.
        let drains = |id: &ReplicaId| self.replicas.row(*id).closed == Some(Ineligible::Draining);
        let rooms = self.replicas.rooms().iter().zip(self.replicas.rows());
        rooms.into_iter().any(|(room, row)| *room >= 0.0 && row.pool.role.answers())
            || self.replicas.ids().iter().any(drains)
            || self.has_second_layer() && self.peers.ids().iter().any(|id| self.takes(*id))
    }

    fn takes(&self, id: PeerId) -> bool {
        self.peers.row(id).is_some_and(|row| row.eligible > 0)
    }

    /// Sends one held request, of the highest class in which one fits; false if none fits.
    pub(super) fn release_one(&mut self, now: Time) -> bool {
        self.held.priorities().any(|priority| self.release_of(now, priority))
    }

    /// Sends the best fitting of the first held requests of a class; false if none fits.
    ///
    /// If the policy scores, the request with the lowest score goes; otherwise the first that fits.
    /// A request that has waited past `patience` goes before both.
    fn release_of(&mut self, now: Time, priority: Priority) -> bool {
        let mut order = core::mem::take(&mut self.released);
        self.held.front(now, priority, &mut order);
        let impatient = self.held.impatient(now, priority);
        let best = self.best_of(now, &order, impatient);
        self.released = order;
        let Some((to, id)) = best else { return false };
        let Some(mut active) = self.actives.take(id) else { return false };
        self.held.release(&active.request);
        self.send(now, &mut active, to);
        self.actives.insert(active);
        true
    }

    /// The request that goes next and the decision about it. The scratch belongs to this decision,
    /// which is the only one about it.
    fn best_of(
        &mut self,
        now: Time,
        order: &[RequestId],
        impatient: Option<RequestId>,
    ) -> Option<(Sending, RequestId)> {
        self.write_dispatch();
        let beyond = self.open_beyond(now);
        let mut best: Option<(f64, Sending, RequestId)> = None;
        for id in order.iter().copied() {
            if self.stays(id, beyond) {
                debug_assert!(self.would_stay(now, id), "a skipped request would stay held");
                continue;
            }
            let Some(mut active) = self.actives.take(id) else { continue };
            let choice = self.choose(now, &mut active);
            self.actives.insert(active);
            let Choice::Send(to) = choice else { continue };
            match to.score() {
                Some(score) if impatient != Some(id) => {
                    if best.is_none_or(|(least, ..)| score < least) {
                        best = Some((score, to, id));
                        core::mem::swap(&mut self.scratch, &mut self.best_scratch);
                    }
                }
                // Without a score to compare, the first that fits goes.
                _ => return Some((to, id)),
            }
        }
        let (_, to, id) = best?;
        core::mem::swap(&mut self.scratch, &mut self.best_scratch);
        Some((to, id))
    }

    /// Whether a decision about a held request would keep it in the queue, judging by its last
    /// decision: it fits nowhere here, and no peer accepts requests. False if that is not enough to
    /// tell.
    fn stays(&mut self, id: RequestId, beyond: u64) -> bool {
        let second_layer = self.has_second_layer();
        let Some(active) = self.actives.get_mut(id) else { return false };
        let request = &active.request;
        let nowhere_else =
            !second_layer || request.hops > 0 || request.peers & !active.tried_peers & beyond == 0;
        let plain = request.pinned.is_none() && active.permitted.places == u64::MAX;
        if !nowhere_else || !plain || !active.tried.is_empty() {
            return false;
        }
        let (Some(recall), Some(index)) = (&mut active.recall, &self.rule.index) else {
            return false;
        };
        let rooms = self.replicas.rooms();
        let depths = recall.here.depths(index, rooms.len());
        let (Some(depths), Some(ids)) = (depths, self.serves.get(&request.model)) else {
            return false;
        };
        let (prompt, growth) = (request.prompt_tokens as f32, active.growth);
        ids.iter().all(|id| {
            let matched = (depths[id.index()] as f32 * request.block_tokens).min(prompt);
            prompt - matched + growth > rooms[id.index()]
        })
    }

    /// Checks [`Self::stays`] by deciding.
    fn would_stay(&mut self, now: Time, id: RequestId) -> bool {
        let Some(mut active) = self.actives.take(id) else { return false };
        let choice = self.choose(now, &mut active);
        self.actives.insert(active);
        choice == Choice::Hold
    }
}
