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
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use meridian_base::{Fingerprinter, Rng, Time};
use meridian_routing::{Evict, Input, Output, PrefixIndex, Request, Routing, ShadowConfig};
use serde::Serialize;

use meridian_tools::json_file;
use world::{BLOCK, Fleet, PROMPT};

/// Sizes of the measurement, and the path of its results.
#[derive(Clone, Debug)]
pub struct Options {
    /// Replicas.
    pub replicas: u16,
    /// Distinct blocks in the index.
    pub blocks: usize,
    /// Operations timed of each kind.
    pub samples: usize,
    /// Seed of sessions and order.
    pub seed: u64,
    /// The path of the results.
    pub json: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            replicas: 1_000,
            blocks: 1_000_000,
            samples: 20_000,
            seed: 1,
            json: PathBuf::from("target/bench/decision.json"),
        }
    }
}

/// One figure with its target.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name of the measured quantity.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The figure.
    pub value: f64,
    /// The target: a minimum for a rate, a maximum for the rest.
    pub target: Option<f64>,
}

impl Row {
    fn rate(&self) -> bool {
        self.unit.ends_with("/s")
    }

    fn met(&self) -> Option<bool> {
        self.target.map(|t| if self.rate() { self.value >= t } else { self.value <= t })
    }
}

/// A run's figures, as written to the file.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    bench: &'static str,
    commit: String,
    replicas: u16,
    seed: u64,
    rows: Vec<Row>,
}

/// Measures, prints the table, writes the file.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut rows = vec![hashing(options.seed)];
    rows.extend(index(options));
    rows.extend(deciding(options)?);
    rows.extend(pools::deciding(options)?);
    rows.extend(expressions::deciding(options)?);
    let (replicas, seed) = (options.replicas, options.seed);
    let report =
        Report { bench: "decision", commit: meridian_tools::commit(), replicas, seed, rows };
    print(&report.rows);
    json_file::write(&report, &options.json)
}

/// Fingerprints of 32 KB prompts, one after another.
fn hashing(seed: u64) -> Row {
    let mut rng = Rng::new(seed);
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
    Row { name: "hashing, best of 10", unit: "GB/s", value: best, target: Some(8.0) }
}

/// The index alone: its memory, matching, and inserting into a full one.
fn index(options: &Options) -> Vec<Row> {
    let fleet = Fleet::new(options.seed, options.replicas, options.blocks);
    let targets = usize::from(options.replicas);
    let before = resident();
    let mut index = PrefixIndex::new(fleet.entries, targets, Evict::LeastRecent);
    fleet.fill(|target, blocks| index.insert(target, blocks));
    let blocks = fleet.blocks as f64;
    let allocated = index.bytes_allocated() as f64;
    let mut rows = vec![
        row("blocks in the index", "blocks", blocks),
        row("entries (blocks at replicas)", "entries", index.len() as f64),
        bounded("index, allocated", "B/entry", allocated / fleet.entries as f64, 32.0),
    ];
    if let (Some(before), Some(after)) = (before, resident()) {
        let grown = after.saturating_sub(before) as f64;
        rows.push(bounded("index, resident", "B/entry", grown / fleet.entries as f64, 32.0));
    }
    let mut depth = vec![0; targets];
    let mut rng = Rng::new(options.seed).fork(1);
    let times = sample(options.samples, || {
        let chain = fleet.returning(&mut rng);
        let start = Instant::now();
        index.matches(&chain, &mut depth);
        let took = start.elapsed();
        black_box(&depth);
        took
    });
    rows.push(bounded("matching, p50", "us", times.p50, 1.5));
    rows.push(row("matching, p99", "us", times.p99));
    let times = sample(options.samples, || {
        let chain = fleet.returning(&mut rng);
        let target = rng.below(targets) as u16;
        let start = Instant::now();
        index.insert(target, &chain);
        start.elapsed()
    });
    rows.push(bounded("inserting 512 blocks, full, p50", "us", times.p50, 30.0));
    rows.push(row("inserting 512 blocks, full, p99", "us", times.p99));
    rows
}

