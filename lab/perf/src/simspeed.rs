//! Measures the simulator: its speed, and the time and memory of a simulated request.
//!
//! It runs the work of SkyWalker's Figure 8: four workloads from clients in three regions on twelve
//! L4, under three systems. Runs are one at a time on one core, each in a separate process, so that
//! its peak memory is its own. A short run first finds the window that gives the desired number of
//! requests.
//!
//! Runs that show growth start after a warm-up. A fleet that has just started has less work per
//! request: conversations are at their first turns, and no index is full.
//!
//! For comparison, Vidur, a Python simulator in this field, runs the same trace (`peer.rs`).

mod peer;
mod world;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::value_parser;
use meridian_base::Time;
use meridian_sim::{Measure, Record, Running, Sample, run as simulate};
use meridian_tools::load::seconds;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::world::SYSTEMS;
use crate::harness::{Results, apart, cpu_time, memory, tell};

/// Options of the measurement, and the path of its results.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Requests in the runs that compare systems
    #[arg(long, default_value_t = 20_000, value_parser = value_parser!(u64).range(1..))]
    requests: u64,
    /// Requests in the runs that show growth
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000",
          value_parser = value_parser!(u64).range(1..))]
    growth: Vec<u64>,
    /// System in the runs that show growth
    #[arg(long, default_value = "skywalker", value_parser = SYSTEMS)]
    system: String,
    /// Simulated time before the runs that show growth are measured: until then conversations grow
    /// longer and indexes fill up
    #[arg(long, default_value = "6h", value_parser = seconds)]
    warmup: Duration,
    /// Requests in the trace that Vidur also runs; 0 for no run of Vidur
    #[arg(long, default_value_t = 2000)]
    peer: u64,
    /// Output file
    #[arg(long, default_value = "target/bench/sim.json")]
    json: PathBuf,
    /// One run in this process: WORKLOAD/SYSTEM/REQUESTS
    #[arg(long, hide = true)]
    cell: Option<Cell>,
}

/// One run, as its process reports it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Run {
    /// The workload.
    workload: String,
    /// Requests simulated in the window.
    requests: u64,
    /// Tokens of their prompts.
    prompt_tokens: u64,
    /// Events handled.
    events: u64,
    /// CPU seconds, since the machine may have other work.
    seconds: f64,
    /// Simulated seconds.
    simulated: f64,
    /// Growth of peak resident memory during the window, in bytes.
    memory: u64,
    /// Of that, records and samples of the report.
    report: u64,
}

/// The figure's own runs are minutes long and start with new clients.
const COLD: Duration = Duration::ZERO;
/// Target of requests a second on one core.
const TARGET: f64 = 50_000.0;
/// The workloads whose growth is shown: one beyond the fleet's capacity, one within it.
const GROWN: [&str; 2] = ["arena", "tot"];
/// Target as a multiple of Vidur's speed.
const TARGET_RATIO: f64 = 100.0;

/// Measures, prints the table, writes the file.
///
/// # Errors
/// When a run fails or the file cannot be written. Without Vidur the table says why.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if let Some(cell) = &options.cell {
        return one(cell, options.warmup);
    }
    let mut results = Results::new("sim", json!({}), &options.json)?;
    for system in SYSTEMS {
        let all = (world::WORKLOADS.iter())
            .map(|(workload, _)| in_process(&Cell::new(workload, system, options.requests), COLD))
            .collect::<anyhow::Result<Vec<Run>>>()?;
        for run in &all {
            let rate = run.requests as f64 / run.seconds;
            let name = format!("{}, {system}", run.workload);
            results.add(&*name, "requests/s", rate).at_least(TARGET);
            results.add(name, "events/request", run.events as f64 / run.requests as f64);
        }
        let name = format!("Figure 8, {system}");
        results.add(name, "requests/s", figure(&all)).at_least(TARGET);
    }
    for workload in GROWN {
        grow(workload, options, &mut results)?;
    }
    if options.peer > 0 {
        beside(options.peer, &mut results)?;
    }
    results.finish()
}

/// Requests a second over several workloads that are simulated for the same time, like the
/// figure's: a workload with ten times the requests has ten times the weight.
fn figure(all: &[Run]) -> f64 {
    let sum = |each: fn(&Run) -> f64| all.iter().map(|run| each(run) / run.simulated).sum::<f64>();
    sum(|run| run.requests as f64) / sum(|run| run.seconds)
}

/// Increasingly long runs of one world.
fn grow(workload: &str, options: &Options, results: &mut Results) -> anyhow::Result<()> {
    // The rate of a short run, whose clients have just started, is too high: each run corrects the
    // next one's.
    let mut stretch = 1.0;
    for requests in &options.growth {
        let asked = *requests as f64 * stretch;
        let run = in_process(&Cell::new(workload, &options.system, asked as u64), options.warmup)?;
        stretch = asked / run.requests as f64;
        for (what, unit, total) in [
            ("prompts", "tokens/request", run.prompt_tokens as f64),
            ("time", "us/request", run.seconds * 1e6),
            ("memory, all", "B/request", run.memory as f64),
            ("memory, report", "B/request", run.report as f64),
        ] {
            let name = format!("{workload}, {} requests, {what}", run.requests);
            results.add(name, unit, total / run.requests as f64);
        }
    }
    Ok(())
}

