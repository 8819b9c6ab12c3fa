//! Sums per replica over the last minutes, for policies that weigh recent work.
//!
//! A window of w is kept as 36 slices; the oldest is dropped as a whole, so the window is exact to
//! w / 36. Memory is bounded by replicas, not by requests, and a sum is one look-up.

use alloc::vec::Vec;
use meridian_base::{Duration, ReplicaId, Time};

const SLICES: usize = 36;

/// The work given to one replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) requests: u32,
    pub(crate) cost_ms: f32,
}

/// A sliding window of work.
pub(crate) struct Window {
    slice: Duration,
    /// Number of the newest slice since the epoch.
    newest: u64,
    replicas: Vec<Recent>,
}

#[derive(Clone)]
struct Recent {
    sum: Work,
    slices: [Work; SLICES],
}

impl Window {
    pub(crate) fn new(length: Duration) -> Window {
        let slice = (length / SLICES as u32).max(Duration::from_nanos(1));
        Window { slice, newest: 0, replicas: Vec::new() }
    }

    fn slice_at(&self, now: Time) -> u64 {
        now.as_nanos() / self.slice.as_nanos() as u64
    }

    /// The slices that are older than the window at slice `at`.
    fn expired(&self, at: u64) -> impl Iterator<Item = usize> + use<> {
        // After an idle time longer than the window, 36 steps have passed every slice already.
        (self.newest + 1..=at).take(SLICES).map(|gone| (gone % SLICES as u64) as usize)
    }

    /// Adds a request of `cost_ms` for `replica` now, and drops work older than the window.
    pub(crate) fn add(&mut self, now: Time, replica: ReplicaId, cost_ms: f32) {
        let at = self.slice_at(now);
        for i in self.expired(at) {
            self.replicas.iter_mut().for_each(|r| r.drop(i));
        }
        self.newest = self.newest.max(at);
        if self.replicas.len() <= replica.index() {
            self.replicas.resize(replica.index() + 1, Recent::NONE);
        }
        let recent = &mut self.replicas[replica.index()];
        recent.slices[(self.newest % SLICES as u64) as usize].add(cost_ms);
        recent.sum.add(cost_ms);
    }

    /// The work given to `replica` within the window that ends now.
    #[inline]
    pub(crate) fn sum(&self, now: Time, replica: ReplicaId) -> Work {
        let Some(recent) = self.replicas.get(replica.index()) else { return Work::NONE };
        let at = self.slice_at(now);
        if at <= self.newest {
            return recent.sum;
        }
        let mut recent = recent.clone();
        self.expired(at).for_each(|i| recent.drop(i));
        recent.sum
    }

    /// Removes replicas that are gone.
    pub(crate) fn keep(&mut self, present: &[ReplicaId]) {
        for (i, recent) in self.replicas.iter_mut().enumerate() {
            if present.binary_search_by_key(&i, |r| r.index()).is_err() {
                *recent = Recent::NONE;
            }
        }
    }
}

impl Work {
    const NONE: Work = Work { requests: 0, cost_ms: 0.0 };

    fn add(&mut self, cost_ms: f32) {
        self.requests += 1;
        self.cost_ms += cost_ms;
    }
}

impl Recent {
    const NONE: Recent = Recent { sum: Work::NONE, slices: [Work::NONE; SLICES] };

    /// Drops slice `i`. The sum is recomputed: differences of floats would drift.
    fn drop(&mut self, i: usize) {
        if self.slices[i].requests > 0 {
            self.slices[i] = Work::NONE;
            self.sum = self.slices.iter().fold(Work::NONE, |a, b| Work {
                requests: a.requests + b.requests,
                cost_ms: a.cost_ms + b.cost_ms,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Work counts until it is a window old, also across long idle times.
    #[test]
    fn forgets_after_the_window() {
        let mut w = Window::new(Duration::from_secs(180));
        let at = |s: u64| Time::from_millis(s * 1000);
        w.add(at(10), ReplicaId(2), 5.0);
        w.add(at(100), ReplicaId(2), 7.0);
        assert_eq!(w.sum(at(100), ReplicaId(2)), Work { requests: 2, cost_ms: 12.0 });
        assert_eq!(w.sum(at(189), ReplicaId(2)).requests, 2);
        assert_eq!(w.sum(at(191), ReplicaId(2)), Work { requests: 1, cost_ms: 7.0 });
        assert_eq!(w.sum(at(189), ReplicaId(2)).requests, 2, "asking forgets nothing");
        assert_eq!(w.sum(at(100_000), ReplicaId(2)), Work::NONE);
        w.add(at(191), ReplicaId(1), 1.0);
        assert_eq!(w.sum(at(191), ReplicaId(2)), Work { requests: 1, cost_ms: 7.0 });
    }

    // A replica that never received anything has a sum of zero.
    #[test]
    fn unknown_replicas_are_idle() {
        let w = Window::new(Duration::from_secs(180));
        assert_eq!(w.sum(Time::ZERO, ReplicaId(9)), Work::NONE);
    }
}
