//! The table of the siblings' requests: those that other gateways of the region sent to replicas that
//! this one also has.
//!
//! They count at their replicas as own ones do. An event that never arrives does no harm: when a sibling
//! reports everything again, or is gone, its requests leave the table (`machine/siblings.rs`).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, RequestId, SiblingId, SiblingRequest, Time};

use crate::explain::Decision;
use crate::fleet::OwnReplicas;

/// Most requests in the table.
const MOST: usize = 1 << 16;

/// A sibling's request at a replica.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Theirs {
    pub(crate) request: SiblingRequest,
    /// When it was reported.
    pub(crate) sent: Time,
    /// Whether its prompt is computed.
    pub(crate) first_token: bool,
}

#[derive(Debug, Default)]
pub(crate) struct SiblingRequests {
    all: BTreeMap<(SiblingId, RequestId), Theirs>,
}

impl SiblingRequests {
    /// Whether no further request is counted: a sibling that reports no ends costs a bounded table.
    pub(crate) fn is_full(&self) -> bool {
        self.all.len() >= MOST
    }

    pub(crate) fn insert(&mut self, from: SiblingId, theirs: Theirs) {
        self.all.insert((from, theirs.request.id), theirs);
    }

    pub(crate) fn get_mut(&mut self, from: SiblingId, id: RequestId) -> Option<&mut Theirs> {
        self.all.get_mut(&(from, id))
    }

    pub(crate) fn take(&mut self, from: SiblingId, id: RequestId) -> Option<Theirs> {
        self.all.remove(&(from, id))
    }

    /// Removes and returns all of a sibling.
    pub(crate) fn take_all(&mut self, from: SiblingId) -> Vec<Theirs> {
        let (first, last) = ((from, RequestId(0)), (from, RequestId(u64::MAX)));
        let ids: Vec<_> = self.all.range(first..=last).map(|(key, _)| *key).collect();
        ids.iter().filter_map(|key| self.all.remove(key)).collect()
    }

    /// Adds what siblings have at the candidates of a decision. Without siblings it reads nothing.
    pub(crate) fn describe(&self, fleet: &OwnReplicas, decision: &mut Decision) {
        if self.all.is_empty() {
            return;
        }
        for candidate in &mut decision.candidates {
            let replica = fleet.get(candidate.replica);
            candidate.of_siblings = replica.map(|replica| replica.of_siblings).unwrap_or_default();
        }
    }

    /// Forgets those at a replica that is gone.
    pub(crate) fn replica_left(&mut self, id: ReplicaId) {
        self.all.retain(|_, theirs| theirs.request.replica != id);
    }

    /// Checks that the replicas count what is here.
    ///
    /// # Panics
    ///
    /// When one does not.
    pub(crate) fn check_invariants(
        &self,
        ids: &[ReplicaId],
        counted: impl Fn(ReplicaId) -> Option<u32>,
    ) {
        let mut by_replica: BTreeMap<ReplicaId, u32> = BTreeMap::new();
        for theirs in self.all.values() {
            *by_replica.entry(theirs.request.replica).or_default() += 1;
        }
        for id in ids {
            let here = by_replica.remove(id).unwrap_or(0);
            assert_eq!(counted(*id), Some(here), "siblings' requests at {id} are counted");
        }
        assert!(by_replica.is_empty(), "siblings' requests are at replicas that are here");
    }
}
