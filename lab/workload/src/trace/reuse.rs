//! Reuse distances of blocks: the hit share of an LRU cache of every size at once.
//!
//! The distance of a use is the number of other blocks used since the last one. An LRU cache of C
//! blocks holds exactly the blocks whose distance is below C (Mattson et al., "Evaluation
//! techniques for storage hierarchies", IBM Systems Journal 9(2), 1970), so one pass covers all
//! sizes. A prompt's blocks are used from the last to the first, in the order in which an engine
//! frees them: a prefix is never evicted before its continuation.

use std::collections::HashMap;

/// Distances between the uses of blocks.
pub(crate) struct Reuse {
    /// The position of each block's last use.
    last: HashMap<u64, usize>,
    /// A Fenwick tree over the positions: 1 if a block was last used there.
    tree: Vec<u32>,
    next: usize,
}

impl Reuse {
    pub(crate) fn new() -> Reuse {
        Reuse { last: HashMap::new(), tree: vec![0; 1 << 12], next: 1 }
    }

    /// Uses `blocks`; returns the distance of each, `None` for one that was never used.
    pub(crate) fn visit(&mut self, blocks: &[u64]) -> Vec<Option<u64>> {
        let all = self.last.len() as u64;
        let distance = |block| self.last.get(block).map(|&place| all - self.up_to(place));
        let distances = blocks.iter().map(distance).collect();
        for &block in blocks.iter().rev() {
            self.touch(block);
        }
        distances
    }

    /// Last uses at places up to and with `place`.
    fn up_to(&self, mut place: usize) -> u64 {
        let mut sum = 0;
        while place > 0 {
            sum += u64::from(self.tree[place]);
            place &= place - 1;
        }
        sum
    }

    fn touch(&mut self, block: u64) {
        if self.next >= self.tree.len() {
            self.compact();
        }
        let place = self.next;
        self.next += 1;
        if let Some(before) = self.last.insert(block, place) {
            self.add(before, false);
        }
        self.add(place, true);
    }

    fn add(&mut self, mut place: usize, used: bool) {
        while place < self.tree.len() {
            let n = &mut self.tree[place];
            *n = if used { *n + 1 } else { *n - 1 };
            place += place & place.wrapping_neg();
        }
    }

    /// Renumbers the positions without gaps, and leaves space for as many again.
    fn compact(&mut self) {
        let mut places: Vec<&mut usize> = self.last.values_mut().collect();
        places.sort_unstable();
        let used = places.len();
        for (i, place) in places.into_iter().enumerate() {
            *place = i + 1;
        }
        self.tree = vec![0; (2 * used + 2).max(1 << 12)];
        for place in 1..=used {
            self.add(place, true);
        }
        self.next = used + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::Rng;

    /// An LRU cache of `size` blocks.
    fn hits(cache: &mut Vec<u64>, size: usize, blocks: &[u64]) -> usize {
        let hits = blocks.iter().take_while(|block| cache.contains(block)).count();
        for block in blocks.iter().rev() {
            cache.retain(|one| one != block);
            cache.push(*block);
            cache.drain(..cache.len().saturating_sub(size));
        }
        hits
    }

    // Distances match naive LRU caches of several sizes, over 20,000 prompts, through several
    // renumberings of the positions.
    #[test]
    fn agrees_with_caches_of_every_size() {
        let mut rng = Rng::new(3);
        let mut reuse = Reuse::new();
        let mut caches: Vec<(usize, Vec<u64>)> =
            [1, 2, 5, 20, 60].into_iter().map(|size| (size, Vec::new())).collect();
        for _ in 0..20_000 {
            let prompt: Vec<u64> = {
                let (family, length) = (rng.below(12) as u64, 1 + rng.below(8) as u64);
                (0..length).map(|i| family * 100 + i).collect()
            };
            let distances = reuse.visit(&prompt);
            for (size, cache) in &mut caches {
                let held = |distance: &&Option<u64>| distance.is_some_and(|d| d < *size as u64);
                let hit = distances.iter().take_while(held).count();
                assert_eq!(hit, hits(cache, *size, &prompt), "size {size}, {prompt:?}");
            }
        }
        assert!(reuse.next <= 1 << 13, "places are numbered again");
    }
}
