//! Matches that are kept: a held request is looked at many times before it goes.
//!
//! A target's match with a chain changes only where it ends: when the target gets the block behind
//! the end, or loses the block before it. The index counts what comes and goes by a few bits of the
//! blocks' hashes, and a kept match is good while the counts at its ends stand still. Two blocks
//! with the same bits make it look changed when it is not, which costs a match and no more.

use alloc::vec;
use alloc::vec::Vec;

use super::PrefixIndex;

/// Counters; few enough to stay in the processor's caches.
const COUNTERS: usize = 1 << 14;
/// Most different ends whose counters are looked at. A match with more is good only while nothing
/// changes at all.
const MOST_ENDS: usize = 16;

/// How often blocks came or went: all, and by some bits of their hash.
#[derive(Debug)]
pub(super) struct Changes {
    all: u64,
    by_hash: Vec<u32>,
}

impl Changes {
    pub(super) fn new() -> Changes {
        Changes { all: 0, by_hash: vec![0; COUNTERS] }
    }

    pub(super) fn bytes(&self) -> usize {
        self.by_hash.capacity() * size_of::<u32>()
    }

    fn counter(hash: u64) -> usize {
        (hash >> 32) as usize % COUNTERS
    }

    /// A target got the block, or lost it.
    pub(super) fn count(&mut self, hash: u64) {
        self.all += 1;
        let counter = &mut self.by_hash[Self::counter(hash)];
        *counter = counter.wrapping_add(1);
    }

    /// The sum of the counters on both sides of these ends. It only grows.
    fn at(&self, ends: &[u32], blocks: &[u64]) -> u64 {
        let sides = ends.iter().flat_map(|end| {
            let (before, behind) = ((*end as usize).wrapping_sub(1), *end as usize);
            [blocks.get(before), blocks.get(behind)]
        });
        sides.flatten().map(|hash| u64::from(self.by_hash[Self::counter(*hash)])).sum()
    }
}

/// What a chain matched when it was last looked at.
#[derive(Debug, Default)]
pub(crate) struct Recalled {
    depths: Vec<u32>,
    /// The different depths; too many where there are more than [`MOST_ENDS`].
    ends: Vec<u32>,
    /// The index's counts then: of all changes, and at the ends.
    all: u64,
    at_ends: u64,
}

impl Recalled {
    fn note_ends(&mut self) {
        self.ends.clear();
        for depth in &self.depths {
            if self.ends.last() != Some(depth) && !self.ends.contains(depth) {
                self.ends.push(*depth);
                if self.ends.len() > MOST_ENDS {
                    return;
                }
            }
        }
    }

    fn is_good(&self, index: &PrefixIndex, blocks: &[u64], width: usize) -> bool {
        let changes = &index.changes;
        self.depths.len() == width
            && (self.all == changes.all
                || self.ends.len() <= MOST_ENDS && self.at_ends == changes.at(&self.ends, blocks))
    }
}

impl PrefixIndex {
    /// [`matches`](Self::matches) of a chain that was matched before, as `kept` remembers. The
    /// same chain goes with the same `kept`, always.
    pub(crate) fn matches_again(&self, blocks: &[u64], depth: &mut [u32], kept: &mut Recalled) {
        if kept.is_good(self, blocks, depth.len()) {
            depth.copy_from_slice(&kept.depths);
            debug_assert!(self.agrees(blocks, &kept.depths), "a match changes at its ends only");
        } else {
            self.matches(blocks, depth);
            kept.depths.clear();
            kept.depths.extend_from_slice(depth);
            kept.note_ends();
            kept.at_ends = self.changes.at(&kept.ends, blocks);
        }
        kept.all = self.changes.all;
    }

    fn agrees(&self, blocks: &[u64], depths: &[u32]) -> bool {
        let mut fresh = vec![0; depths.len()];
        self.matches(blocks, &mut fresh);
        fresh == depths
    }
}
