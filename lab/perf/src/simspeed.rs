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

pub use world::SYSTEMS;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use meridian_base::Time;
use meridian_sim::{Measure, Record, Running, Sample, run};
use meridian_tools::json_file;
use serde::{Deserialize, Serialize};

/// Options of the measurement, and the path of its results.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests of the runs that compare systems.
    pub requests: u64,
    /// Requests of the runs that show growth.
    pub growth: Vec<u64>,
    /// The system whose growth is shown.
    pub system: String,
    /// Simulated time before the runs that show growth are measured.
    pub warmup: Duration,
    /// Requests of the trace that Vidur also runs; 0 skips it.
    pub peer: u64,
    /// Output file.
    pub json: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            requests: 20_000,
            growth: vec![10_000, 100_000, 1_000_000],
            system: "skywalker".to_owned(),
            warmup: Duration::from_secs(6 * 3600),
            peer: 2_000,
            json: PathBuf::from("target/bench/sim.json"),
        }
    }
}

/// One run, as its process reports it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Run {
    /// The workload.
    pub workload: String,
    /// The system.
    pub system: String,
    /// Requests simulated in the window.
    pub requests: u64,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Events handled.
    pub events: u64,
    /// CPU seconds, since the machine may have other work.
    pub seconds: f64,
    /// Simulated seconds.
    pub simulated: f64,
    /// Growth of peak resident memory during the window, in bytes.
    pub memory: u64,
    /// Of that, records and samples of the report.
    pub report: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    unit: &'static str,
    value: Option<f64>,
    target: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    commit: String,
    rows: Vec<Row>,
    runs: Vec<Run>,
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
pub fn measure(options: &Options) -> anyhow::Result<()> {
    let (mut rows, mut runs) = (Vec::new(), Vec::new());
    for system in SYSTEMS {
        let all = (world::WORKLOADS.iter())
            .map(|(workload, _)| apart(&Cell::new(workload, system, options.requests), COLD))
            .collect::<anyhow::Result<Vec<Run>>>()?;
        for run in &all {
            let name = format!("{}, {system}", run.workload);
            rows.push(row(name, "requests/s", run.requests as f64 / run.seconds, Some(TARGET)));
        }
        rows.push(row(format!("Figure 8, {system}"), "requests/s", figure(&all), Some(TARGET)));
        runs.extend(all);
    }
    for workload in GROWN {
        for run in grow(workload, options)? {
            let name = |what| format!("{workload}, {} requests, {what}", run.requests);
            let each = |total: f64| total / run.requests as f64;
            let prompt = each(run.prompt_tokens as f64);
            rows.push(row(name("prompts"), "tokens/request", prompt, None));
            rows.push(row(name("time"), "us/request", each(run.seconds * 1e6), None));
            rows.push(row(name("memory, all"), "B/request", each(run.memory as f64), None));
            rows.push(row(name("memory, report"), "B/request", each(run.report as f64), None));
            runs.push(run);
        }
    }
    if options.peer > 0 {
        rows.extend(beside(options.peer)?);
    }
    let report = Report { bench: "sim", commit: meridian_tools::commit(), rows, runs };
    print(&report);
    json_file::write(&report, &options.json)
}

/// Requests a second over several workloads that are simulated for the same time, like the
/// figure's: a workload with ten times the requests has ten times the weight.
fn figure(all: &[Run]) -> f64 {
    let sum = |each: fn(&Run) -> f64| all.iter().map(|run| each(run) / run.simulated).sum::<f64>();
    sum(|run| run.requests as f64) / sum(|run| run.seconds)
}

/// Increasingly long runs of one world.
fn grow(workload: &str, options: &Options) -> anyhow::Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    // The rate of a short run, whose clients have just started, is too high: each run corrects the
    // next one's.
    let mut stretch = 1.0;
    for requests in &options.growth {
        let asked = *requests as f64 * stretch;
        let cell = Cell::new(workload, &options.system, asked as u64);
        let run = apart(&cell, options.warmup)?;
        stretch = asked / run.requests as f64;
        runs.push(run);
    }
    Ok(runs)
}

