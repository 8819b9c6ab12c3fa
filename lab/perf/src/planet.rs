//! Measures the simulator at the size of a planet: thirty regions, thousands of replicas.
//!
//! Each region has a gateway with the default policy, which forwards to all others. Chats arrive in
//! each region by its own day, so that some are over their capacity while others sleep. Runs with
//! growing numbers of requests show whether time and memory of a simulated request grow too. Each
//! is in a separate process, so that its peak memory is its own.
//!
//! [`fill`](Options::fill) measures the memory of the replicas alone, with full KV caches.

mod cities;
mod fill;
mod world;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use meridian_base::Time;
use meridian_sim::{Fate, Record, Report, Running, Sample};
use serde::{Deserialize, Serialize};

use crate::simspeed::{processor, resident};
use meridian_tools::json_file;
use meridian_tools::stats::quantile;

/// How large the planet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Regions, 1 to 30.
    pub regions: usize,
    /// Replicas of all regions together, at least one each.
    pub replicas: usize,
}

/// Options of the measurement, and the path of its results.
#[derive(Clone, Debug)]
pub struct Options {
    /// How large the planet is.
    pub size: Size,
    /// Requests of each run.
    pub requests: Vec<u64>,
    /// Simulated time before a run is measured.
    pub warmup: Duration,
    /// Fill the KV of the replicas instead, and measure their memory.
    pub fill: bool,
    /// Output file.
    pub json: PathBuf,
}

/// One run, as its process reports it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Run {
    /// Requests simulated in the window.
    requests: u64,
    /// Simulated seconds of the window.
    simulated: f64,
    /// Events handled in the window.
    events: u64,
    /// CPU seconds of the window, since the machine may have other work.
    seconds: f64,
    /// Peak resident memory, in bytes.
    peak: u64,
    /// Its growth during the window, in bytes.
    memory: u64,
    /// Of that, records and samples of the report.
    report: u64,
    /// Share of the requests that were forwarded.
    forwarded: f64,
    /// Share of the prompt tokens that were cached.
    hits: f64,
    /// TTFT at the client: median and 90th percentile, in ms.
    ttft_ms: [f64; 2],
    /// Requests that were not answered.
    lost: u64,
}

#[derive(Debug, Serialize)]
struct Results<T> {
    bench: &'static str,
    commit: String,
    size: Size,
    rows: Vec<T>,
}

/// Measures, prints the table, writes the file.
///
/// # Errors
/// When there is no such planet, a run fails, or the file cannot be written.
pub fn measure(options: &Options) -> anyhow::Result<()> {
    let (bench, commit, size) = ("planet", meridian_tools::commit(), options.size);
    if options.fill {
        let rows = fill::measure(size.replicas)?;
        fill::print(&rows);
        return json_file::write(&Results { bench, commit, size, rows }, &options.json);
    }
    // An impossible planet is reported once, not by each process.
    world::scenario(size, options.warmup, 1)?;
    let rows: Vec<Run> = (options.requests.iter())
        .map(|requests| apart(options, *requests))
        .collect::<anyhow::Result<_>>()?;
    print(&rows);
    json_file::write(&Results { bench, commit, size, rows }, &options.json)
}

/// One run in this process, reported as a line of JSON.
///
/// # Errors
/// When there is no such planet.
pub fn one(size: Size, warmup: Duration, requests: u64) -> anyhow::Result<()> {
    let mut running = Running::new(world::scenario(size, warmup, requests)?)?;
    running.until(Time::ZERO + warmup);
    let (before, events, start) = (resident("VmRSS")?, running.events(), processor()?);
    running.until(Time::MAX);
    let seconds = processor()? - start;
    let (peak, events) = (resident("VmHWM")?, running.events() - events);
    let report = running.end();
    ensure!(report.violations.is_empty(), "broken invariants: {:?}", report.violations);
    let memory = peak.saturating_sub(before);
    let run = Run { events, seconds, peak, memory, ..summary(&report, warmup) };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&run)?)?;
    Ok(())
}

/// The results of the requests.
fn summary(report: &Report, warmup: Duration) -> Run {
    let all = &report.requests;
    let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    let count = |of: fn(&Record) -> bool| all.iter().filter(|r| of(r)).count() as u64;
    let tokens = |of: fn(&Record) -> u32| all.iter().map(|r| u64::from(of(r))).sum::<u64>();
    let done = all.iter().filter(|r| r.fate == Fate::Done);
    let ttft: Vec<f64> = done.map(|r| r.ttft.as_secs_f64() * 1e3).collect();
    Run {
        requests: all.len() as u64,
        simulated: (report.ended - warmup).as_secs_f64(),
        report: (size_of_val(&all[..]) + report.samples.len() * size_of::<Sample>()) as u64,
        forwarded: share(count(|r| r.forwarded), all.len() as u64),
        hits: share(tokens(|r| r.cached_tokens), tokens(|r| r.prompt_tokens)),
        ttft_ms: [0.5, 0.9].map(|q| quantile(&ttft, q).unwrap_or(0.0)),
        lost: count(|r| r.fate != Fate::Done),
        events: 0,
        seconds: 0.0,
        peak: 0,
        memory: 0,
    }
}

/// One run in a separate process.
fn apart(options: &Options, requests: u64) -> anyhow::Result<Run> {
    let program = std::env::current_exe().context("this program's own path is unknown")?;
    let Size { regions, replicas } = options.size;
    let args = [
        "--regions".to_owned(),
        regions.to_string(),
        "--replicas".to_owned(),
        replicas.to_string(),
        "--warmup".to_owned(),
        format!("{}s", options.warmup.as_secs_f64()),
        "--one".to_owned(),
        requests.to_string(),
    ];
    let out = Command::new(program).args(["bench", "planet"]).args(args).output()?;
    let error = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "the run of {requests} requests failed: {error}");
    let read = serde_json::from_slice(&out.stdout);
    read.with_context(|| format!("the run of {requests} requests printed no result"))
}

fn print(rows: &[Run]) {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
        "requests",
        "simulated s",
        "events/request",
        "us/request",
        "B/request",
        "of these, the report",
        "peak MiB",
        "forwarded",
        "prefix hits",
        "TTFT p50, p90 ms",
        "lost",
    ]);
    for run in rows {
        let each = |total: f64| format!("{:.1}", total / run.requests.max(1) as f64);
        table.add_row([
            run.requests.to_string(),
            format!("{:.0}", run.simulated),
            each(run.events as f64),
            each(run.seconds * 1e6),
            each(run.memory as f64),
            each(run.report as f64),
            format!("{:.0}", run.peak as f64 / f64::from(1 << 20)),
            format!("{:.1} %", run.forwarded * 100.0),
            format!("{:.1} %", run.hits * 100.0),
            format!("{:.0}, {:.0}", run.ttft_ms[0], run.ttft_ms[1]),
            run.lost.to_string(),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
