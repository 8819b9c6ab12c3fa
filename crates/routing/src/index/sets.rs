//! A pool of bitsets over the targets, for the blocks that many of them hold.
//!
//! A shared system prompt is held by nearly everybody; a list of a thousand holders would cost a
//! cache miss each. The pool is bounded (about 2 bytes an entry of the index); when it is spent,
//! blocks keep their lists, which is slower and just as right.

use alloc::vec::Vec;

/// The pool.
#[derive(Debug)]
pub(super) struct Sets {
    words: Vec<u64>,
    /// Words a set takes.
    width: usize,
    /// Sets given back, free to be taken again.
    free: Vec<u32>,
    most: usize,
}

impl Sets {
    pub(super) fn new(entries: usize, targets: usize) -> Sets {
        let width = targets.div_ceil(64).max(1);
        // A set costs its words and, once given back, its number.
        let most = (2 * entries / (8 * width + 4)).max(4);
        Sets {
            words: Vec::with_capacity(most * width),
            width,
            free: Vec::with_capacity(most),
            most,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>() + self.free.capacity() * size_of::<u32>()
    }

    /// Sets in use.
    pub(super) fn taken(&self) -> usize {
        self.words.len() / self.width - self.free.len()
    }

    /// Takes an empty set; `None` when the pool is spent.
    pub(super) fn take(&mut self) -> Option<u32> {
        if let Some(set) = self.free.pop() {
            self.words_mut(set).fill(0);
            return Some(set);
        }
        let set = self.words.len() / self.width;
        if set >= self.most {
            return None;
        }
        self.words.resize((set + 1) * self.width, 0);
        Some(set as u32)
    }

    pub(super) fn give_back(&mut self, set: u32) {
        self.free.push(set);
    }

    pub(super) fn words(&self, set: u32) -> &[u64] {
        let start = set as usize * self.width;
        &self.words[start..start + self.width]
    }

    fn words_mut(&mut self, set: u32) -> &mut [u64] {
        let start = set as usize * self.width;
        &mut self.words[start..start + self.width]
    }

    pub(super) fn add(&mut self, set: u32, target: u16) {
        self.words_mut(set)[usize::from(target) / 64] |= 1 << (target % 64);
    }

    pub(super) fn drop(&mut self, set: u32, target: u16) {
        self.words_mut(set)[usize::from(target) / 64] &= !(1 << (target % 64));
    }

    pub(super) fn has(&self, set: u32, target: u16) -> bool {
        self.words(set)[usize::from(target) / 64] >> (target % 64) & 1 != 0
    }

    /// The lowest target of a set at or above `from`.
    pub(super) fn first(&self, set: u32, from: u16) -> Option<u16> {
        let start = usize::from(from) / 64;
        let words = self.words(set).iter().enumerate().skip(start);
        for (i, word) in words {
            let word = if i == start { word >> (from % 64) << (from % 64) } else { *word };
            if word != 0 {
                return Some((i * 64) as u16 + word.trailing_zeros() as u16);
            }
        }
        None
    }

    /// Writes `depth` for every target of a set. Without a branch, so that it runs at the
    /// speed of memory.
    pub(super) fn paint(&self, set: u32, depth: u32, depths: &mut [u32]) {
        for (word, depths) in self.words(set).iter().zip(depths.chunks_mut(64)) {
            match *word {
                0 => {}
                u64::MAX => depths.fill(depth),
                word => {
                    for (half, depths) in
                        [word as u32, (word >> 32) as u32].into_iter().zip(depths.chunks_mut(32))
                    {
                        paint_half(half, depth, depths);
                    }
                }
            }
        }
    }
}

fn paint_half(half: u32, depth: u32, depths: &mut [u32]) {
    for (d, bit) in depths.iter_mut().zip(BITS) {
        *d = if half & bit != 0 { depth } else { *d };
    }
}

const BITS: [u32; 32] = {
    let mut bits = [0; 32];
    let mut i = 0;
    while i < 32 {
        bits[i] = 1 << i;
        i += 1;
    }
    bits
};
