//! Matching: how deep each target's cache reaches into a chain.
//!
//! Along a chain the sets of holders only shrink, so two blocks with equally many holders have the
//! same ones, and so has everything between. The chain is cut into eight parts, and only the parts
//! whose ends differ are cut again. A chain of 512 blocks that changes holders twice takes about
//! 37 look-ups in place of 512, in three rounds whose cache misses overlap.

use core::hint::black_box;

use super::PrefixIndex;
use super::entries::{Link, NONE};
use super::holders::head_key;

/// Parts that a stretch of the chain is cut into.
const PARTS: usize = 8;
/// Stretches cut at the same time: a shared system prompt and one's own conversation end in two
/// places, which are found in as many rounds as one.
const TOGETHER: usize = 2;
/// Most blocks read in one round.
const AT_ONCE: usize = TOGETHER * (PARTS - 1);

/// A block's head and number of holders; none of either when nobody holds it.
#[derive(Clone, Copy)]
struct Held {
    head: u32,
    holders: u16,
}

const NOBODY: Held = Held { head: NONE, holders: 0 };

/// A stretch of the chain, and who holds its ends.
#[derive(Clone, Copy)]
struct Stretch {
    low: usize,
    high: usize,
    above: Held,
    below: Held,
}

impl Stretch {
    const NONE: Stretch = Stretch { low: 0, high: 0, above: NOBODY, below: NOBODY };

    /// Where a part ends. In a stretch shorter than the parts, some places are read twice and
    /// differ in nothing.
    fn place(&self, part: usize) -> usize {
        self.low + ((self.high - self.low) * part).div_ceil(PARTS)
    }
}

impl PrefixIndex {
    /// Writes into `depth[target]` how many leading blocks of the chain each target holds, and
    /// 0 for the rest of the buffer. Targets beyond the buffer are left out.
    pub fn matches(&self, blocks: &[u64], depth: &mut [u32]) {
        depth.fill(0);
        let Some(last) = blocks.len().checked_sub(1) else { return };
        // The ends are read with the first places between, in one round.
        let mut whole = Stretch { low: 0, high: last, above: NOBODY, below: NOBODY };
        let hashes: [u64; PARTS + 1] = core::array::from_fn(|part| blocks[whole.place(part)]);
        let mut read = [NOBODY; AT_ONCE];
        self.read(&hashes, &mut read);
        (whole.above, whole.below) = (read[0], read[PARTS]);
        self.sift(blocks, &[whole], &read[1..PARTS], depth);
        self.paint(read[PARTS], blocks.len(), depth);
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

    /// Who holds each of these blocks, up to [`AT_ONCE`]. In three passes, so that the processor
    /// fetches the slots of all from memory at the same time, and then the entries of all.
    fn read(&self, hashes: &[u64], all: &mut [Held; AT_ONCE]) {
        let mut warm = 0;
        for hash in hashes {
            warm ^= self.table.peek(head_key(*hash));
        }
        // The reads above are made for their effect on the cache alone.
        black_box(warm);
        let mut likely = [None; AT_ONCE];
        for (place, hash) in likely.iter_mut().zip(hashes) {
            *place = self.table.candidate(head_key(*hash));
        }
        let mut found = [(0, 0); AT_ONCE];
        for (found, place) in found.iter_mut().zip(likely) {
            if let Some(place) = place {
                *found = (self.entries[place].hash, self.entries[place].holders);
            }
        }
        for (i, hash) in hashes.iter().enumerate() {
            all[i] = match (likely[i], found[i]) {
                (None, _) => NOBODY,
                (Some(head), (at, holders)) if at == *hash && holders > 0 => Held { head, holders },
                // Another block with the same few bits of key: search in full.
                _ => match self.head(*hash) {
                    Some(head) => Held { head, holders: self.entries[head].holders },
                    None => NOBODY,
                },
            };
        }
    }

    /// Finds and paints every change of holders within these stretches, at most [`TOGETHER`].
    fn cut(&self, blocks: &[u64], stretches: &[Stretch], depth: &mut [u32]) {
        let mut hashes = [0; AT_ONCE];
        let mut count = 0;
        for stretch in stretches {
            for part in 1..PARTS {
                hashes[count] = blocks[stretch.place(part)];
                count += 1;
            }
        }
        let mut read = [NOBODY; AT_ONCE];
        self.read(&hashes[..count], &mut read);
        self.sift(blocks, stretches, &read, depth);
    }

    /// Goes through the parts of stretches whose `inner` places were read. Changes that stand
    /// between two neighbours are painted, shallow to deep; wider parts are cut further, two at
    /// a time.
    fn sift(&self, blocks: &[u64], stretches: &[Stretch], inner: &[Held], depth: &mut [u32]) {
        let mut open = [Stretch::NONE; TOGETHER];
        let mut opened = 0;
        for (stretch, inner) in stretches.iter().zip(inner.chunks(PARTS - 1)) {
            let (mut low, mut above) = (stretch.low, stretch.above);
            for part in 1..=PARTS {
                let high = stretch.place(part);
                let below = if part < PARTS { inner[part - 1] } else { stretch.below };
                let piece = Stretch { low, high, above, below };
                (low, above) = (high, below);
                if piece.above.holders == piece.below.holders {
                    continue;
                }
                let found = piece.high - piece.low == 1;
                if !found {
                    open[opened] = piece;
                    opened += 1;
                }
                // What changes before this is painted before it.
                if opened == TOGETHER || found && opened > 0 {
                    self.cut(blocks, &open[..opened], depth);
                    opened = 0;
                }
                if found {
                    self.paint(piece.above, piece.high, depth);
                }
            }
        }
        if opened > 0 {
            self.cut(blocks, &open[..opened], depth);
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