/// The whole machine with the default policy, and replicas without roles.
fn deciding(options: &Options) -> anyhow::Result<Vec<Row>> {
    let fleet = Fleet::new(options.seed, options.replicas, options.blocks);
    let Decided { decision, record, call, .. } = alone(options, &fleet, None)?;
    let shadow = meridian_rivals::find("sglang_cache_aware").context("the policy is registered")?;
    let shadowed = alone(options, &fleet, Some(ShadowConfig::new(shadow)))?;
    Ok(vec![
        bounded("decision, p50", "us", decision.p50, 3.0),
        bounded("decision, p99", "us", decision.p99, 10.0),
        row("recording it, p50", "us", record.p50),
        row("recording it, p99", "us", record.p99),
        row("both (a request waits for them), p50", "us", call.p50),
        row("both (a request waits for them), p99", "us", call.p99),
        row("decision with a shadow, p50", "us", shadowed.decision.p50),
        row("decision with a shadow, p99", "us", shadowed.decision.p99),
        row("recording it, and the shadow's decision, p50", "us", shadowed.record.p50),
        row("recording it, and the shadow's decision, p99", "us", shadowed.record.p99),
    ])
}

/// Decisions about sessions that return, with or without a shadow policy.
fn alone(
    options: &Options,
    fleet: &Fleet,
    shadow: Option<ShadowConfig>,
) -> anyhow::Result<Decided> {
    let mut routing = fleet.routing(options.seed, shadow)?;
    let mut rng = Rng::new(options.seed).fork(2);
    let now = Time::from_millis(1_000_000);
    decide(&mut routing, now, options.samples, |_, _| fleet.request(fleet.returning(&mut rng)))
}

/// The time in microseconds that a request waits for its decision and the record of it, in the median
/// of `samples`, with so many replicas and blocks.
pub fn wait_us(replicas: u16, blocks: usize, samples: usize) -> anyhow::Result<f64> {
    let options = Options { replicas, blocks, samples, ..Options::default() };
    let fleet = Fleet::new(options.seed, replicas, blocks);
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
    let (record, call) = (Quantiles::of(records), Quantiles::of(calls));
    Ok(Decided { decision, record, call, pairs, all })
}

fn drain(routing: &mut Routing) {
    while routing.poll().is_some() {}
}

pub(crate) fn row(name: &'static str, unit: &'static str, value: f64) -> Row {
    Row { name, unit, value, target: None }
}

pub(crate) fn bounded(name: &'static str, unit: &'static str, value: f64, target: f64) -> Row {
    Row { name, unit, value, target: Some(target) }
}

/// Median and 99th percentile in microseconds.
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Quantiles {
    pub(crate) fn of(mut times: Vec<Duration>) -> Quantiles {
        times.sort_unstable();
        let at =
            |q: usize| times.get(times.len() * q / 100).map_or(0.0, |t| t.as_nanos() as f64 / 1e3);
        Quantiles { p50: at(50), p99: at(99) }
    }
}

/// Times `count` operations, after a warm-up of a twentieth as many.
pub(crate) fn sample(count: usize, mut operation: impl FnMut() -> Duration) -> Quantiles {
    for _ in 0..count / 20 {
        operation();
    }
    Quantiles::of((0..count).map(|_| operation()).collect())
}

/// Resident memory of this process in bytes, if the system reports it.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = status.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size())
}

/// The table in the terminal.
pub(crate) fn print(rows: &[Row]) {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["", "measured", "target", "unit", "met"]);
    for row in rows {
        let sign = if row.rate() { ">=" } else { "<=" };
        table.add_row([
            row.name.to_owned(),
            if row.value >= 1e3 {
                format!("{:.0}", row.value)
            } else {
                format!("{:.2}", row.value)
            },
            row.target.map_or_else(String::new, |t| format!("{sign} {t}")),
            row.unit.to_owned(),
            row.met().map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
