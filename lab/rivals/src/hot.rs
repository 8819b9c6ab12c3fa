//! Which prefixes many of the last requests begin with.
//!
//! Memory is bounded by the window: the last requests with at most eight prefixes each.

use alloc::collections::VecDeque;
use hashbrown::HashMap;
use meridian_base::Seeded;

/// Lengths of a prompt that are counted: the first, and each doubled from the one before.
const LENGTHS: usize = 8;

/// The prefixes of the last requests.
pub(crate) struct Hot {
    /// Blocks of the shortest prefix.
    shortest: usize,
    window: usize,
    /// The prefixes of each request, the shortest first.
    requests: VecDeque<([u64; LENGTHS], usize)>,
    /// Requests of the window by prefix.
    counts: HashMap<u64, u32, Seeded>,
}

impl Hot {
    pub(crate) fn new(shortest: usize, window: usize) -> Hot {
        Hot { shortest, window, requests: VecDeque::new(), counts: HashMap::default() }
    }

    /// The shortest prefix that no more than 2 / `candidates` of the requests had, or the longest;
    /// `None` for a prompt shorter than the first.
    pub(crate) fn key(&self, blocks: &[u64], candidates: usize) -> Option<u64> {
        let most = 2.0 / candidates as f64 * self.requests.len() as f64;
        let count = |prefix: &u64| f64::from(self.counts.get(prefix).copied().unwrap_or(0));
        self.prefixes(blocks)
            .find(|prefix| count(prefix) <= most)
            .or_else(|| self.prefixes(blocks).last())
    }

    /// Counts a request, and forgets the one that leaves the window.
    pub(crate) fn count(&mut self, blocks: &[u64]) {
        if self.requests.len() == self.window
            && let Some((gone, n)) = self.requests.pop_front()
        {
            gone[..n].iter().for_each(|prefix| self.forget(*prefix));
        }
        let (mut all, mut n) = ([0; LENGTHS], 0);
        for prefix in self.prefixes(blocks) {
            all[n] = prefix;
            n += 1;
        }
        all[..n].iter().for_each(|prefix| *self.counts.entry(*prefix).or_default() += 1);
        self.requests.push_back((all, n));
    }

    fn forget(&mut self, prefix: u64) {
        match self.counts.get_mut(&prefix) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.counts.remove(&prefix);
            }
        }
    }

    /// A block's hash is that of the whole prompt up to its end.
    fn prefixes<'a>(&self, blocks: &'a [u64]) -> impl Iterator<Item = u64> + use<'a> {
        let shortest = self.shortest;
        (0..LENGTHS).map_while(move |k| blocks.get((shortest << k) - 1).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A prefix counts as long as its request is among the last, also if another one has it too.
    #[test]
    fn the_window_moves_on() {
        let mut hot = Hot::new(1, 3);
        let (a, b): ([u64; 2], [u64; 2]) = ([1, 2], [1, 3]);
        [a, a, b].iter().for_each(|blocks| hot.count(blocks));
        assert_eq!(hot.counts.get(&1), Some(&3));
        assert_eq!(
            (hot.key(&a, 4), hot.key(&b, 4)),
            (Some(2), Some(3)),
            "1 is hot, 2 is the longest"
        );
        hot.count(&[9]);
        assert_eq!((hot.counts.get(&1), hot.counts.get(&2)), (Some(&2), Some(&1)));
        [9, 9, 9].iter().for_each(|block| hot.count(&[*block]));
        assert_eq!((hot.counts.len(), hot.requests.len()), (1, 3));
        assert_eq!(hot.key(&[], 4), None);
    }
}
