//! When to search the held queue again after a search that released nothing although a replica has
//! free capacity.
//!
//! Near saturation most held requests wait by choice: another replica has free capacity, but the
//! one they wait for is better. Deciding about all of them again at every event would give the same
//! result. After a search without result the next one therefore runs when a replica's free capacity
//! grows, when another peer accepts requests, when a request may wait no longer, or after a quarter
//! of a second, by when the replica with capacity may have become the better choice.

use alloc::vec::Vec;
use meridian_base::{Duration, PeerId, Time};

use super::Routing;

/// Time until the next search if no replica's capacity has grown.
const AGAIN: Duration = Duration::from_millis(250);

/// State of the last search of the queue.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// When to search again although no capacity has grown; `None` if the last search released a
    /// request.
    again: Option<Time>,
    /// Each replica's free capacity, and the peers that accept requests, one bit each.
    rooms: Vec<f32>,
    peers: u64,
}

impl Routing {
    /// Saves all free capacities before an event changes them.
    pub(super) fn before_event(&mut self, now: Time) {
        if self.search.again.is_some() {
            self.note_rooms(now);
        }
    }

    /// Whether searching the queue may find a request to send.
    pub(super) fn may_find(&mut self, now: Time) -> bool {
        self.search.again.is_none_or(|again| again <= now) || self.note_rooms(now)
    }

    /// Records that the queue was searched and no further request goes.
    pub(super) fn looked(&mut self, now: Time) {
        let in_vain =
            self.held.len() > 0 && self.rule.policy.waits_for_room() && self.anybody_open();
        self.search.again = in_vain.then(|| {
            let ends = self.held.next_may_not_wait(now);
            ends.map_or(now + AGAIN, |ends| ends.min(now + AGAIN))
        });
    }

    /// Records that a held request may wait only until then.
    pub(super) fn look_by(&mut self, until: Time) {
        self.search.again = self.search.again.map(|again| again.min(until));
    }

    /// When the next search is due after one without result.
    pub(super) fn look_again(&self) -> Option<Time> {
        self.search.again
    }

    /// Whether any event may release a held request, not only one that frees capacity.
    #[must_use]
    pub fn minds_all_news(&self) -> bool {
        self.search.again.is_none() && self.anybody_open()
    }

    /// Whether a digest from a peer with this many held requests, and with or without capacity, may
    /// release a held request. After a search without result, only a digest of a peer that accepted
    /// nothing then may.
    #[must_use]
    pub fn minds_digest(&self, peer: PeerId, held: u32, room: bool) -> bool {
        let Search { again: Some(_), peers, .. } = &self.search else { return room };
        let took = peers & 1 << peer.0 != 0;
        room && !took && held <= self.config.peering.most_held(self.held.len())
    }

    /// Saves all free capacities; true if one has grown since the last time. A prefill replica alone
    /// can take no request.
    fn note_rooms(&mut self, now: Time) -> bool {
        let peers = if self.has_second_layer() { self.open_beyond(now) } else { 0 };
        let rooms = self.replicas.rooms();
        let Search { rooms: before, peers: open, .. } = &mut self.search;
        let mut grown = rooms.len() > before.len() || peers & !*open != 0;
        *open = peers;
        before.resize(rooms.len(), f32::INFINITY);
        for ((before, room), row) in before.iter_mut().zip(rooms).zip(self.replicas.rows()) {
            grown |= room > before && row.pool.role.answers();
            *before = *room;
        }
        grown
    }
}
