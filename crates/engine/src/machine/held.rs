//! Blocks that are held for another engine, each request's until its lease expires.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use meridian_base::{RequestId, Time};

/// The tables of prefill legs that have ended, and the ends of their leases in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    tables: BTreeMap<u64, (Time, Vec<u32>)>,
    expiries: BTreeSet<(Time, u64)>,
}

impl Held {
    pub(super) fn insert(&mut self, id: RequestId, until: Time, table: Vec<u32>) {
        let before = self.tables.insert(id.0, (until, table));
        debug_assert!(before.is_none(), "a held id is refused as a duplicate");
        self.expiries.insert((until, id.0));
    }

    /// Extends a lease, which never gets shorter.
    pub(super) fn renew(&mut self, id: RequestId, until: Time) {
        let Some((end, _)) = self.tables.get_mut(&id.0) else { return };
        if until > *end {
            self.expiries.remove(&(*end, id.0));
            self.expiries.insert((until, id.0));
            *end = until;
        }
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Vec<u32>> {
        let (until, table) = self.tables.remove(&id.0)?;
        self.expiries.remove(&(until, id.0));
        Some(table)
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.expiries.first().map(|(until, _)| *until)
    }

    /// The request whose lease expires first.
    pub(super) fn first(&self) -> Option<RequestId> {
        self.expiries.first().map(|(_, id)| RequestId(*id))
    }

    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.tables.contains_key(&id.0)
    }

    pub(super) fn table(&self, id: RequestId) -> Option<&[u32]> {
        self.tables.get(&id.0).map(|(_, table)| &table[..])
    }

    pub(super) fn len(&self) -> u32 {
        self.tables.len() as u32
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.tables.values().flat_map(|(_, table)| table.iter().copied())
    }

    pub(super) fn check_invariants(&self) {
        let ends: BTreeSet<_> = self.tables.iter().map(|(id, (until, _))| (*until, *id)).collect();
        assert_eq!(ends, self.expiries, "each held table has one lease");
    }
}
