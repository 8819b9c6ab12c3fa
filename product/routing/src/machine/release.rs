//! Releases requests from the held queue when capacity frees up.

use meridian_base::{PeerId, Priority, ReplicaId, RequestId, Time};

use super::Routing;
use crate::active::Active;
use crate::decide::{Choice, Sending};
use crate::why::Ineligible;

impl Routing {
    /// Dispatches held requests while any of the first ones fits.
    pub(super) fn release(&mut self, now: Time) {
        if !self.queue.is_empty() && self.may_find(now) {
            while !self.queue.is_empty() && self.anybody_open() && self.release_one(now) {}
            let waits = !self.queue.is_empty() && self.rule.features().waits_for_room;
            let in_vain = waits && self.anybody_open();
            self.queue.searched(now, in_vain);
        }
        while self.promise(now) {}
        if !self.queue.is_empty() {
            let (is_open, is_promisable) = (self.anybody_open(), self.is_promisable());
            self.queue.look_again(now, is_open, is_promisable);
        } else {
            self.queue.look_no_more();
        }
    }

    /// Saves all free capacities before an event changes them.
    #[inline]
    pub(super) fn before_event(&mut self, now: Time) {
        if self.queue.searched_in_vain() {
            self.note_rooms(now);
        }
    }

    /// Whether searching the queue may find a request to send.
    fn may_find(&mut self, now: Time) -> bool {
        self.queue.is_search_due(now) || self.note_rooms(now)
    }

    /// Saves all free capacities; true if one has grown since the last time.
    fn note_rooms(&mut self, now: Time) -> bool {
        let is_open = self.regions.are_open();
        let peers = if is_open { self.tables().open_beyond(now) } else { 0 };
        self.queue.note_rooms(self.fleet.rooms(), self.fleet.replicas().rows(), peers)
    }

    /// Whether any event may release a held request, not only one that frees capacity.
    #[must_use]
    pub fn minds_all_news(&self) -> bool {
        !self.queue.searched_in_vain() && self.anybody_open()
    }

    /// Whether a digest from a peer with this many held requests, and with or without capacity, may
    /// release a held request. After a search without result, only a digest of a peer that accepted
    /// nothing then may.
    #[must_use]
    pub fn minds_digest(&self, peer: PeerId, held: u32, room: bool) -> bool {
        let Some(took) = self.queue.took(1u64.checked_shl(peer.0.into()).unwrap_or(0)) else {
            return room;
        };
        room && !took && held <= self.config.peering.most_held(self.queue.waiting())
    }

    /// Whether any replica that answers could take any request. Most events open no replica, and
    /// without this check a full region would spend most of its time searching the queue in vain.
    #[must_use]
    pub fn anybody_open(&self) -> bool {
        // A request pinned to a draining replica may still go there.
        let drains = |id: &ReplicaId| self.fleet.row(*id).closed == Some(Ineligible::Draining);
        self.fleet.is_room()
            || self.fleet.ids().iter().any(drains)
            || self.regions.are_open() && self.regions.ids().iter().any(|id| self.takes(*id))
    }

    fn takes(&self, id: PeerId) -> bool {
        self.regions.row(id).is_some_and(|row| row.eligible > 0)
    }

    /// Sends one held request, of the highest class in which one fits; false if none fits.
    pub(super) fn release_one(&mut self, now: Time) -> bool {
        self.queue.priorities().any(|priority| self.release_of(now, priority))
    }

    /// Sends the best fitting of the first held requests of a class; false if none fits.
    ///
    /// If the policy scores, the request with the lowest score goes; otherwise the first that fits. Those of sessions
    /// that were served much more than others go only if none of the others fits.
    /// A request that has waited past `patience` goes before both.
    fn release_of(&mut self, now: Time, priority: Priority) -> bool {
        let mut order = core::mem::take(&mut self.buffers.order);
        let free = self.queue.front(now, priority, &mut order);
        let impatient = self.queue.impatient(now, priority);
        let best = self.best_of(now, &order[..free], impatient);
        let best = best.or_else(|| self.best_of(now, &order[free..], impatient));
        self.buffers.order = order;
        let Some((to, id)) = best else { return false };
        let Some(mut active) = self.actives.take(id) else { return false };
        self.queue.release(&active.request);
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
        let beyond = self.tables().open_beyond(now);
        let mut best: Option<(f64, Sending, RequestId)> = None;
        for id in order.iter().copied() {
            if self.stays(id, beyond) {
                debug_assert!(self.would_stay(now, id), "a skipped request would stay held");
                continue;
            }
            let Some(mut active) = self.actives.take(id) else { continue };
            let choice = self.choose(now, &mut active);
            if choice == Choice::Hold {
                self.note_wait(now, &mut active);
            }
            self.actives.insert(active);
            let Choice::Send(to) = choice else { continue };
            match to.score() {
                Some(score) if impatient != Some(id) => {
                    if best.is_none_or(|(least, ..)| score < least) {
                        best = Some((score, to, id));
                        core::mem::swap(&mut self.buffers.newest, &mut self.buffers.best);
                    }
                }
                // Without a score to compare, the first that fits goes.
                _ => return Some((to, id)),
            }
        }
        let (_, to, id) = best?;
        core::mem::swap(&mut self.buffers.newest, &mut self.buffers.best);
        Some((to, id))
    }

    /// Notes why a request waits although it would fit, if the newest decision was so.
    pub(super) fn note_wait(&mut self, now: Time, active: &mut Active) {
        if active.by_choice != self.buffers.newest.by_choice {
            active.by_choice = self.buffers.newest.by_choice;
            self.queue.note_choice(&active.request, active.by_choice);
        }
        if self.buffers.newest.gives_way {
            self.queue.gives_way();
        }
        if self.buffers.newest.is_left {
            self.queue.leave(now, &active.request, active.arrived);
        }
    }

    /// Whether a decision about a held request would keep it in the queue, judging by its last
    /// decision: it fits nowhere here, and no peer accepts requests. False if that is not enough to
    /// tell.
    fn stays(&mut self, id: RequestId, beyond: u64) -> bool {
        let second_layer = self.regions.are_open();
        let Some(active) = self.actives.get_mut(id) else { return false };
        let request = &active.request;
        let nowhere_else =
            !second_layer || request.hops > 0 || request.peers & !active.tried_peers & beyond == 0;
        let plain = request.pinned.is_none() && active.permitted.places == u64::MAX;
        if !nowhere_else || !plain || !active.tried.is_empty() {
            return false;
        }
        let (Some(recall), Some(index)) = (&mut active.recall, self.rule.index()) else {
            return false;
        };
        let rooms = self.fleet.rooms();
        let depths = recall.here.depths(index, rooms.len());
        let (Some(depths), Some(ids)) = (depths, self.fleet.serving(request.model)) else {
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
