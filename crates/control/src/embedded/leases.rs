//! Leases in memory: who ends when, and which keys go with them.
//!
//! The file knows which leases there are and how long each lasts, not when it ends: a keep-alive
//! writes nothing. After a restart each begins anew, as etcd's do when its leader changes. That is
//! the safe side: an owner that still counts on its lease finds that the store does too.

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

    /// Begins it anew; `None` when there is no such lease.
    pub(super) fn keep(&mut self, now: Time, id: LeaseId) -> Option<Duration> {
        let held = self.held.get_mut(&id)?;
        self.ends.remove(&(held.ends, id));
        held.ends = held.ends.max(now + held.ttl);
        self.ends.insert((held.ends, id));
        Some(held.ttl)
    }

    /// The keys that go with it.
    pub(super) fn keys(&self, id: LeaseId) -> Vec<String> {
        self.held.get(&id).map(|held| held.keys.iter().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn end(&mut self, id: LeaseId) {
        if let Some(held) = self.held.remove(&id) {
            self.ends.remove(&(held.ends, id));
        }
    }

    /// A key goes over from one lease, or none, to another, or none.
    pub(super) fn move_key(&mut self, key: &str, from: Option<LeaseId>, to: Option<LeaseId>) {
        if let Some(held) = from.and_then(|id| self.held.get_mut(&id)) {
            held.keys.remove(key);
        }
        if let Some(held) = to.and_then(|id| self.held.get_mut(&id)) {
            held.keys.insert(key.to_owned());
        }
    }

    /// The one that ends first.
    pub(super) fn next_end(&self) -> Option<(Time, LeaseId)> {
        self.ends.first().copied()
    }
}
