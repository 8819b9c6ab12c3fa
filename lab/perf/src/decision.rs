//! Measures the cost of a routing decision: hashing, matching, deciding, recording, and the index's
//! memory.
//!
//! One thread, no sockets: the routing machine as the gateway drives it, at the size the targets
//! name. A thousand replicas hold a million blocks: all of them a 6 KB system prompt, one or two of
//! them each session. Sessions return in random order with 32 KB prompts, so their part of the
//! index is seldom in the processor's caches.
//!
//! Then the same with prefill and decode replicas, where requests may be split (`decision/pools.rs`), and
//! with policies that are expressions (`decision/expressions.rs`).
//!
//! Each timing covers one operation, including the clock's own cost, but not its setup (making the
//! request, ending it).

mod expressions;
mod pools;
pub(crate) mod world;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::value_parser;
use meridian_base::{Fingerprinter, Rng, Time};
use meridian_routing::{Evict, Input, Output, PrefixIndex, Request, Routing, ShadowConfig};
use serde_json::json;

use crate::harness::{Quantiles, Results, memory, sample};
use world::{BLOCK, DecisionFleet, PROMPT};

/// Sizes of the measurement, and the path of its results.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Replicas
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u16).range(1..=4096))]
    replicas: u16,
    /// Distinct blocks in the index
    #[arg(long, default_value_t = 1_000_000)]
    blocks: usize,
    /// Operations timed of each kind
    #[arg(skip = 20_000_usize)]
    samples: usize,
    /// Output file
    #[arg(long, default_value = "target/bench/decision.json")]
    json: PathBuf,
}

/// Seed of sessions and order.
const SEED: u64 = 1;

/// Measures, prints the table, writes the file.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let settings = json!({"replicas": options.replicas, "seed": SEED});
    let mut results = Results::new("decision", settings, &options.json)?;
    hashing(&mut results);
    index(options, &mut results);
    deciding(options, &mut results)?;
    pools::deciding(options, &mut results)?;
    expressions::deciding(options, &mut results)?;
    results.finish()
}

