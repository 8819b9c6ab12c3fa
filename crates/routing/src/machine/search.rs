//! When to search the held queue again after a search that released nothing, though a replica has room.
//!
//! Near saturation most held requests wait by choice: another replica has room, and theirs is worth
//! waiting for. Every event would have all of them decided about once more, with the same result. So
//! after a search without result the next one comes when a replica's room grows, when another peer
//! takes requests, when a request may wait no longer, or a quarter of a second later: what has room may
//! have become better than what is waited for.

use alloc::vec::Vec;
use meridian_base::{Duration, PeerId, Time};

use super::Routing;

/// Until the next search where no room has grown.
const AGAIN: Duration = Duration::from_millis(250);

/// What the machine remembers of its last search.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// When to search again though no room grows; `None`: the last search released a request.
    again: Option<Time>,
    /// What each replica has room for, and the peers that take something, a bit each.
    rooms: Vec<f32>,
    peers: u64,
}

impl Routing {
    /// Remembers all rooms before an event changes them.
    pub(super) fn before_event(&mut self, now: Time) {
        if self.search.again.is_some() {
            self.note_rooms(now);
        }
    }

    /// Whether searching the queue may find a request to send.
    pub(super) fn may_find(&mut self, now: Time) -> bool {
        self.search.again.is_none_or(|again| again <= now) || self.note_rooms(now)
    }

    /// The queue was looked over, and nobody else goes.
    pub(super) fn looked(&mut self, now: Time) {
        let in_vain = self.held.len() > 0 && self.policy.waits_for_room() && self.anybody_open();
        self.search.again = in_vain.then(|| {
            let ends = self.held.next_may_not_wait(now);
            ends.map_or(now + AGAIN, |ends| ends.min(now + AGAIN))
        });
    }

    /// Somebody is held who may wait until then.
    pub(super) fn look_by(&mut self, until: Time) {
        self.search.again = self.search.again.map(|again| again.min(until));
    }

    /// When the next look is due after one in vain.
    pub(super) fn look_again(&self) -> Option<Time> {
        self.search.again
    }

    /// Whether any news may release a held request, and not only news of room.
    #[must_use]
    pub fn minds_all_news(&self) -> bool {
        self.search.again.is_none() && self.anybody_open()
    }

    /// Whether a digest of a peer that tells of so many held requests, and of room or none, may
    /// release a held request. After a look in vain only one of a peer that took nothing then may.
    #[must_use]
    pub fn minds_digest(&self, peer: PeerId, held: u32, room: bool) -> bool {
        let Search { again: Some(_), peers, .. } = &self.search else { return room };
        let took = peers & 1 << peer.0 != 0;
        room && !took && held <= self.config.peering.most_held(self.held.len())
    }

    /// Remembers all rooms; true when one has grown since the last time.
    fn note_rooms(&mut self, now: Time) -> bool {
        let peers = if self.has_second_layer() { self.open_beyond(now) } else { 0 };
        let rooms = self.replicas.rooms();
        let Search { rooms: before, peers: open, .. } = &mut self.search;
        let mut grown = rooms.len() > before.len() || peers & !*open != 0;
        *open = peers;
        before.resize(rooms.len(), f32::INFINITY);
        for (before, room) in before.iter_mut().zip(rooms) {
            grown |= room > before;
            *before = *room;
        }
        grown
    }
}
