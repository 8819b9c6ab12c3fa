//! Matching: how deep each target's cache reaches into a chain.
//!
//! Along a chain the sets of holders only shrink, so two blocks with equally many holders have the
//! same ones, and so has everything between. The number of holders is read at eight places spread
//! over the chain; only the gaps whose ends differ are read closer. A chain of 512 blocks that
//! changes holders twice takes about 40 look-ups in place of 512, eight at a time so that their
//! cache misses overlap.

use super::PrefixIndex;
use super::entries::{Link, NONE};
use super::holders::head_key;

/// Places read at a time.
const PLACES: usize = 8;

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
        let ends = self.read(blocks, 0, last);
        self.between(blocks, &ends, depth);
        let (_, held) = ends[PLACES - 1];
        self.paint(held, blocks.len(), depth);
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

    /// Who holds the blocks at eight places from `from` to `to`, both included.
    fn read(&self, blocks: &[u64], from: usize, to: usize) -> [(usize, Held); PLACES] {
        let mut at = [(0, NOBODY); PLACES];
        let mut warm = 0;
        for (i, (place, _)) in at.iter_mut().enumerate() {
            *place = from + (to - from) * i / (PLACES - 1);
            warm ^= self.table.peek(head_key(blocks[*place]));
        }
        // The reads above are made for their effect on the cache alone.
        core::hint::black_box(warm);
        for (place, held) in &mut at {
            if let Some(head) = self.head(blocks[*place]) {
                *held = Held { head, holders: self.entries[head].holders };
            }
        }
        at
    }

    /// Finds every change of holders between the places read, shallow to deep.
    fn between(&self, blocks: &[u64], at: &[(usize, Held); PLACES], depth: &mut [u32]) {
        for pair in at.windows(2) {
            let ((low, above), (high, below)) = (pair[0], pair[1]);
            if above.holders == below.holders {
                continue;
            }
            match high - low {
                1 => self.paint(above, high, depth),
                _ => self.between(blocks, &self.read(blocks, low, high), depth),
            }
        }
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
