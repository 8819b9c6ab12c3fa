//! How fast the simulator is, and what a simulated request costs in time and memory.
//!
//! The work of SkyWalker's Figure 8: its four workloads from clients in three regions onto twelve L4,
//! under three systems. One run at a time on one core, each in a process of its own, so that the peak
//! of its memory is its own. How many requests a run makes follows from the length of its window,
//! which a short run before it finds.
//!
//! Beside it stands Vidur, a simulator of the field in Python, on one trace for both (`peer.rs`).

mod peer;
mod world;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use meridian_sim::{Record, run};
use serde::{Deserialize, Serialize};

/// What is measured, and where it goes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests of the runs that compare systems.
    pub requests: u64,
    /// Requests of the runs that show growth.
    pub growth: Vec<u64>,
    /// The system whose growth is shown.
    pub system: String,
    /// Requests of the trace that Vidur runs too; 0 leaves it out.
    pub peer: u64,
    /// Where the results go.
    pub json: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            requests: 20_000,
            growth: vec![10_000, 100_000, 1_000_000],
            system: "skywalker".to_owned(),
            peer: 2_000,
            json: PathBuf::from("target/bench/sim.json"),
        }
    }
}

/// One run, as its process reports it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Run {
    /// What clients send.
    pub workload: String,
    /// Who decides.
    pub system: String,
    /// Requests simulated.
    pub requests: u64,
    /// Events handled.
    pub events: u64,
    /// Seconds of the processor: the machine may have other work.
    pub seconds: f64,
    /// Simulated seconds.
    pub simulated: f64,
    /// Peak of resident memory over the process's before the run, in bytes.
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

/// Requests a second on one core that the simulator shall reach.
const TARGET: f64 = 50_000.0;
/// The workloads whose growth is shown: one beyond what the fleet can serve, one that it serves.
const GROWN: [&str; 2] = ["arena", "tot"];
/// Times Vidur's speed that it shall reach.
const TARGET_RATIO: f64 = 100.0;

/// Measures, prints the table, writes the file.
///
/// # Errors
/// When a run fails or the file cannot be written. Without Vidur the table says why.
pub fn measure(options: &Options) -> anyhow::Result<()> {
    let (mut rows, mut runs) = (Vec::new(), Vec::new());
    for system in world::SYSTEMS {
        let all = (world::WORKLOADS.iter())
            .map(|(workload, _)| apart(workload, system, options.requests))
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
            rows.push(row(name("time"), "us/request", each(run.seconds * 1e6), None));
            rows.push(row(name("memory, all"), "B/request", each(run.memory as f64), None));
            rows.push(row(name("memory, report"), "B/request", each(run.report as f64), None));
            runs.push(run);
        }
    }
    if options.peer > 0 {
        rows.extend(beside(options.peer)?);
    }
    let report = Report { bench: "sim", commit: crate::commit(), rows, runs };
    print(&report);
    write(&report, &options.json)
}

/// Requests a second of several workloads that are simulated for the same time, as the figure's are:
/// who sends ten times the requests weighs ten times as much.
fn figure(all: &[Run]) -> f64 {
    let sum = |each: fn(&Run) -> f64| all.iter().map(|run| each(run) / run.simulated).sum::<f64>();
    sum(|run| run.requests as f64) / sum(|run| run.seconds)
}

/// Longer and longer runs of one world.
fn grow(workload: &str, options: &Options) -> anyhow::Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    // The rate of a short run, whose clients have only begun to talk, is too high: each run
    // corrects the next one's.
    let mut stretch = 1.0;
    for requests in &options.growth {
        let asked = *requests as f64 * stretch;
        let run = apart(workload, &options.system, asked as u64)?;
        stretch = asked / run.requests as f64;
        runs.push(run);
    }
    Ok(runs)
}

/// One run in this process, reported as a line of JSON.
///
/// # Errors
/// When there is no such workload or system.
pub fn one(workload: &str, system: &str, requests: u64) -> anyhow::Result<()> {
    // The short run finds the rate, and brings code and tables into memory.
    let report = run(world::scenario(workload, system, world::SHORT)?)?;
    let rate = report.total_requests as f64 / world::SHORT.as_secs_f64();
    drop(report);
    let window = std::time::Duration::from_secs_f64(requests as f64 / rate);
    let scenario = world::scenario(workload, system, window)?;
    let before = resident("VmRSS")?;
    let start = processor()?;
    let report = run(scenario)?;
    let seconds = processor()? - start;
    ensure!(report.violations.is_empty(), "broken invariants: {:?}", report.violations);
    let records = report.requests.len() * size_of::<Record>();
    let samples = report.samples.len() * size_of::<meridian_sim::Sample>();
    let run = Run {
        workload: workload.to_owned(),
        system: system.to_owned(),
        requests: report.total_requests,
        events: report.events,
        seconds,
        simulated: report.ended.as_secs_f64(),
        memory: resident("VmHWM")?.saturating_sub(before),
        report: (records + samples) as u64,
    };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&run)?)?;
    Ok(())
}

/// One run in a process of its own.
fn apart(workload: &str, system: &str, requests: u64) -> anyhow::Result<Run> {
    let program = std::env::current_exe().context("this program's own path is unknown")?;
    let cell = format!("{workload}/{system}/{requests}");
    let out = Command::new(program).args(["bench", "sim", "--cell", &cell]).output()?;
    let error = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "the run {cell} failed: {error}");
    serde_json::from_slice(&out.stdout).with_context(|| format!("the run {cell} said no result"))
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

/// Seconds that this thread has had the processor.
pub(crate) fn processor() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos: Option<f64> = text.split(' ').next().and_then(|n| n.parse().ok());
    Ok(nanos.context("/proc/thread-self/schedstat begins with no number")? / 1e9)
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

fn write(report: &Report, path: &Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let json = serde_json::to_string_pretty(report)?;
    std::fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))
}