/// Fingerprints of 32 KB prompts, one after another.
fn hashing(results: &mut Results) {
    let mut rng = Rng::new(SEED);
    // 2 MB of prompts: bodies that were just read are in the L2 cache, not the L1.
    let prompts: Vec<Vec<u8>> =
        (0..64).map(|_| (0..PROMPT).map(|_| rng.next_u64() as u8).collect()).collect();
    let mut best = 0.0_f64;
    for _ in 0..10 {
        let (start, mut bytes) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(50) {
            for prompt in &prompts {
                let mut print = Fingerprinter::new(1, 2, BLOCK);
                print.reserve(prompt.len());
                print.push(prompt);
                black_box(print.blocks());
                bytes += prompt.len();
            }
        }
        best = best.max(bytes as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    results.add("hashing, best of 10", "GB/s", best).at_least(8.0);
}

/// The index alone: its memory, matching, and inserting into a full one.
fn index(options: &Options, results: &mut Results) {
    let fleet = DecisionFleet::new(SEED, options.replicas, options.blocks);
    let targets = usize::from(options.replicas);
    let (before, _) = memory();
    let mut index = PrefixIndex::new(fleet.entries, targets, Evict::LeastRecent);
    fleet.fill(|target, blocks| index.insert(target, blocks));
    let (after, _) = memory();
    results.add("blocks in the index", "blocks", fleet.blocks as f64);
    results.add("entries (blocks at replicas)", "entries", index.len() as f64);
    let each = |bytes: f64| bytes / fleet.entries as f64;
    let allocated = index.bytes_allocated() as f64;
    results.add("index, allocated", "B/entry", each(allocated)).at_most(32.0);
    let grown = after.saturating_sub(before) as f64;
    results.add("index, resident", "B/entry", each(grown)).at_most(32.0);
    let mut depth = vec![0; targets];
    let mut rng = Rng::new(SEED).fork(1);
    let matching = sample(options.samples, || {
        let chain = fleet.returning(&mut rng);
        let start = Instant::now();
        index.matches(&chain, &mut depth);
        let took = start.elapsed();
        black_box(&depth);
        took
    });
    results.times("matching", &matching, [Some(1.5), None]);
    let inserting = sample(options.samples, || {
        let chain = fleet.returning(&mut rng);
        let target = rng.below(targets) as u16;
        let start = Instant::now();
        index.insert(target, &chain);
        start.elapsed()
    });
    results.times("inserting 512 blocks, full", &inserting, [Some(30.0), None]);
}

/// The whole machine with the default policy, and replicas without roles.
fn deciding(options: &Options, results: &mut Results) -> anyhow::Result<()> {
    let fleet = DecisionFleet::new(SEED, options.replicas, options.blocks);
    let Decided { decision, record, call, .. } = alone(options, &fleet, None)?;
    let shadow = meridian_rivals::find("sglang_cache_aware").context("the policy is registered")?;
    let shadowed = alone(options, &fleet, Some(ShadowConfig::new(shadow)))?;
    let free = [None; 2];
    results.times("decision", &decision, [Some(3.0), Some(10.0)]);
    results.times("recording it", &record, free);
    results.times("both (a request waits for them)", &call, free);
    results.times("decision with a shadow", &shadowed.decision, free);
    results.times("recording it, and the shadow's decision", &shadowed.record, free);
    Ok(())
}

/// Decisions about sessions that return, with or without a shadow policy.
fn alone(
    options: &Options,
    fleet: &DecisionFleet,
    shadow: Option<ShadowConfig>,
) -> anyhow::Result<Decided> {
    let mut routing = fleet.routing(SEED, shadow)?;
    let mut rng = Rng::new(SEED).fork(2);
    let now = Time::from_millis(1_000_000);
    decide(&mut routing, now, options.samples, |_, _| fleet.request(fleet.returning(&mut rng)))
}

/// The time in microseconds that a request waits for its decision and the record of it, in the median
/// of `samples`, with so many replicas and blocks.
pub fn wait_us(replicas: u16, blocks: usize, samples: usize) -> anyhow::Result<f64> {
    let options = Options { replicas, blocks, samples, json: PathBuf::new() };
    let fleet = DecisionFleet::new(SEED, replicas, blocks);
    Ok(alone(&options, &fleet, None)?.call.p50)
}

/// The times of decisions, of recording them, and of both; and how many requests were split.
struct Decided {
    decision: Quantiles,
    record: Quantiles,
    call: Quantiles,
    pairs: usize,
    all: usize,
}

/// Times decisions about `count` requests, one in 100 us. Each leaves as soon as it is dispatched,
/// and the index drops its prompt again, so that every decision finds the same region.
fn decide(
    routing: &mut Routing,
    mut now: Time,
    count: usize,
    mut next: impl FnMut(&mut Routing, Time) -> Request,
) -> anyhow::Result<Decided> {
    let mut records = Vec::with_capacity(count);
    let mut calls = Vec::with_capacity(count);
    let (mut wrong, mut pairs, mut all) = (0, 0, 0);
    let decision = sample(count, || {
        now = now + Duration::from_micros(100);
        let request = next(routing, now);
        let id = request.id;
        let start = Instant::now();
        routing.handle(now, Input::Arrived(request));
        let output = routing.poll();
        let took = start.elapsed();
        all += 1;
        match output {
            Some(Output::Dispatch { prefill, .. }) => pairs += usize::from(prefill.is_some()),
            _ => wrong += 1,
        }
        drain(routing);
        let call = start.elapsed();
        records.push(call - took);
        calls.push(call);
        routing.handle(now, Input::Cancelled(id));
        drain(routing);
        took
    });
    anyhow::ensure!(wrong == 0, "{wrong} of {all} requests were not dispatched");
    let (record, call) = (Quantiles::of(&records), Quantiles::of(&calls));
    Ok(Decided { decision, record, call, pairs, all })
}

fn drain(routing: &mut Routing) {
    while routing.poll().is_some() {}
}
