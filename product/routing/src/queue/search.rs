//! When to search the held queue again after a search that released nothing although a replica has
//! free capacity.
//!
//! Near saturation most held requests wait by choice: another replica has free capacity, but the
//! one they wait for is better. Deciding about all of them again at every event would give the same
//! result. After a search without result the next one therefore runs when a replica's free capacity
//! grows, when another peer accepts requests, when a request may wait no longer, or after a quarter
//! of a second, by when the replica with capacity may have become the better choice.

use alloc::vec::Vec;
use meridian_base::{Duration, Time};

use crate::row::Row;

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

impl Search {
    /// When the next search is due after one without result.
    pub(super) fn again(&self) -> Option<Time> {
        self.again
    }

    /// Whether one of these peers, a bit each, accepted requests at the last search; `None` if that
    /// released a request.
    pub(super) fn took(&self, peers: u64) -> Option<bool> {
        self.again.map(|_| self.peers & peers != 0)
    }

    /// Records a search; `ends` is when the next held request may wait no longer.
    pub(super) fn ended(&mut self, now: Time, in_vain: bool, ends: Option<Time>) {
        self.again = in_vain.then(|| ends.map_or(now + AGAIN, |ends| ends.min(now + AGAIN)));
    }

    /// Records that a held request may wait only until then.
    pub(super) fn look_by(&mut self, until: Time) {
        self.again = self.again.map(|again| again.min(until));
    }

    /// Saves all free capacities; true if one has grown since the last time. A prefill replica alone
    /// can take no request.
    pub(super) fn note(&mut self, rooms: &[f32], rows: &[Row], peers: u64) -> bool {
        assert_eq!(rooms.len(), rows.len(), "each replica has a row and a free capacity");
        let Search { rooms: before, peers: open, .. } = self;
        let mut grown = rooms.len() > before.len() || peers & !*open != 0;
        *open = peers;
        before.resize(rooms.len(), f32::INFINITY);
        for ((before, room), row) in before.iter_mut().zip(rooms).zip(rows) {
            grown |= room > before && row.pool.role.answers();
            *before = *room;
        }
        grown
    }
}
