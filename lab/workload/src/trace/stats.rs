//! Statistics of a trace: rate, lengths, and reuse of prefixes.

mod arrivals;
mod prefixes;
mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::TraceRequest;
use super::tally::Tally;
use arrivals::Arrivals;
use prefixes::Prefixes;
use turns::Turns;

/// Options for the statistics.
#[derive(Clone, Debug)]
pub struct StatsOptions {
    /// Leading blocks that all requests may share without being turns of one conversation. If the
    /// trace has sessions, those decide instead.
    pub opening_blocks: usize,
    /// Sizes of an LRU cache, in blocks.
    pub cache_blocks: Vec<u64>,
}

impl Default for StatsOptions {
    fn default() -> StatsOptions {
        let cache_blocks = vec![1_000, 3_000, 10_000, 30_000, 50_000, 100_000];
        StatsOptions { opening_blocks: 1, cache_blocks }
    }
}

/// Counts requests, which must be ordered by time. Memory grows with the number of different blocks
/// and of sessions.
pub struct Stats {
    options: StatsOptions,
    arrivals: Arrivals,
    input: Tally,
    output: Tally,
    regions: BTreeMap<Arc<str>, u64>,
    prefixes: Prefixes,
    turns: Turns,
}

/// The figures of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Requests.
    pub requests: u64,
    /// From the first to the last, in seconds.
    pub seconds: f64,
    /// Requests a second.
    pub per_second: f64,
    /// Coefficient of variation of the gaps between arrivals.
    pub gap_cv: f64,
    /// Requests in a minute: least, mean and most, over whole minutes from the first request.
    pub per_minute: (u64, f64, u64),
    /// Tokens of the prompts.
    pub input: Lengths,
    /// Tokens of the replies.
    pub output: Lengths,
    /// Requests of each region.
    pub regions: Vec<(Arc<str>, u64)>,
    /// Shared prefixes; `None` without block ids.
    pub reuse: Option<PrefixReuse>,
    /// Turns of conversations; `None` if there are neither sessions nor block ids.
    pub turns: Option<Extensions>,
}

/// Lengths or times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lengths {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

/// The share of prompts that was seen before, counted over leading blocks only.
#[derive(Clone, Debug, PartialEq)]
pub struct PrefixReuse {
    /// Blocks of all prompts.
    pub blocks: u64,
    /// Different prefixes that end with a block.
    pub distinct: u64,
    /// The share of blocks found in an infinite cache.
    pub of_blocks: f64,
    /// The share of prompt tokens found in it.
    pub of_tokens: f64,
    /// The share of blocks found in an LRU cache of this many blocks.
    pub lru: Vec<(u64, f64)>,
}

/// Requests that continue a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Extensions {
    /// Their share of all requests.
    pub share: f64,
    /// Seconds since the request that they continue.
    pub gap_s: Lengths,
    /// Their tokens that no earlier prompt has.
    pub new_tokens: Lengths,
    /// Requests that are the first, second, third, ... of their conversation.
    pub by_turn: Vec<u64>,
}

impl Stats {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(options: StatsOptions) -> Stats {
        Stats {
            prefixes: Prefixes::new(options.cache_blocks.clone()),
            options,
            arrivals: Arrivals::default(),
            input: Tally::default(),
            output: Tally::default(),
            regions: BTreeMap::new(),
            turns: Turns::default(),
        }
    }

    /// Counts one request.
    pub fn add(&mut self, request: &TraceRequest) {
        self.arrivals.add(request.at);
        self.input.add(u64::from(request.input_tokens));
        self.output.add(u64::from(request.output_tokens));
        if let Some(region) = &request.region {
            *self.regions.entry(region.clone()).or_default() += 1;
        }
        let (matched, owner) = self.prefixes.add(request, self.turns.requests());
        let owner = owner.filter(|_| matched.blocks > self.options.opening_blocks);
        self.turns.add(request, owner, request.input_tokens - matched.tokens);
    }

    /// The figures.
    #[must_use]
    pub fn finish(self) -> Summary {
        let Arrivals { count, first, last, .. } = self.arrivals;
        let seconds = last.since(first).as_secs_f64();
        Summary {
            requests: count,
            seconds,
            per_second: if seconds > 0.0 { count as f64 / seconds } else { 0.0 },
            gap_cv: self.arrivals.gap_cv(),
            per_minute: self.arrivals.per_minute(),
            input: lengths(&self.input, 1.0),
            output: lengths(&self.output, 1.0),
            regions: self.regions.into_iter().collect(),
            turns: self.turns.finish(self.prefixes.blocks > 0),
            reuse: self.prefixes.finish(&self.input),
        }
    }
}

fn lengths(tally: &Tally, unit: f64) -> Lengths {
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|q| tally.quantile(q) / unit);
    Lengths { mean: tally.mean() / unit, p50, p90, p99, max: tally.max() as f64 / unit }
}
