//! What a target holds, handed from one index to another.
//!
//! A gateway that begins anew, or gets a replica back, knows none of the prefixes in its cache;
//! another that served the replica meanwhile does. An order of eviction has each block before its
//! children, so the list of its blocks, the most recent first, can be cut off anywhere and is still
//! whole chains; and what is taken in is put behind what is known already, which is more recent.

use alloc::vec::Vec;

use super::PrefixIndex;
use super::entries::NONE;

impl PrefixIndex {
    /// Blocks that `target` holds, the most recently used chain first, at most so many.
    #[must_use]
    pub fn holdings(&self, target: u16, most: usize) -> Vec<u64> {
        if usize::from(target) >= self.orders.targets() {
            return Vec::new();
        }
        let mut blocks = Vec::with_capacity(self.orders.held(target).min(most));
        let mut at = self.orders.newest(target);
        while at != NONE && blocks.len() < most {
            let entry = &self.entries[at];
            blocks.push(entry.hash);
            at = entry.older;
        }
        blocks
    }

    /// Notes that `target` holds these blocks, in the order of [`holdings`](Self::holdings), less
    /// recently used than any it was known to hold. What goes beyond its cap or the total is left
    /// out; nothing is evicted for it.
    pub fn inherit(&mut self, target: u16, blocks: &[u64]) {
        if usize::from(target) >= self.orders.targets() {
            return;
        }
        for &hash in blocks {
            if self.orders.held(target) >= self.orders.cap(target) {
                return;
            }
            if self.find(hash, target).is_some() {
                continue;
            }
            // Whose child it is the list does not say. Behind all others it is behind its parent,
            // and that the one before it may have a child is never wrongly denied.
            let last = self.orders.oldest(target).unwrap_or(NONE);
            let Some(entry) = self.add(hash, target, last) else { return };
            self.ages.touch(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use meridian_base::{Rng, mix};

    use super::super::Evict;
    use super::*;

    /// One of some prompts that share beginnings.
    fn chain(rng: &mut Rng) -> Vec<u64> {
        let (branch, length) = (rng.below(6) as u64, 1 + rng.below(20) as u64);
        let name = |at: u64| mix(at, if at < 5 { branch / 3 } else { 7 + branch });
        (0..length).map(name).collect()
    }

    fn filled(seed: u64, evict: Evict, cap: usize) -> PrefixIndex {
        let mut rng = Rng::new(seed);
        let mut index = PrefixIndex::new(400, 3, evict);
        index.set_cap(0, cap);
        (0..60).for_each(|_| index.insert(rng.below(3) as u16, &chain(&mut rng)));
        index
    }

    fn depth(index: &PrefixIndex, prompt: &[u64]) -> u32 {
        let mut depths = [0; 3];
        index.matches(prompt, &mut depths);
        depths[0]
    }

    // An index that takes over what another one knows of a target matches every prompt there as deep
    // as that one, whatever it knows of other targets, and goes on as sound as before.
    #[test]
    fn matches_go_over() {
        for seed in 0..200 {
            let evict = [Evict::LeastRecent, Evict::EarliestInserted][(seed % 2) as usize];
            let from = filled(seed, evict, 40);
            let mut to = PrefixIndex::new(400, 3, evict);
            let mut rng = Rng::new(seed ^ 0xff);
            (0..20).for_each(|_| to.insert(1, &chain(&mut rng)));
            to.inherit(0, &from.holdings(0, usize::MAX));
            to.check_invariants();
            assert_eq!(to.held_by(0), from.held_by(0));
            for _ in 0..50 {
                let prompt = chain(&mut rng);
                assert_eq!(depth(&to, &prompt), depth(&from, &prompt), "seed {seed}");
            }
            (0..60).for_each(|_| to.insert(rng.below(3) as u16, &chain(&mut rng)));
            to.check_invariants();
        }
    }

    // A list that was cut off, or meets a small cap or a full index, never claims a block without its
    // parents, and what was known before stays and is evicted last.
    #[test]
    fn parts_go_over() {
        for seed in 0..200 {
            let from = filled(seed, Evict::LeastRecent, 40);
            let mut rng = Rng::new(seed ^ 0xff);
            let mut to = PrefixIndex::new(30 + rng.below(60), 3, Evict::LeastRecent);
            to.set_cap(0, 10 + rng.below(30));
            (0..4).for_each(|_| to.insert(1, &chain(&mut rng)));
            let known = chain(&mut rng);
            to.insert(0, &known);
            let before = depth(&to, &known);
            let told = from.holdings(0, rng.below(40));
            to.inherit(0, &told);
            to.check_invariants();
            assert!(depth(&to, &known) >= before, "seed {seed}");
            for _ in 0..50 {
                let prompt = chain(&mut rng);
                let most = depth(&from, &prompt)
                    .max(known.iter().zip(&prompt).take_while(|(a, b)| a == b).count() as u32);
                assert!(depth(&to, &prompt) <= most, "seed {seed}");
            }
            to.set_cap(0, before as usize);
            assert_eq!(depth(&to, &known), before, "seed {seed}: what came later goes first");
        }
    }
}
