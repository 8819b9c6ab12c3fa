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
        self.held.insert(id, Held { ttl, ends, keys: BTreeSet::new() });
        self.ends.insert((ends, id));
    }

    /// Renews a lease; `None` if there is no such lease.
    pub(super) fn keep(&mut self, now: Time, id: LeaseId) -> Option<Duration> {
        let held = self.held.get_mut(&id)?;
        self.ends.remove(&(held.ends, id));
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
            self.ends.remove(&(held.ends, id));
        }
    }

    /// Moves a key from one lease, or none, to another, or none.
    pub(super) fn move_key(&mut self, key: &str, from: Option<LeaseId>, to: Option<LeaseId>) {
        if let Some(held) = from.and_then(|id| self.held.get_mut(&id)) {
            held.keys.remove(key);
        }
        if let Some(held) = to.and_then(|id| self.held.get_mut(&id)) {
            held.keys.insert(key.to_owned());
        }
    }

    /// The lease that ends first.
    pub(super) fn next_end(&self) -> Option<(Time, LeaseId)> {
        self.ends.first().copied()
    }
}
