//! Matching: how deep each target's cache reaches into a chain.
//!
//! Along a chain the sets of holders only shrink, so two blocks with equally many holders have the
//! same ones, and so has everything between. The chain is cut into eight parts, and only the parts
//! whose ends differ are cut again. A chain of 512 blocks that changes holders twice takes about
//! 37 look-ups in place of 512, several at a time so that their cache misses overlap.

use core::hint::black_box;

use super::PrefixIndex;
use super::entries::{Link, NONE};
use super::holders::head_key;

/// Parts that a stretch of the chain is cut into.
const PARTS: usize = 8;

/// A block's head and number of holders; none of either when nobody holds it.
#[derive(Clone, Copy)]
struct Held {
    head: u32,
    holders: u16,
}

const NOBODY: Held = Held { head: NONE, holders: 0 };

impl PrefixIndex {
    /// Writes into `depth[target]` how many leading blocks of the chain each target holds, and
    /// 0 for the rest of the buffer. Targets beyond the buffer are left out.
    pub fn matches(&self, blocks: &[u64], depth: &mut [u32]) {
        depth.fill(0);
        let Some(last) = blocks.len().checked_sub(1) else { return };
        let [first, deepest] = self.read([blocks[0], blocks[last]]);
        self.between(blocks, (0, first), (last, deepest), depth);
        self.paint(deepest, blocks.len(), depth);
    }

    /// Leading blocks of the chain that `target` holds.
    #[must_use]
    pub fn longest(&self, blocks: &[u64], target: u16) -> u32 {
        let (mut held, mut missing) = (0, blocks.len());
        while held < missing {
            let middle = held.midpoint(missing);
            match self.find(blocks[middle], target) {
                Some(_) => held = middle + 1,
                None => missing = middle,
            }
        }
        held as u32
    }

    /// Who holds each of these blocks. In three passes, so that the processor fetches the slots
    /// of all from memory at the same time, and then the entries of all.
    fn read<const N: usize>(&self, hashes: [u64; N]) -> [Held; N] {
        let keys = hashes.map(head_key);
        let mut warm = 0;
        for key in keys {
            warm ^= self.table.peek(key);
        }
        // The reads above are made for their effect on the cache alone.
        black_box(warm);
        let mut likely = [None; N];
        for (place, key) in likely.iter_mut().zip(keys) {
            *place = self.table.candidate(key);
        }
        let mut found = [(0, 0); N];
        for (found, place) in found.iter_mut().zip(likely) {
            if let Some(place) = place {
                *found = (self.entries[place].hash, self.entries[place].holders);
            }
        }
        let mut all = [NOBODY; N];
        for (i, held) in all.iter_mut().enumerate() {
            *held = match (likely[i], found[i]) {
                (None, _) => NOBODY,
                (Some(head), (hash, holders)) if hash == hashes[i] && holders > 0 => {
                    Held { head, holders }
                }
                // Another block with the same few bits of key: search in full.
                _ => match self.head(hashes[i]) {
                    Some(head) => Held { head, holders: self.entries[head].holders },
                    None => NOBODY,
                },
            };
        }
        all
    }

    /// Finds every change of holders between two places, shallow to deep.
    fn between(
        &self,
        blocks: &[u64],
        (low, above): (usize, Held),
        (high, below): (usize, Held),
        depth: &mut [u32],
    ) {
        if above.holders == below.holders {
            return;
        }
        let gap = high - low;
        if gap == 1 {
            return self.paint(above, high, depth);
        }
        // In a stretch shorter than the parts, some places are read twice and differ in nothing.
        let place = |part: usize| low + (gap * part).div_ceil(PARTS);
        let inner: [u64; PARTS - 1] = core::array::from_fn(|i| blocks[place(i + 1)]);
        let mut from = (low, above);
        for (i, held) in self.read(inner).into_iter().enumerate() {
            let to = (place(i + 1), held);
            self.between(blocks, from, to, depth);
            from = to;
        }
        self.between(blocks, from, (high, below), depth);
    }

    /// Gives all holders of a block the depth `reach`; those that go deeper are painted over.
    fn paint(&self, held: Held, reach: usize, depth: &mut [u32]) {
        let mut at = held.head;
        while at != NONE {
            let entry = &self.entries[at];
            at = match entry.link() {
                Link::Set(set) => return self.sets.paint(set, reach as u32, depth),
                Link::List(next) => next,
            };
            if let Some(d) = depth.get_mut(usize::from(entry.target)) {
                *d = reach as u32;
            }
        }
    }
}
