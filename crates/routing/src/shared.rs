//! Shared prefixes: which blocks a peer's replicas hold, told by the peer itself.
//!
//! The snapshot knows only what this region sent away. What a peer's own clients brought there, a
//! shared system prompt or a tree that two regions work on, it learns from the digest: hashes of
//! blocks dispatched lately, each of which names the whole prefix up to it. Every eighth block is
//! told, so a match is known to 128 tokens in the usual granularity, and at most so many hashes a
//! digest, the newest first, so that the bandwidth is bounded. A region whose digests are lost
//! misses little: each hash stands in the digests of a while.
//!
//! Deliberately not here: evictions at the peer. What was not told again for a minute is taken to
//! be gone.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::BuildHasherDefault;
use hashbrown::HashMap;
use meridian_base::{Duration, ReplicaId, Time};

use crate::active::IdHasher;

/// One prefix that a replica holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPrefix {
    /// Hash of its last block, chained from the first.
    pub hash: u64,
    /// Where it is.
    pub replica: ReplicaId,
}

/// Every so many blocks one is told.
const STRIDE: usize = 8;
/// Hashes kept of one peer.
pub(crate) const KNOWN: usize = 1 << 16;
/// A hash that was not told again for this long says nothing.
pub(crate) const TRUSTED: Duration = Duration::from_secs(60);

/// Who is known to hold the beginning of a prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) replica: ReplicaId,
    /// How many of its blocks.
    pub(crate) blocks: u32,
    /// How long that says anything.
    pub(crate) until: Time,
}

/// Hashes with the replica that was last said to hold each; beyond the cap the oldest go.
#[derive(Debug)]
pub(crate) struct Marks {
    cap: usize,
    order: VecDeque<(Time, u64)>,
    newest: HashMap<u64, (Time, ReplicaId), BuildHasherDefault<IdHasher>>,
}

impl Marks {
    pub(crate) fn new(cap: usize) -> Marks {
        Marks { cap, order: VecDeque::new(), newest: HashMap::default() }
    }

    /// Notes what a replica gets, sparing what was noted less than `quiet` ago.
    pub(crate) fn sent(&mut self, now: Time, replica: ReplicaId, blocks: &[u64], quiet: Duration) {
        for hash in blocks.iter().skip(STRIDE - 1).step_by(STRIDE) {
            self.note(now, SharedPrefix { hash: *hash, replica }, quiet);
        }
    }

    pub(crate) fn note(&mut self, now: Time, prefix: SharedPrefix, quiet: Duration) {
        let SharedPrefix { hash, replica } = prefix;
        let known = self.newest.get(&hash);
        if known.is_some_and(|(at, r)| *r == replica && now.since(*at) < quiet) {
            return;
        }
        self.newest.insert(hash, (now, replica));
        self.order.push_back((now, hash));
        while self.order.len() > self.cap {
            let Some((at, old)) = self.order.pop_front() else { return };
            if self.newest.get(&old).is_some_and(|(newest, _)| *newest == at) {
                self.newest.remove(&old);
            }
        }
    }

    /// What was noted since `from`, the newest first, at most `most`.
    pub(crate) fn since(&self, from: Time, most: usize) -> Vec<SharedPrefix> {
        let recent = self.order.iter().rev().take_while(|(at, _)| *at >= from);
        let newest = recent.filter_map(|(at, hash)| {
            let (newest, replica) = self.newest.get(hash)?;
            (newest == at).then_some(SharedPrefix { hash: *hash, replica: *replica })
        });
        newest.take(most).collect()
    }

    /// The longest beginning of the chain that is known of: who holds it, and its blocks.
    pub(crate) fn longest(&self, now: Time, blocks: &[u64]) -> Option<Known> {
        let told = (STRIDE - 1..blocks.len()).step_by(STRIDE);
        told.rev().find_map(|at| {
            let (noted, replica) = *self.newest.get(&blocks[at])?;
            let known = Known { replica, blocks: at as u32 + 1, until: noted + TRUSTED };
            (now <= known.until).then_some(known)
        })
    }
}
