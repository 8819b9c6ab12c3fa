//! Compares live with simulated runs, on the wall clock.
//!
//! The live side runs processes on this machine: three model engines, the gateway, and the load
//! generator in front of it. The simulated side is the same fleet in `meridian_sim::run_twin`, with
//! the same programs. A test under paused time shows that both decide identically (`tests/parity`);
//! this measures the remaining differences in real time: scheduling, sockets and the clock's
//! granularity.
//!
//! The chats of the live side have roles between their messages, some tokens more than the
//! simulated ones; the gateway's seed differs from run to run. The load is light for the machine: a
//! full one would measure how processes wait for the CPU.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use meridian_engine::{Config, Profile};
use meridian_lab::{EngineSpec, Fleet, GatewaySpec, Process};
use meridian_routing::policy;
use meridian_sim::{
    Hardware, Load, Measure, News, Region, Scenario, Source, System, Topology, Twin, Wan, run_twin,
};
use meridian_workload::Sessions;
use serde::Serialize;

use crate::load::{self, Arrivals, Quantiles, Workload};

/// Options of the comparison, and the path of its results.
#[derive(Clone, Debug)]
pub struct Options {
    /// The gateway's policy.
    pub policy: String,
    /// Clients, each with one session at a time.
    pub clients: u32,
    /// Length of a run.
    pub each: Duration,
    /// Number of runs, whose median counts.
    pub runs: u64,
    /// Output file.
    pub json: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            policy: "meridian".to_owned(),
            clients: 6,
            each: Duration::from_secs(30),
            runs: 5,
            json: PathBuf::from("target/bench/parity.json"),
        }
    }
}

/// Engines behind the gateway.
const REPLICAS: usize = 3;
/// How far from 1 a ratio may be.
const WITHIN: f64 = 0.15;

/// One figure of both sides: medians of the runs.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    unit: &'static str,
    live: f64,
    simulated: f64,
    /// Live over simulated: the median of the runs' ratios.
    value: f64,
    within: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    commit: String,
    policy: String,
    clients: u32,
    runs: u64,
    rows: Vec<Row>,
}

/// TTFT in ms at the client, by quantile, and answers a second.
type Figures = [f64; 5];
const NAMES: [(&str, &str); 5] = [
    ("TTFT, mean", "ms"),
    ("TTFT, p50", "ms"),
    ("TTFT, p90", "ms"),
    ("TTFT, p99", "ms"),
    ("throughput", "requests/s"),
];

/// Measures, prints the table, writes the file.
///
/// # Errors
/// When a process does not start, a request fails, or the file cannot be written.
pub fn measure(options: &Options) -> anyhow::Result<()> {
    let mut both = Vec::new();
    for seed in 1..=options.runs.max(1) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let live = runtime.block_on(live(options, seed))?;
        both.push((live, simulated(options, seed)?));
    }
    let rows = NAMES.iter().enumerate().map(|(at, (name, unit))| {
        let value = median(both.iter().map(|(live, simulated)| live[at] / simulated[at]));
        Row {
            name,
            unit,
            live: median(both.iter().map(|b| b.0[at])),
            simulated: median(both.iter().map(|b| b.1[at])),
            value,
            within: (value - 1.0).abs() <= WITHIN,
        }
    });
    let report = Report {
        bench: "parity",
        commit: crate::commit(),
        policy: options.policy.clone(),
        clients: options.clients,
        runs: options.runs,
        rows: rows.collect(),
    };
    print(&report);
    write(&report, &options.json)
}

fn workload() -> Workload {
    Workload { turns: 4, ..Workload::default() }
}

/// One run of real processes.
async fn live(options: &Options, seed: u64) -> anyhow::Result<Figures> {
    let fleet = Fleet::of_this_program()?;
    let mut engines: Vec<Process> = Vec::new();
    for at in 0..REPLICAS {
        engines.push(fleet.engine(&format!("engine-{at}"), &EngineSpec::default()).await?);
    }
    let replicas = engines.iter().map(|engine| engine.said(0).to_owned()).collect();
    let spec = GatewaySpec { policy: options.policy.clone(), replicas, ..GatewaySpec::default() };
    let gateway = fleet.gateway("gateway", &spec).await?;
    // Waits until every replica has been found and probed.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let load = load::Options {
        url: gateway.url.clone(),
        model: Some("llama-3.1-8b".to_owned()),
        workload: workload(),
        arrivals: Arrivals::Closed { clients: options.clients },
        duration: Some(options.each),
        seed,
        ignore_eos: true,
        ..load::Options::default()
    };
    let report = load::run(load, None, std::future::pending()).await?;
    ensure!(report.all_well(), "{} of the live requests failed", report.counts.errors);
    let row = report.rows.first().context("the load generator has measured nothing")?;
    let Quantiles { mean, p50, p90, p99, .. } = row.ttft_ms.context("no first token came")?;
    Ok([mean, p50, p90, p99, row.throughput_rps.unwrap_or(f64::NAN)])
}

/// The same in the simulator.
fn simulated(options: &Options, seed: u64) -> anyhow::Result<Figures> {
    let twin = Twin { tick: Duration::from_millis(1), gateway_seed: seed, headers: true };
    let report = run_twin(scenario(options, seed)?, twin)?;
    let mut ttft: Vec<f64> = report.requests.iter().map(|r| r.ttft.as_secs_f64() * 1e3).collect();
    ttft.sort_by(f64::total_cmp);
    ensure!(!ttft.is_empty(), "nothing was simulated within {:?}", options.each);
    let at = |q: f64| ttft[((ttft.len() - 1) as f64 * q).round() as usize];
    let mean = ttft.iter().sum::<f64>() / ttft.len() as f64;
    let rps = report.done_in_window as f64 / report.window.as_secs_f64();
    Ok([mean, at(0.5), at(0.9), at(0.99), rps])
}

fn scenario(options: &Options, seed: u64) -> anyhow::Result<Scenario> {
    let policy = policy::find(&options.policy);
    let policy = policy.with_context(|| format!("no policy {:?}", options.policy))?;
    let profile = Profile::named("llama-3.1-8b", "l4", 1).map_err(|e| anyhow!("{e}"))?;
    let Workload { turns, system_bytes, question_bytes, max_tokens, .. } = workload();
    let sessions = Sessions { turns, system_bytes, question_bytes, max_tokens };
    let hardware = Hardware::new(0, Config::new(profile));
    Ok(Scenario {
        seed,
        regions: vec![Region { name: "local".to_owned(), continent: "local".to_owned() }],
        wan: Wan { rtt_ms: vec![vec![0.0]], jitter: 0.0, loss: 0.0 },
        replicas: vec![hardware; REPLICAS],
        system: System { news: News::Eager, ..System::usual(policy, Topology::RegionLocal) },
        loads: vec![Load {
            region: 0,
            source: Source::Closed {
                clients: options.clients,
                generator: Arc::new(sessions),
                ramp: Duration::ZERO,
                programs: None,
                day: None,
            },
            may_run_in: None,
        }],
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::ZERO, window: options.each },
        paranoid: false,
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(report: &Report) {
    let mut table = Table::new();
    let header = ["", "live", "simulated", "unit", "live / simulated", "within 15 %"];
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(header);
    for row in &report.rows {
        table.add_row([
            row.name.to_owned(),
            format!("{:.1}", row.live),
            format!("{:.1}", row.simulated),
            row.unit.to_owned(),
            format!("{:.3}", row.value),
            if row.within { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}

fn write(report: &Report, path: &Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let json = serde_json::to_string_pretty(report)?;
    std::fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))
}
