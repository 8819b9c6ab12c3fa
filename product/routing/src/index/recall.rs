//! A cache of prefix matches: a held request is examined many times before it is dispatched.
//!
//! A target's match with a chain changes only at its end: when the target gains or loses blocks of
//! the run in which the match ends, or gets the run with which the chain continues. The index
//! counts changes in counters chosen by a few bits of the runs' first blocks, and a cached match is
//! valid while the counters at its ends are unchanged. Two runs with the same bits can make a match
//! look changed when it is not, which costs one extra match.

use alloc::vec;
use alloc::vec::Vec;

use super::PrefixIndex;

/// Counters; few enough to stay in the processor's caches.
const COUNTERS: usize = 1 << 14;
/// Most different ends whose counters are checked. A match with more is valid only while nothing
/// changes.
const MOST_ENDS: usize = 16;

/// How often runs changed: in total, and by some bits of their first block's hash.
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

    /// Records that a target gained or lost blocks of the run with this first block, or that it was
    /// split.
    pub(super) fn count(&mut self, first: u64) {
        self.all += 1;
        let counter = &mut self.by_hash[Self::counter(first)];
        *counter = counter.wrapping_add(1);
    }

    /// The sum of these counters. It only grows.
    fn at(&self, counters: &[u16]) -> u64 {
        counters.iter().map(|at| u64::from(self.by_hash[usize::from(*at)])).sum()
    }
}

/// The cached matches of a chain.
#[derive(Debug, Default)]
pub(crate) struct Recalled {
    depths: Vec<u32>,
    /// The first blocks of the runs along the chain.
    starts: Vec<u32>,
    /// The different depths; too many if there are more than [`MOST_ENDS`].
    ends: Vec<u32>,
    /// The counters of the runs at the ends.
    counters: Vec<u16>,
    /// The index's counts at that time: of all changes, and at the ends.
    all: u64,
    at_ends: u64,
}

impl Recalled {
    /// The matches, while they are valid.
    pub(crate) fn depths(&mut self, index: &PrefixIndex, width: usize) -> Option<&[u32]> {
        if !self.is_good(index, width) {
            return None;
        }
        // Valid up to here: the ends are not checked again until the index changes.
        self.all = index.changes.all;
        Some(&self.depths)
    }

    fn note_ends(&mut self, blocks: &[u64]) {
        self.ends.clear();
        for depth in &self.depths {
            if self.ends.last() != Some(depth) && !self.ends.contains(depth) {
                self.ends.push(*depth);
                if self.ends.len() > MOST_ENDS {
                    return;
                }
            }
        }
        self.counters.clear();
        for end in &self.ends {
            let inside = self.starts.partition_point(|start| start < end).checked_sub(1);
            let run = inside.map(|at| self.starts[at]);
            let firsts = run.into_iter().chain([*end]).filter_map(|at| blocks.get(at as usize));
            self.counters.extend(firsts.map(|first| Changes::counter(*first) as u16));
        }
    }

    fn is_good(&self, index: &PrefixIndex, width: usize) -> bool {
        let changes = &index.changes;
        self.depths.len() == width
            && (self.all == changes.all
                || self.ends.len() <= MOST_ENDS && self.at_ends == changes.at(&self.counters))
    }
}

impl PrefixIndex {
    /// [`matches`](Self::matches) of a chain matched before, using the cache in `kept`. Always pass
    /// the same `kept` with the same chain.
    pub(crate) fn matches_again(&self, blocks: &[u64], depth: &mut [u32], kept: &mut Recalled) {
        if let Some(depths) = kept.depths(self, depth.len()) {
            depth.copy_from_slice(depths);
            debug_assert!(self.agrees(blocks, depth), "a match changes at its ends only");
            return;
        }
        self.matches(blocks, depth);
        kept.depths.clear();
        kept.depths.extend_from_slice(depth);
        kept.starts.clear();
        kept.starts.extend(self.walk(blocks).map(|(start, ..)| start as u32));
        kept.note_ends(blocks);
        kept.at_ends = self.changes.at(&kept.counters);
        kept.all = self.changes.all;
    }

    fn agrees(&self, blocks: &[u64], depths: &[u32]) -> bool {
        let mut fresh = vec![0; depths.len()];
        self.matches(blocks, &mut fresh);
        fresh == depths
    }
}

#[cfg(test)]
mod tests {
    use meridian_base::{Rng, mix};

    use super::super::Evict;
    use super::*;

    const TARGETS: usize = 6;

    /// One of a few prompts with common prefixes of several lengths.
    fn chain(rng: &mut Rng) -> Vec<u64> {
        let (branch, length) = (rng.below(4) as u64, 1 + rng.below(24) as u64);
        let name = |at: u64| mix(at, if at < 6 { 0 } else { 1 + branch });
        (0..length).map(name).collect()
    }

    fn change(index: &mut PrefixIndex, rng: &mut Rng) {
        let target = rng.below(TARGETS) as u16;
        match rng.below(12) {
            0 => index.remove_target(target),
            1 => index.set_cap(target, 1 + rng.below(30)),
            2 => {
                index.truncate(target, &chain(rng), rng.below(10) as u32);
            }
            _ => index.insert(target, &chain(rng)),
        }
    }

    // Twenty prompts matched between changes of every kind: the cached match always equals a fresh
    // one, and most of the time saves it.
    #[test]
    fn kept_matches_are_true() {
        let (mut spared, mut looks) = (0, 0);
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let evict = [Evict::LeastRecent, Evict::EarliestInserted][rng.below(2)];
            let mut index = PrefixIndex::new(60 + rng.below(200), TARGETS, evict);
            let prompts: Vec<Vec<u64>> = (0..20).map(|_| chain(&mut rng)).collect();
            let mut kept: Vec<Recalled> = prompts.iter().map(|_| Recalled::default()).collect();
            for _ in 0..300 {
                change(&mut index, &mut rng);
                let at = rng.below(prompts.len());
                for (prompt, kept) in prompts.iter().zip(&mut kept).skip(at) {
                    let (mut again, mut fresh) = ([0; TARGETS], [0; TARGETS]);
                    spared += usize::from(kept.is_good(&index, TARGETS));
                    looks += 1;
                    index.matches_again(prompt, &mut again, kept);
                    index.matches(prompt, &mut fresh);
                    assert_eq!(again, fresh, "seed {seed}");
                }
            }
        }
        assert!(spared * 2 > looks, "{spared} of {looks} matches were spared");
    }

    // A match with more ends than are watched is valid until anything changes.
    #[test]
    fn many_ends() {
        let targets = MOST_ENDS as u16 + 4;
        let mut index = PrefixIndex::new(1000, usize::from(targets), Evict::LeastRecent);
        let chain: Vec<u64> = (1..=u64::from(targets)).map(|n| mix(n, 1)).collect();
        for target in 0..targets {
            index.insert(target, &chain[..usize::from(target) + 1]);
        }
        let (mut kept, mut depth) = (Recalled::default(), vec![0; usize::from(targets)]);
        index.matches_again(&chain, &mut depth, &mut kept);
        assert!(kept.is_good(&index, depth.len()), "nothing has changed");
        index.insert(0, &chain[..2]);
        assert!(!kept.is_good(&index, depth.len()), "a target has changed");
        index.matches_again(&chain, &mut depth, &mut kept);
        assert_eq!((depth[0], depth[1]), (2, 2));
    }
}