/// The workload, system and length of a run, written `WORKLOAD/SYSTEM/REQUESTS`.
#[derive(Clone, Debug)]
pub struct Cell {
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
pub fn one(cell: &Cell, warmup: Duration) -> anyhow::Result<()> {
    let world = |measure| world::scenario(&cell.workload, &cell.system, measure);
    // The short run finds the rate, and loads code and tables into memory.
    let rate = run(world(world::SHORT)?)?.total_requests as f64 / world::SHORT.window.as_secs_f64();
    let window = Duration::from_secs_f64(cell.requests as f64 / rate);
    let mut running = Running::new(world(Measure { warmup, window })?)?;
    running.until(Time::ZERO + warmup);
    let (before, events) = (resident("VmRSS")?, running.events());
    let start = processor()?;
    running.until(Time::MAX);
    let seconds = processor()? - start;
    // Dropping a world costs as much after a short window as after a long one.
    let report = running.end();
    ensure!(report.violations.is_empty(), "broken invariants: {:?}", report.violations);
    let records = report.requests.len() * size_of::<Record>();
    let samples = report.samples.len() * size_of::<Sample>();
    let run = Run {
        workload: cell.workload.clone(),
        system: cell.system.clone(),
        requests: report.requests.len() as u64,
        prompt_tokens: report.requests.iter().map(|r| u64::from(r.prompt_tokens)).sum(),
        events: report.events - events,
        seconds,
        simulated: (report.ended - warmup).as_secs_f64(),
        memory: resident("VmHWM")?.saturating_sub(before),
        report: (records + samples) as u64,
    };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&run)?)?;
    Ok(())
}

/// One run in a separate process.
fn apart(cell: &Cell, warmup: Duration) -> anyhow::Result<Run> {
    let program = std::env::current_exe().context("this program's own path is unknown")?;
    let warmup = format!("{}s", warmup.as_secs_f64());
    let args = ["bench", "sim", "--cell", &cell.to_string(), "--warmup", &warmup];
    let out = Command::new(program).args(args).output()?;
    let error = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "the run {cell} failed: {error}");
    serde_json::from_slice(&out.stdout).with_context(|| format!("the run {cell} printed no result"))
}

/// Vidur and this simulator on one trace.
fn beside(requests: u64) -> anyhow::Result<Vec<Row>> {
    let trace = peer::trace(requests);
    let scenario = peer::scenario(&trace)?;
    let start = processor()?;
    let report = run(scenario)?;
    let ours = report.total_requests as f64 / (processor()? - start);
    ensure!(report.total_requests == requests, "{} were simulated", report.total_requests);
    let mut rows = vec![row("one trace, here".to_owned(), "requests/s", ours, None)];
    match peer::vidur(&trace) {
        Ok(theirs) => {
            rows.push(row("one trace, Vidur".to_owned(), "requests/s", theirs, None));
            let name = "times as fast as Vidur".to_owned();
            rows.push(row(name, "x", ours / theirs, Some(TARGET_RATIO)));
        }
        Err(why) => rows.push(Row {
            name: "one trace, Vidur".to_owned(),
            unit: "requests/s",
            value: None,
            target: None,
            why: Some(format!("{why:#}")),
        }),
    }
    Ok(rows)
}

fn row(name: String, unit: &'static str, value: f64, target: Option<f64>) -> Row {
    Row { name, unit, value: Some(value), target, why: None }
}

/// CPU seconds of this thread.
pub(crate) fn processor() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos: Option<f64> = text.split(' ').next().and_then(|n| n.parse().ok());
    Ok(nanos.context("/proc/thread-self/schedstat does not start with a number")? / 1e9)
}

/// A line of this process's status, in bytes.
pub(crate) fn resident(line: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let found = status.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':'));
    let kilobytes = found.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Ok(kilobytes.with_context(|| format!("/proc/self/status has no {line}"))? * 1024)
}

fn print(report: &Report) {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["", "measured", "target", "unit", "met"]);
    for row in &report.rows {
        let met = row.value.zip(row.target).map(|(value, target)| value >= target);
        table.add_row([
            row.name.clone(),
            row.value.map_or_else(|| "-".to_owned(), |v| format!("{v:.0}")),
            row.target.map_or_else(String::new, |t| format!(">= {t}")),
            row.unit.to_owned(),
            met.map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    for (name, why) in report.rows.iter().filter_map(|r| Some((&r.name, r.why.as_ref()?))) {
        println!("{name}: {why}");
    }
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
