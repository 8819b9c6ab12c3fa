//! Blocks that are held for another engine, each request's until its lease expires.

use crate::kv::Table;
use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Range;
use meridian_base::{RequestId, Time};

/// The tables of prefill legs that have ended, and the ends of their leases in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    tables: BTreeMap<u64, Lease>,
    expiries: BTreeSet<(Time, u64)>,
    /// The number of the next block that is held.
    next: u32,
}

#[derive(Clone, Debug)]
struct Lease {
    until: Time,
    table: Table,
    first: u32,
}

impl Held {
    /// Holds a table of a cache of `total` blocks.
    pub(super) fn insert(&mut self, id: RequestId, until: Time, table: Table, total: u32) {
        let first = if table.len() > total - self.next { 0 } else { self.next };
        self.next = first + table.len();
        let before = self.tables.insert(id.0, Lease { until, table, first });
        assert!(before.is_none(), "a held id is refused as a duplicate");
        self.expiries.insert((until, id.0));
    }

    /// Extends a lease, which never gets shorter.
    pub(super) fn renew(&mut self, id: RequestId, until: Time) {
        let Some(Lease { until: end, .. }) = self.tables.get_mut(&id.0) else { return };
        if until > *end {
            self.expiries.remove(&(*end, id.0));
            self.expiries.insert((until, id.0));
            *end = until;
        }
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Table> {
        let Lease { until, table, .. } = self.tables.remove(&id.0)?;
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

    /// Numbers of a request's blocks.
    pub(super) fn numbers(&self, id: RequestId) -> Option<Range<u32>> {
        self.tables.get(&id.0).map(|lease| lease.first..lease.first + lease.table.len())
    }

    pub(super) fn len(&self) -> u32 {
        self.tables.len() as u32
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values().map(|lease| &lease.table)
    }

    pub(super) fn check_invariants(&self) {
        let ends: BTreeSet<_> = self.tables.iter().map(|(id, of)| (of.until, *id)).collect();
        assert_eq!(ends, self.expiries, "each held table has one lease");
    }
}
