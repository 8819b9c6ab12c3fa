//! Handover of a target's entries from one index to another.
//!
//! A gateway that restarts, or gets a replica back, does not know the prefixes in the replica's
//! cache; the gateway that served the replica meanwhile does. An order of eviction has each block
//! before its children, so the list of its blocks, most recent first, can be cut off anywhere and
//! still consists of whole chains. Inherited entries are placed behind those already known, which
//! are more recent.

use alloc::vec::Vec;

use meridian_base::Branch;

use super::PrefixIndex;
use super::insert::InsertAt;
use super::order::NONE;

/// The chain sent last: its holds from the root, and the depth at which each ends.
type Path = Vec<(u32, usize)>;

impl PrefixIndex {
    /// Chains that `target` holds, most recently used first, with at most this many blocks in
    /// total.
    #[must_use]
    pub fn holdings(&self, target: u16, most: usize) -> Vec<Branch> {
        let (mut branches, mut path, mut left) = (Vec::new(), Path::new(), most);
        if !self.knows(target) {
            return branches;
        }
        for hold in self.orders.newest_first(target) {
            let end = path.last().map_or(0, |(_, end)| *end);
            let mut branch = self.branch(hold, &mut path);
            branch.blocks.truncate(left);
            left -= branch.blocks.len();
            match branches.last_mut() {
                // Usually a hold comes right behind its parent.
                Some(Branch { blocks, .. }) if branch.keep as usize == end => {
                    blocks.append(&mut branch.blocks);
                }
                _ => branches.push(branch),
            }
            if left == 0 {
                break;
            }
        }
        branches
    }

    /// The chain that ends with a hold, as its difference from `path`; updates `path` to it.
    fn branch(&self, hold: u32, path: &mut Path) -> Branch {
        let mut above = Vec::new();
        let mut at = hold;
        let shared = loop {
            if let Some(there) = path.iter().rposition(|(h, _)| *h == at) {
                break there + 1;
            }
            if at == NONE {
                break 0;
            }
            above.push(at);
            at = self.orders[at].parent;
        };
        path.truncate(shared);
        let keep = path.last().map_or(0, |(_, end)| *end);
        let mut blocks = Vec::new();
        for hold in above.into_iter().rev() {
            let run = self.orders[hold].run;
            blocks.extend_from_slice(&self.runs[run].blocks()[..self.held_of(hold)]);
            path.push((hold, keep + blocks.len()));
        }
        Branch { keep: keep as u32, blocks }
    }

    /// Notes that `target` holds these chains, in the order of [`holdings`](Self::holdings), less
    /// recently used than any it already holds. Entries beyond its cap or the total are left out;
    /// none are evicted for them.
    pub fn inherit(&mut self, target: u16, branches: &[Branch]) {
        if !self.knows(target) {
            return;
        }
        let mut chain = Vec::new();
        for Branch { keep, blocks } in branches {
            chain.truncate(*keep as usize);
            chain.extend_from_slice(blocks);
            self.append(target, &chain);
        }
    }

    /// Adds the part of a chain that a target does not yet hold, as its least recently used.
    fn append(&mut self, target: u16, chain: &[u64]) {
        let (mut at, last) = self.deepest(chain, target);
        let mut parent = match last {
            Some(last) if at < chain.len() && last.agreed < last.len => {
                self.split(last.run, last.agreed, last.hold)
            }
            last => last.map_or(NONE, |last| last.hold),
        };
        while at < chain.len() {
            let own = self.orders.cap(target) - self.orders.held(target);
            let room = own.min(self.capacity - self.len());
            let newer = self.orders.oldest(target).unwrap_or(NONE);
            let place = InsertAt { target, parent, newer };
            let Some((more, hold)) = self.grow(place, &chain[at..], room) else { return };
            (at, parent) = (at + more, hold);
        }
    }
}

#[cfg(test)]
mod tests {
    use meridian_base::{Rng, mix};

    use super::super::Evict;
    use super::*;

    /// One of several prompts with common prefixes.
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

    // An index that inherits another's entries for a target matches every prompt there as deep as
    // that one, whatever it knows of other targets, and its invariants still hold.
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

    // A list that was cut off, or meets a small cap or a full index, never claims a block without
    // its parents. Entries known before stay and are evicted last.
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
            let holdings = from.holdings(0, rng.below(40));
            to.inherit(0, &holdings);
            to.check_invariants();
            assert!(depth(&to, &known) >= before, "seed {seed}");
            for _ in 0..50 {
                let prompt = chain(&mut rng);
                let most = depth(&from, &prompt)
                    .max(known.iter().zip(&prompt).take_while(|(a, b)| a == b).count() as u32);
                assert!(depth(&to, &prompt) <= most, "seed {seed}");
            }
            to.set_cap(0, before as usize);
            assert_eq!(depth(&to, &known), before, "seed {seed}: later entries are evicted first");
        }
    }
}
