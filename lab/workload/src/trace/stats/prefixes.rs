//! Statistics of shared prefixes: in an infinite cache, and in LRU caches of several sizes.

use super::PrefixReuse;
use crate::trace::TraceRequest;
use crate::trace::ancestry::Ancestry;
use crate::trace::reuse::Reuse;
use crate::trace::tally::Tally;

/// Shared prefixes of prompts.
pub(super) struct Prefixes {
    ancestry: Ancestry,
    reuse: Reuse,
    sizes: Vec<u64>,
    hits: Vec<u64>,
    pub(super) blocks: u64,
    matched_blocks: u64,
    matched_tokens: u64,
}

/// The match of a prompt in an infinite cache.
pub(super) struct Matched {
    pub(super) blocks: usize,
    pub(super) tokens: u32,
}

impl Prefixes {
    pub(super) fn new(sizes: Vec<u64>) -> Prefixes {
        Prefixes {
            ancestry: Ancestry::new(usize::MAX),
            reuse: Reuse::new(),
            hits: vec![0; sizes.len()],
            sizes,
            blocks: 0,
            matched_blocks: 0,
            matched_tokens: 0,
        }
    }

    pub(super) fn add(&mut self, request: &TraceRequest, number: u64) -> (Matched, Option<u64>) {
        let found = self.ancestry.matched(request);
        self.ancestry.own(request, number);
        let tokens = u64::from(request.block_tokens).saturating_mul(found.blocks as u64);
        let tokens = tokens.min(u64::from(request.input_tokens)) as u32;
        self.blocks += request.hash_ids.len() as u64;
        self.matched_blocks += found.blocks as u64;
        self.matched_tokens += u64::from(tokens);
        self.count_hits(&request.chain().collect::<Vec<u64>>());
        (Matched { blocks: found.blocks, tokens }, found.owner)
    }

    /// Counts the leading blocks that a cache of each size still has: the run ends at the first
    /// evicted block.
    fn count_hits(&mut self, chain: &[u64]) {
        let mut longest = 0;
        for distance in self.reuse.visit(chain) {
            let Some(distance) = distance else { break };
            longest = distance.max(longest);
            for (size, hits) in self.sizes.iter().zip(&mut self.hits) {
                *hits += u64::from(longest < *size);
            }
        }
    }

    pub(super) fn finish(self, input: &Tally) -> Option<PrefixReuse> {
        let all = self.blocks as f64;
        let tokens = input.mean() * input.len() as f64;
        let share = |hits: &u64| *hits as f64 / all;
        (self.blocks > 0).then(|| PrefixReuse {
            blocks: self.blocks,
            distinct: self.ancestry.len() as u64,
            of_blocks: self.matched_blocks as f64 / all,
            of_tokens: self.matched_tokens as f64 / tokens,
            lru: self.sizes.iter().copied().zip(self.hits.iter().map(share)).collect(),
        })
    }
}
