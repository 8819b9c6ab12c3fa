//! The index's invariants, checked whole. Slow: for tests and the simulator.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::PrefixIndex;
use super::entries::{Link, NONE};
use super::holders;

impl PrefixIndex {
    /// Checks every relation between orders, entries, table and sets, in time proportional to
    /// the reserved memory.
    ///
    /// # Panics
    /// When one does not hold, which is a defect of the index.
    pub fn check_invariants(&self) {
        let mut blocks: BTreeMap<u64, Vec<(u16, u32)>> = BTreeMap::new();
        let mut total = 0;
        for target in 0..self.orders.targets() as u16 {
            total += self.check_order(target, &mut blocks);
        }
        assert_eq!(total, self.len(), "every entry is in one order");
        assert!(self.len() <= self.entries.capacity(), "the total is bounded");
        let slots = self.table.check(|p| holders::key(&self.entries[p]));
        assert_eq!(slots, self.len(), "every entry has one slot");
        let mut sets = 0;
        for (hash, at) in blocks {
            sets += usize::from(self.check_block(hash, at));
        }
        assert_eq!(sets, self.sets.taken(), "every set belongs to a block");
    }

    fn check_order(&self, target: u16, blocks: &mut BTreeMap<u64, Vec<(u16, u32)>>) -> usize {
        let (mut at, mut newer, mut held) = (self.orders.newest(target), NONE, 0);
        while at != NONE {
            let entry = &self.entries[at];
            assert_eq!(entry.target, target, "an order has one target");
            assert_eq!(entry.newer, newer, "an order reads the same from both ends");
            blocks.entry(entry.hash).or_default().push((target, at));
            held += 1;
            assert!(held <= self.len(), "an order ends");
            (newer, at) = (at, entry.older);
        }
        assert_eq!(self.orders.oldest(target).unwrap_or(NONE), newer, "an order has an end");
        assert_eq!(held, self.orders.held(target), "a target's count is true");
        assert!(held <= self.orders.cap(target), "target {target} is within its cap");
        held
    }

    /// Checks one block's holders; true when they are in a set.
    fn check_block(&self, hash: u64, at: Vec<(u16, u32)>) -> bool {
        let head = self.head(hash).expect("a block has a head");
        assert_eq!(usize::from(self.entries[head].holders), at.len(), "holders are counted");
        let heads = at.iter().filter(|(_, e)| self.entries[*e].is_head()).count();
        assert_eq!(heads, 1, "a block has one head");
        for &(target, entry) in &at {
            assert_eq!(self.find(hash, target), Some(entry), "each holder is found");
        }
        let mut listed = Vec::new();
        let mut next = head;
        while next != NONE {
            listed.push(self.entries[next].target);
            assert!(listed.len() <= at.len(), "a list of holders ends");
            next = match self.entries[next].link() {
                Link::List(next) => next,
                Link::Set(set) => {
                    let mut targets = at.iter().map(|(t, _)| *t);
                    assert!(targets.all(|t| self.sets.has(set, t)), "a set has each holder");
                    let bits: u32 = self.sets.words(set).iter().map(|w| w.count_ones()).sum();
                    assert_eq!(bits as usize, at.len(), "a set has nobody else");
                    return true;
                }
            };
        }
        assert_eq!(listed.len(), at.len(), "a list has each holder");
        false
    }
}