/// The workload, system and length of a run, written `WORKLOAD/SYSTEM/REQUESTS`.
#[derive(Clone, Debug)]
struct Cell {
    workload: String,
    system: String,
    requests: u64,
}

impl Cell {
    fn new(workload: &str, system: &str, requests: u64) -> Cell {
        Cell { workload: workload.to_owned(), system: system.to_owned(), requests }
    }
}

impl FromStr for Cell {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Cell> {
        let parts: Vec<&str> = text.split('/').collect();
        let requests = parts.get(2).and_then(|n| n.parse().ok()).filter(|n| *n > 0);
        let (3, Some(requests)) = (parts.len(), requests) else {
            bail!(
                "{text:?} is not a run: write WORKLOAD/SYSTEM/REQUESTS, as in arena/skywalker/20000"
            );
        };
        Ok(Cell::new(parts[0], parts[1], requests))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.workload, self.system, self.requests)
    }
}

/// One run in this process, measured from `warmup` on and reported as a line of JSON.
///
/// # Errors
/// When there is no such workload or system.
fn one(cell: &Cell, warmup: Duration) -> anyhow::Result<()> {
    let world = |measure| world::scenario(&cell.workload, &cell.system, measure);
    // The short run finds the rate, and loads code and tables into memory.
    let rate =
        simulate(world(world::SHORT)?)?.total_requests as f64 / world::SHORT.window.as_secs_f64();
    let window = Duration::from_secs_f64(cell.requests as f64 / rate);
    let mut running = Running::new(world(Measure { warmup, window })?)?;
    running.until(Time::ZERO + warmup);
    let ((before, _), events, start) = (memory(), running.events(), cpu_time());
    running.until(Time::MAX);
    let seconds = (cpu_time() - start).as_secs_f64();
    // Dropping a world costs as much after a short window as after a long one.
    let report = running.end();
    ensure!(report.violations.is_empty(), "broken invariants: {:?}", report.violations);
    let records = report.requests.len() * size_of::<Record>();
    let samples = report.samples.len() * size_of::<Sample>();
    tell(&Run {
        workload: cell.workload.clone(),
        requests: report.requests.len() as u64,
        prompt_tokens: report.requests.iter().map(|r| u64::from(r.prompt_tokens)).sum(),
        events: report.events - events,
        seconds,
        simulated: (report.ended - warmup).as_secs_f64(),
        memory: memory().1.saturating_sub(before),
        report: (records + samples) as u64,
    })
}

/// One run in a process of its own.
fn in_process(cell: &Cell, warmup: Duration) -> anyhow::Result<Run> {
    let warmup = format!("{}s", warmup.as_secs_f64());
    apart(&["sim", "--cell", &cell.to_string(), "--warmup", &warmup])
}

/// Vidur and this simulator on one trace.
fn beside(requests: u64, results: &mut Results) -> anyhow::Result<()> {
    let trace = peer::trace(requests);
    let scenario = peer::scenario(&trace)?;
    let start = cpu_time();
    let report = simulate(scenario)?;
    let ours = report.total_requests as f64 / (cpu_time() - start).as_secs_f64();
    ensure!(report.total_requests == requests, "{} were simulated", report.total_requests);
    results.add("one trace, here", "requests/s", ours);
    match peer::vidur(&trace) {
        Ok(theirs) => {
            results.add("one trace, Vidur", "requests/s", theirs);
            results.add("times as fast as Vidur", "x", ours / theirs).at_least(TARGET_RATIO);
        }
        Err(why) => results.missing("one trace, Vidur", "requests/s", format!("{why:#}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Names of runs read back as written; an invalid one is reported with the expected form.
    #[test]
    fn cells() {
        let cell: Cell = "arena/skywalker/20000".parse().unwrap();
        assert_eq!(cell.to_string(), "arena/skywalker/20000");
        for bad in ["", "arena", "arena/skywalker", "arena/skywalker/x", "a/b/0", "a/b/1/2"] {
            let error = bad.parse::<Cell>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && error.contains("WORKLOAD/"), "{error}");
        }
    }

    // A run with an unknown world is reported, with the known ones.
    #[test]
    fn unknown_worlds() {
        let wrong = [("opera", "skywalker", "\"arena\""), ("arena", "highwalker", "\"skywalker\"")];
        for (workload, system, known) in wrong {
            let result = world::scenario(workload, system, world::SHORT);
            let error = result.err().expect("no such world").to_string();
            assert!(error.contains("opera") || error.contains("highwalker"), "{error}");
            assert!(error.contains(known), "{error}");
        }
    }
}
