//! The runs: stretches of blocks that have followed each other wherever they were seen.
//!
//! A run is looked up by its first block alone, whose hash names everything before it, and records
//! how much of it each target holds. A run has no children in its middle: when chains diverge it is
//! split.

use alloc::vec::Vec;
use core::ops::Index;

use hashbrown::HashTable;
use meridian_base::mix;
use smallvec::SmallVec;

/// The part of a run that a target holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) target: u16,
    /// Leading blocks of the run, at least one.
    pub(super) len: u32,
    /// Its index in the target's order.
    pub(super) hold: u32,
}

/// A stretch of blocks and its holders, in 64 bytes: most queries are answered without reading its
/// blocks, which are elsewhere in memory.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The first block.
    name: u64,
    /// As many blocks as its longest holder has.
    blocks: Vec<u64>,
    /// By target.
    holders: SmallVec<[Holder; 1]>,
    /// The target that has held it for longest; if that one has left, any holder.
    first: u16,
}

impl Run {
    pub(super) fn blocks(&self) -> &[u64] {
        &self.blocks
    }

    /// The first block, which is the run's key.
    pub(super) fn name(&self) -> u64 {
        self.name
    }

    pub(super) fn holders(&self) -> &[Holder] {
        &self.holders
    }

    fn place(&self, target: u16) -> Result<usize, usize> {
        self.holders.binary_search_by_key(&target, |h| h.target)
    }

    pub(super) fn holder(&self, target: u16) -> Option<&Holder> {
        self.place(target).ok().map(|at| &self.holders[at])
    }

    /// Leading blocks common to the run and a chain that starts with its first block.
    #[inline]
    pub(super) fn agreed(&self, chain: &[u64]) -> usize {
        agreed(&self.blocks, chain)
    }

    /// The target that has held its leading blocks for longest.
    pub(super) fn first_of(&self, blocks: usize) -> Option<u16> {
        let reaches = |h: &&Holder| h.len as usize >= blocks;
        let first = self.holder(self.first).filter(reaches);
        first.or_else(|| self.holders.iter().find(reaches)).map(|h| h.target)
    }

    fn longest(&self) -> usize {
        let full = self.holders.iter().find(|h| h.len as usize == self.blocks.len());
        let longest = full.or_else(|| self.holders.iter().max_by_key(|h| h.len));
        longest.map_or(0, |h| h.len as usize)
    }

    fn bytes(&self) -> usize {
        let holders = if self.holders.spilled() { self.holders.capacity() } else { 0 };
        self.blocks.capacity() * size_of::<u64>() + holders * size_of::<Holder>()
    }
}

/// Number of leading blocks that two chains share. Each block names all before it, so equal last
/// blocks settle it; otherwise a binary search finds where the chains diverge.
pub(super) fn agreed(a: &[u64], b: &[u64]) -> usize {
    let both = a.len().min(b.len());
    let is_same = |at: usize| a[at - 1] == b[at - 1];
    if both > 0 && is_same(both) {
        return both;
    }
    let (mut same, mut other) = (0, both);
    while other - same > 1 {
        let middle = same.midpoint(other);
        match is_same(middle) {
            true => same = middle,
            false => other = middle,
        }
    }
    same
}

/// All runs.
#[derive(Debug)]
pub(super) struct Runs {
    all: Vec<Run>,
    free: Vec<u32>,
    /// By the first block.
    table: HashTable<u32>,
}

fn key(first: u64) -> u64 {
    mix(first, 0)
}

impl Runs {
    pub(super) fn new(runs: usize) -> Runs {
        Runs {
            all: Vec::with_capacity(runs),
            free: Vec::new(),
            table: HashTable::with_capacity(runs),
        }
    }

    /// The run that begins with this block.
    #[inline]
    pub(super) fn find(&self, first: u64) -> Option<u32> {
        self.table.find(key(first), |run| self[*run].name == first).copied()
    }

    /// Adds a run of these blocks, at least one, that no target holds yet, with spare capacity.
    pub(super) fn add(&mut self, blocks: &[u64], room: usize, first: u16) -> u32 {
        let mut all = Vec::with_capacity(room.max(blocks.len()));
        all.extend_from_slice(blocks);
        self.list(all, first)
    }

    fn list(&mut self, blocks: Vec<u64>, first: u16) -> u32 {
        let name = blocks[0];
        let run = Run { name, blocks, holders: SmallVec::new(), first };
        let at = match self.free.pop() {
            Some(at) => {
                self.all[at as usize] = run;
                at
            }
            None => {
                self.all.push(run);
                self.all.len() as u32 - 1
            }
        };
        let all = &self.all;
        self.table.insert_unique(key(name), at, |run| key(all[*run as usize].name));
        at
    }

