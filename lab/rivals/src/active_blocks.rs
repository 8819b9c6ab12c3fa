//! Tracks the blocks in use at each replica, each counted once however many requests share it.
//!
//! A block is named by a hash of the whole prefix up to it, so if one is in use, all before it are,
//! and bisection finds the blocks that a request would add. Memory is bounded by the number of
//! requests being served.

use alloc::vec::Vec;
use hashbrown::HashMap;
use meridian_base::{ReplicaId, Seeded};

/// How many requests use each block of a replica.
type Uses = HashMap<u64, u32, Seeded>;

#[derive(Default)]
pub(crate) struct ActiveBlocks {
    at: Vec<Uses>,
}

impl ActiveBlocks {
    pub(crate) fn add(&mut self, replica: ReplicaId, blocks: &[u64]) {
        if self.at.len() <= replica.index() {
            self.at.resize_with(replica.index() + 1, Uses::default);
        }
        for block in blocks {
            *self.at[replica.index()].entry(*block).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, replica: ReplicaId, blocks: &[u64]) {
        let Some(uses) = self.at.get_mut(replica.index()) else { return };
        for block in blocks {
            match uses.get_mut(block) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) => {
                    uses.remove(block);
                }
                None => {}
            }
        }
    }

    /// Blocks that would be in use at `replica` if it also served a request with these.
    pub(crate) fn with(&self, replica: ReplicaId, blocks: &[u64]) -> usize {
        let Some(uses) = self.at.get(replica.index()) else { return blocks.len() };
        let shared = blocks.partition_point(|block| uses.contains_key(block));
        uses.len() + blocks.len() - shared
    }

    /// Removes the replicas that are not among `ids` (ascending).
    pub(crate) fn keep(&mut self, ids: &[ReplicaId]) {
        for (i, uses) in self.at.iter_mut().enumerate() {
            if ids.binary_search_by_key(&i, |r| r.index()).is_err() {
                uses.clear();
            }
        }
    }
}
