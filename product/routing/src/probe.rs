//! The schedule of probes: when to health-check each replica.
//!
//! Probes are frequent if the report can change a decision (requests are present or arriving, and
//! there is more than one replica to choose from), and rare on an idle replica. The first probes
//! are spread over one interval by a golden-ratio step, and each later one is timed from the last,
//! so a thousand replicas are never probed at the same instant.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use meridian_base::{Duration, ReplicaId, Time};

/// Pace of probes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeConfig {
    /// Between probes of a replica in use (SkyWalker section 4.1: 100 ms).
    pub busy: Duration,
    /// Between probes of an idle one.
    pub idle: Duration,
    /// Consecutive misses after which a replica is down.
    pub down_after: u32,
    /// A report older than this is no longer used.
    pub stale: Duration,
}

impl Default for ProbeConfig {
    fn default() -> Self {
        ProbeConfig {
            busy: Duration::from_millis(100),
            idle: Duration::from_secs(1),
            down_after: 3,
            stale: Duration::from_secs(2),
        }
    }
}

/// The schedule: one entry a replica, ordered by time.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    due: BTreeSet<(Time, ReplicaId)>,
}

impl Schedule {
    /// Adds a new replica, with its first probe somewhere in the coming interval.
    pub(crate) fn enter(&mut self, now: Time, id: ReplicaId, interval: Duration) -> Time {
        let spread = u64::from(id.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let offset = (interval.as_nanos() * u128::from(spread)) >> 32;
        let offset = u64::try_from(offset).unwrap_or(u64::MAX);
        let at = now + Duration::from_nanos(offset);
        self.set(at, id);
        at
    }

    /// Schedules a probe of `id`, which has no entry now, at `at`.
    pub(crate) fn set(&mut self, at: Time, id: ReplicaId) {
        let is_new = self.due.insert((at, id));
        assert!(is_new, "{id} has no other probe then");
    }

    /// Brings an idle replica's probe forward, now that it is in use. O(log n) when it is due
    /// soon anyway.
    pub(crate) fn hasten(&mut self, present: Time, wanted: Time, id: ReplicaId) -> Time {
        if wanted < present && self.due.remove(&(present, id)) {
            self.set(wanted, id);
            return wanted;
        }
        present
    }

    pub(crate) fn leave(&mut self, id: ReplicaId) {
        self.due.retain(|(_, r)| *r != id);
    }

    /// Checks that each probe is of a replica that is here, and that it has no other.
    pub(crate) fn check(&self, present: &[ReplicaId]) {
        let mut ids: Vec<ReplicaId> = self.due.iter().map(|(_, id)| *id).collect();
        ids.sort_unstable();
        assert!(ids.is_sorted_by(|a, b| a < b), "a replica has one scheduled probe");
        let is_here = |id: &ReplicaId| present.binary_search(id).is_ok();
        assert!(ids.iter().all(is_here), "a probed replica is here");
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.due.first().map(|(t, _)| *t)
    }

    /// Removes and returns a replica whose probe is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<ReplicaId> {
        let first = *self.due.first()?;
        (first.0 <= now).then(|| {
            self.due.remove(&first);
            first.1
        })
    }
}