    /// Adds a new holder of this many leading blocks.
    pub(super) fn join(&mut self, run: u32, target: u16, len: usize, hold: u32) {
        let run = &mut self.all[run as usize];
        if let Err(at) = run.place(target) {
            run.holders.insert(at, Holder { target, len: len as u32, hold });
        }
    }

    /// Appends blocks to a run, with spare capacity. Its only holder must hold them at once.
    pub(super) fn extend(&mut self, run: u32, more: &[u64], room: usize) {
        let blocks = &mut self.all[run as usize].blocks;
        blocks.reserve_exact(room.max(more.len()));
        blocks.extend_from_slice(more);
    }

    /// Lets a holder hold more than before, at most the whole run.
    pub(super) fn lengthen(&mut self, run: u32, target: u16, len: usize) {
        let run = &mut self.all[run as usize];
        if let Ok(place) = run.place(target) {
            assert!(len <= run.blocks.len(), "a holder holds at most the whole run");
            run.holders[place].len = len as u32;
        }
    }

    /// Takes up to `most` blocks off the end of the part that a target holds, and drops blocks
    /// without a holder. Returns how many were taken, and how many are left.
    pub(super) fn shorten(&mut self, run: u32, target: u16, most: usize) -> (usize, usize) {
        let there = &mut self.all[run as usize];
        let Ok(place) = there.place(target) else { return (0, 0) };
        let held = there.holders[place].len as usize;
        let (taken, left) = (held.min(most), held.saturating_sub(most));
        match left {
            0 => drop(there.holders.remove(place)),
            left => there.holders[place].len = left as u32,
        }
        let longest = there.longest();
        there.blocks.truncate(longest);
        match longest {
            0 => self.remove(run),
            longest if longest * 2 < there.blocks.capacity() => there.blocks.shrink_to_fit(),
            _ => {}
        }
        (taken, left)
    }

    fn remove(&mut self, run: u32) {
        let name = self[run].name;
        if let Ok(slot) = self.table.find_entry(key(name), |r| *r == run) {
            slot.remove();
        }
        self.all[run as usize] = Run::default();
        assert!(self.free.len() < self.all.len(), "a run is removed once");
        self.free.push(run);
    }

    /// Splits a run after its first `at` blocks, fewer than all. A target that held more keeps the
    /// new run at the same place of its order, and the rest in one that `hold` makes of it.
    pub(super) fn split(&mut self, run: u32, at: usize, mut hold: impl FnMut(u32, u32) -> u32) {
        let whole = &mut self.all[run as usize];
        assert!(0 < at && at < whole.blocks.len(), "both parts of a split run have blocks");
        let blocks = whole.blocks.split_off(at);
        whole.blocks.shrink_to_fit();
        let below = self.list(blocks, 0);
        let mut holders = SmallVec::new();
        for holder in &mut self.all[run as usize].holders {
            if holder.len as usize > at {
                holders.push(Holder { len: holder.len - at as u32, ..*holder });
                (holder.len, holder.hold) = (at as u32, hold(holder.hold, below));
            }
        }
        let first = self.all[run as usize].first;
        let below_run = &mut self.all[below as usize];
        (below_run.holders, below_run.first) = (holders, first);
    }

    /// Every run that has a holder.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Run)> {
        (0..).zip(&self.all).filter(|(_, run)| !run.blocks.is_empty())
    }

    pub(super) fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Run>()
            + self.free.capacity() * size_of::<u32>()
            + self.table.allocation_size()
            + self.all.iter().map(Run::bytes).sum::<usize>()
    }
}

impl Index<u32> for Runs {
    type Output = Run;
    #[inline]
    fn index(&self, run: u32) -> &Run {
        &self.all[run as usize]
    }
}

#[cfg(test)]
mod tests {
    use meridian_base::Rng;

    use super::*;

    // The point where two chains diverge is found at any position.
    #[test]
    fn chains_agree_up_to_where_they_part() {
        let mut rng = Rng::new(1);
        for _ in 0..2_000 {
            let chain: Vec<u64> = (0..rng.below(40) as u64).collect();
            let mut other: Vec<u64> = (0..rng.below(40) as u64).collect();
            let parts = rng.below(other.len() + 1);
            other[parts..].iter_mut().for_each(|b| *b += 1_000);
            assert_eq!(agreed(&chain, &other), parts.min(chain.len()));
        }
    }
}
