//! Leases in memory: when each ends, and its keys.
//!
//! The file contains the leases and their durations, not their ends: a keep-alive writes nothing.
//! After a restart each lease restarts, as etcd's do when its leader changes. That is the safe
//! side: if an owner relies on its lease, so does the store.

use std::collections::{BTreeMap, BTreeSet};

use meridian_base::{Duration, Time};

use crate::store::LeaseId;

#[derive(Debug)]
struct Held {
    ttl: Duration,
    ends: Time,
    keys: BTreeSet<String>,
}

/// All leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    held: BTreeMap<LeaseId, Held>,
    ends: BTreeSet<(Time, LeaseId)>,
}

impl Leases {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn has(&self, id: LeaseId) -> bool {
        self.held.contains_key(&id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (LeaseId, Duration)> {
        self.held.iter().map(|(id, held)| (*id, held.ttl))
    }

    pub(super) fn begin(&mut self, now: Time, id: LeaseId, ttl: Duration) {
        let ends = now + ttl;
        let before = self.held.insert(id, Held { ttl, ends, keys: BTreeSet::new() });
        assert!(before.is_none(), "the number of a lease is given out once");
        self.ends.insert((ends, id));
    }

    /// Renews a lease; `None` if there is no such lease.
    pub(super) fn keep(&mut self, now: Time, id: LeaseId) -> Option<Duration> {
        let held = self.held.get_mut(&id)?;
        let was_there = self.ends.remove(&(held.ends, id));
        assert!(was_there, "a lease that is renewed is in the index of ends");
        held.ends = held.ends.max(now + held.ttl);
        self.ends.insert((held.ends, id));
        Some(held.ttl)
    }

    /// The keys bound to a lease.
    pub(super) fn keys(&self, id: LeaseId) -> Vec<String> {
        self.held.get(&id).map(|held| held.keys.iter().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn end(&mut self, id: LeaseId) {
        if let Some(held) = self.held.remove(&id) {
            assert!(held.keys.is_empty(), "a lease ends after its keys are deleted");
            let was_there = self.ends.remove(&(held.ends, id));
            assert!(was_there, "a lease that ends is in the index of ends");
        }
    }

    /// Moves a key from one lease, or none, to another, or none.
    pub(super) fn move_key(&mut self, key: &str, from: Option<LeaseId>, to: Option<LeaseId>) {
        if let Some(held) = from.and_then(|id| self.held.get_mut(&id)) {
            assert!(held.keys.remove(key), "a lease knows the keys that are bound to it");
        }
        if let Some(held) = to.and_then(|id| self.held.get_mut(&id)) {
            let is_new = held.keys.insert(key.to_owned());
            assert!(is_new, "a key leaves its lease before it is bound again");
        }
    }

    /// The lease that ends first.
    pub(super) fn next_end(&self) -> Option<(Time, LeaseId)> {
        assert_eq!(self.held.len(), self.ends.len(), "each lease has one end in the index");
        self.ends.first().copied()
    }
}
