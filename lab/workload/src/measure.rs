//! Statistics of a generator: lengths, and the share of repeated prompt tokens.
//!
//! Reuse is counted in unbounded caches: the part that a prompt shares with any earlier prompt and
//! reply in the same cache, in whole blocks. With one cache that is the limit for every policy;
//! with several caches and random placement, it is the result of a policy without information. Real
//! caches evict, so both are larger than the result of a run. Programs are processed one after the
//! other here, and the requests of a level in turn.

use std::collections::HashMap;

use meridian_base::{Rng, mix};

use crate::{BYTES_PER_TOKEN, Generator, Program, ProgramKey, Segment};

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The seed of the programs.
    pub seed: u64,
    /// Number of regions; programs go to them in turn.
    pub regions: u32,
    /// Programs, over all regions.
    pub programs: u64,
    /// Tokens of a cache block: matches are cut to whole blocks. At least 1.
    pub block_tokens: u32,
    /// Number of unbounded caches, to which requests are sent at random. At least 1.
    pub caches: usize,
    /// Whether caches keep replies, as engines do, or only prompts, which is all that a trace
    /// shows.
    pub replies: bool,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample { seed: 1, regions: 3, programs: 10_000, block_tokens: 16, caches: 1, replies: true }
    }
}

/// Means over a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Requests in all.
    pub requests: u64,
    /// Mean tokens of a prompt.
    pub prompt_tokens: f64,
    /// Mean tokens of a reply.
    pub reply_tokens: f64,
    /// Share of the prompt tokens found in the caches.
    pub reuse: f64,
}

/// Measures `generator` on `sample`.
#[must_use]
pub fn measure(generator: &dyn Generator, sample: Sample) -> Measured {
    let mut caches = vec![Unbounded::default(); sample.caches.max(1)];
    let mut rng = Rng::new(mix(sample.seed, 0x4D45_4153_5552_4521));
    let block = u64::from(sample.block_tokens.max(1) * BYTES_PER_TOKEN);
    let (mut requests, mut asked, mut replied, mut known) = (0, 0, 0, 0);
    for i in 0..sample.programs {
        let regions = u64::from(sample.regions.max(1));
        let key = ProgramKey {
            seed: sample.seed,
            region: (i % regions) as u32,
            client: 0,
            ordinal: i / regions,
        };
        let program = generator.program(key);
        for node in 0..program.nodes.len() {
            let at = rng.below(caches.len());
            let mut text = prompt_of(&program, node);
            requests += 1;
            asked += text.iter().map(|s| u64::from(s.bytes)).sum::<u64>();
            known += caches[at].known(&text) / block * block;
            replied += u64::from(program.nodes[node].max_tokens);
            if sample.replies {
                text.extend_from_slice(program.reply(node).segments());
            }
            caches[at].insert(&text);
        }
    }
    let each = |sum: u64| sum as f64 / (requests as f64).max(1.0);
    Measured {
        requests,
        prompt_tokens: each(asked) / f64::from(BYTES_PER_TOKEN),
        reply_tokens: each(replied),
        reuse: known as f64 / (asked as f64).max(1.0),
    }
}

/// The whole prompt of `node`: the additions of every node from its root down to it, with the
/// program's replies in between.
#[must_use]
pub fn prompt_of(program: &Program, node: usize) -> Vec<Segment> {
    let mut path = vec![node];
    while let Some(parent) = program.nodes[path[path.len() - 1]].parent {
        path.push(parent);
    }
    let mut prompt = Vec::new();
    for (i, &at) in path.iter().enumerate().rev() {
        prompt.extend_from_slice(&program.nodes[at].adds);
        if i > 0 {
            prompt.extend_from_slice(program.reply(at).segments());
        }
    }
    prompt
}

/// An unbounded cache: for each list of whole segments, and each segment that has followed it, the
/// longest piece of that segment.
#[derive(Clone, Default)]
struct Unbounded {
    longest: HashMap<(u64, u64), u32>,
}

impl Unbounded {
    /// Leading bytes of `text` that are in the cache.
    fn known(&self, text: &[Segment]) -> u64 {
        let (mut before, mut known) = (0, 0);
        for segment in text {
            let Some(&longest) = self.longest.get(&(before, segment.id)) else { break };
            known += u64::from(longest.min(segment.bytes));
            if longest < segment.bytes {
                break;
            }
            before = chain(before, segment);
        }
        known
    }

    fn insert(&mut self, text: &[Segment]) {
        let mut before = 0;
        for segment in text {
            let longest = self.longest.entry((before, segment.id)).or_default();
            *longest = segment.bytes.max(*longest);
            before = chain(before, segment);
        }
    }
}

/// Names the list of segments that ends with `segment`.
fn chain(before: u64, segment: &Segment) -> u64 {
    mix(mix(before, segment.id), u64::from(segment.bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{GENERATORS, content_blocks};

    // The cache of segments finds exactly the leading blocks that a set of block hashes finds, for
    // every generator.
    #[test]
    fn equals_a_set_of_block_hashes() {
        for spec in GENERATORS {
            let generator = spec.published();
            let (mut cache, mut set) = (Unbounded::default(), HashSet::new());
            for ordinal in 0..25 {
                let key = ProgramKey { seed: 2, region: 0, client: 0, ordinal };
                let program = generator.program(key);
                for node in 0..program.nodes.len() {
                    let mut text = prompt_of(&program, node);
                    let mut blocks = Vec::new();
                    content_blocks(text.iter().copied(), 64, 0, &mut blocks);
                    let leading = blocks.iter().take_while(|b| set.contains(*b)).count() as u64;
                    assert_eq!(cache.known(&text) / 64, leading, "{} {ordinal}", spec.name);
                    text.extend_from_slice(program.reply(node).segments());
                    blocks.clear();
                    content_blocks(text.iter().copied(), 64, 0, &mut blocks);
                    set.extend(blocks);
                    cache.insert(&text);
                }
            }
        }
    }
}
