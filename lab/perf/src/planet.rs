//! Measures the simulator at the size of a planet: thirty regions, thousands of replicas.
//!
//! Each region has a gateway with the default policy, which forwards to all others. Chats arrive in
//! each region by its own day, so that some are over their capacity while others sleep. Runs with
//! growing numbers of requests show whether time and memory of a simulated request grow too. Each
//! is in a separate process, so that its peak memory is its own.
//!
//! `--fill` measures the memory of the replicas alone, with full KV caches.

mod cities;
mod fill;
mod world;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::value_parser;
use meridian_base::{Time, quantile};
use meridian_sim::{Fate, Record, Report, Running, Sample};
use meridian_tools::load::seconds;
use serde::{Deserialize, Serialize};

use crate::harness::{Results, apart, cpu_time, memory, tell};

/// How large the planet is.
#[derive(Clone, Copy, Debug, Serialize, clap::Args)]
struct Size {
    /// Regions, 1 to 30
    #[arg(long, default_value_t = 30)]
    regions: usize,
    /// Replicas of all regions together
    #[arg(long, default_value_t = 3000)]
    replicas: usize,
}

/// Options of the measurement, and the path of its results.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Requests of each run
    #[arg(long, value_delimiter = ',', default_value = "100000,1000000",
          value_parser = value_parser!(u64).range(1..))]
    requests: Vec<u64>,
    #[command(flatten)]
    size: Size,
    /// Simulated time before a run is measured: until then caches and indexes fill up
    #[arg(long, default_value = "15m", value_parser = seconds)]
    warmup: Duration,
    /// Fill the KV of the replicas instead, and measure their memory
    #[arg(long, conflicts_with = "requests")]
    fill: bool,
    /// Output file
    #[arg(long, default_value = "target/bench/planet.json")]
    json: PathBuf,
    /// One run in this process, of this many requests
    #[arg(long, hide = true)]
    one: Option<u64>,
}

/// One run, as its process reports it.
#[derive(Deserialize, Serialize)]
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

/// Measures, prints the table, writes the file.
///
/// # Errors
/// When there is no such planet, a run fails, or the file cannot be written.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let Options { size, warmup, .. } = *options;
    if let Some(requests) = options.one {
        return one(size, warmup, requests);
    }
    let mut results = Results::new("planet", serde_json::to_value(size)?, &options.json)?;
    if options.fill {
        fill::measure(size.replicas, &mut results)?;
        return results.finish();
    }
    // An impossible planet is reported once, not by each process.
    world::scenario(size, warmup, 1)?;
    let (regions, replicas) = (size.regions.to_string(), size.replicas.to_string());
    let (size, seconds) = (["--regions", &regions, "--replicas", &replicas], warmup.as_secs_f64());
    for requests in &options.requests {
        let (warmup, requests) = (format!("{seconds}s"), requests.to_string());
        let args = ["planet", "--warmup", &warmup, "--one", &requests];
        let run: Run = apart(&[&args[..], &size].concat())?;
        run.add(&mut results);
    }
    results.finish()
}

impl Run {
    fn add(&self, results: &mut Results) {
        let each = |total: f64| total / self.requests.max(1) as f64;
        results.case(format!("{} requests", self.requests));
        results.add("simulated", "s", self.simulated.round());
        results.add("events", "a request", each(self.events as f64));
        results.add("time", "us/request", each(self.seconds * 1e6));
        results.add("memory", "B/request", each(self.memory as f64));
        results.add("of these, the report", "B/request", each(self.report as f64));
        results.add("peak", "MiB", (self.peak as f64 / f64::from(1 << 20)).round());
        results.add("forwarded", "%", self.forwarded * 100.0);
        results.add("prefix hits", "%", self.hits * 100.0);
        results.add("TTFT p50", "ms", self.ttft_ms[0].round());
        results.add("TTFT p90", "ms", self.ttft_ms[1].round());
        results.add("lost", "", self.lost as f64);
    }
}

/// One run in this process.
fn one(size: Size, warmup: Duration, requests: u64) -> anyhow::Result<()> {
    let mut running = Running::new(world::scenario(size, warmup, requests)?)?;
    running.until(Time::ZERO + warmup);
    let ((before, _), events, start) = (memory(), running.events(), cpu_time());
    running.until(Time::MAX);
    let seconds = (cpu_time() - start).as_secs_f64();
    let ((_, peak), events) = (memory(), running.events() - events);
    let report = running.end();
    ensure!(report.violations.is_empty(), "broken invariants: {:?}", report.violations);
    let memory = peak.saturating_sub(before);
    tell(&Run { events, seconds, peak, memory, ..summary(&report, warmup) })
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
