//! What a trace is like: how much comes, how long it is, and how much of it came before.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use meridian_base::Time;

use super::TraceRequest;
use super::ancestry::Ancestry;
use super::reuse::Reuse;
use super::tally::Tally;

/// What is counted.
#[derive(Clone, Debug)]
pub struct StatsOptions {
    /// Leading blocks that all requests may share without being turns of one conversation. Where
    /// the trace knows its sessions, they decide instead.
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

/// Counts requests, which come by time. Memory grows with the number of different blocks and of
/// sessions.
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
    /// What prompts share; None without block ids.
    pub reuse: Option<PrefixReuse>,
    /// Turns of conversations; None where there are neither sessions nor block ids.
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

/// How much of the prompts came before, counted over leading blocks only.
#[derive(Clone, Debug, PartialEq)]
pub struct PrefixReuse {
    /// Blocks of all prompts.
    pub blocks: u64,
    /// Different prefixes that end with a block.
    pub distinct: u64,
    /// The share of blocks that an endless cache holds.
    pub of_blocks: f64,
    /// The share of prompt tokens that it holds.
    pub of_tokens: f64,
    /// The share of blocks that an LRU cache of so many blocks holds.
    pub lru: Vec<(u64, f64)>,
}

/// Requests that continue a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Extensions {
    /// Their share of all requests.
    pub share: f64,
    /// Seconds since the request that they continue.
    pub gap_s: Lengths,
    /// Tokens of theirs that no earlier prompt has.
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

/// Times of arrival.
#[derive(Default)]
struct Arrivals {
    count: u64,
    first: Time,
    last: Time,
    gaps: f64,
    squares: f64,
    minutes: BTreeMap<u64, u64>,
}

const MINUTE: u64 = 60_000_000_000;

impl Arrivals {
    fn add(&mut self, at: Time) {
        if self.count == 0 {
            (self.first, self.last) = (at, at);
        } else {
            let gap = at.since(self.last).as_secs_f64();
            self.gaps += gap;
            self.squares += gap * gap;
        }
        self.count += 1;
        self.last = self.last.max(at);
        *self.minutes.entry(self.minute(at)).or_default() += 1;
    }

    fn minute(&self, at: Time) -> u64 {
        at.as_nanos().saturating_sub(self.first.as_nanos()) / MINUTE
    }

    fn gap_cv(&self) -> f64 {
        let n = self.count.saturating_sub(1).max(1) as f64;
        let mean = self.gaps / n;
        let variance = (self.squares / n - mean * mean).max(0.0);
        if mean > 0.0 { libm::sqrt(variance) / mean } else { 0.0 }
    }

    fn per_minute(&self) -> (u64, f64, u64) {
        let whole = self.minute(self.last);
        if whole == 0 {
            return (self.count, self.count as f64, self.count);
        }
        let counts = || self.minutes.range(..whole).map(|(_, &n)| n);
        let empty = (counts().count() as u64) < whole;
        let least = if empty { 0 } else { counts().min().unwrap_or(0) };
        (least, counts().sum::<u64>() as f64 / whole as f64, counts().max().unwrap_or(0))
    }
}

/// What prompts share.
struct Prefixes {
    ancestry: Ancestry,
    reuse: Reuse,
    sizes: Vec<u64>,
    hits: Vec<u64>,
    blocks: u64,
    matched_blocks: u64,
    matched_tokens: u64,
}

/// What an endless cache holds of a prompt.
struct Matched {
    blocks: usize,
    tokens: u32,
}

impl Prefixes {
    fn new(sizes: Vec<u64>) -> Prefixes {
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

    fn add(&mut self, request: &TraceRequest, number: u64) -> (Matched, Option<u64>) {
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

    /// Counts the leading blocks that each size still holds: the run ends at the first block that
    /// was used too long ago.
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

    fn finish(self, input: &Tally) -> Option<PrefixReuse> {
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

/// Turns of conversations.
#[derive(Default)]
struct Turns {
    /// Time and turn of every request, for those that extend it.
    requests: Vec<(Time, u32)>,
    /// The last request of each session.
    sessions: HashMap<u64, u64>,
    gaps: Tally,
    new_tokens: Tally,
    by_turn: BTreeMap<u32, u64>,
}

impl Turns {
    fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    fn add(&mut self, request: &TraceRequest, owner: Option<u64>, new_tokens: u32) {
        let number = self.requests();
        let before = match request.session {
            Some(session) => self.sessions.insert(session, number),
            None => owner,
        };
        let before = before.and_then(|before| self.requests.get(usize::try_from(before).ok()?));
        let turn = before.map_or(1, |(_, turn)| turn.saturating_add(1));
        if let Some(&(at, _)) = before {
            self.gaps.add(u64::try_from(request.at.since(at).as_nanos()).unwrap_or(u64::MAX));
            self.new_tokens.add(u64::from(new_tokens));
        }
        *self.by_turn.entry(turn).or_default() += 1;
        self.requests.push((request.at, turn));
    }

    fn finish(self, blocks: bool) -> Option<Extensions> {
        let known = blocks || !self.sessions.is_empty();
        known.then(|| Extensions {
            share: self.gaps.len() as f64 / self.requests.len().max(1) as f64,
            gap_s: lengths(&self.gaps, 1e9),
            new_tokens: lengths(&self.new_tokens, 1.0),
            // Every turn has one before it, so that none is missing in between.
            by_turn: self.by_turn.into_values().collect(),
        })
    }
}
