//! Compares live with simulated runs, on the wall clock.
//!
//! The live side runs processes on this machine: model engines ([`shape`]), the gateway, and the load
//! generator in front of it. The simulated side is the same fleet in `meridian_sim::run_twin`, with
//! the same programs. A test under paused time shows that both decide identically (`tests/parity`);
//! this measures the remaining differences in real time: scheduling, sockets and the clock's
//! granularity.
//!
//! The chats of the live side have roles between their messages, some tokens more than the
//! simulated ones; the gateway's seed differs from run to run. The load is light for the machine: a
//! full one would measure how processes wait for the CPU.

mod live;
mod shape;
mod simulated;

use std::path::PathBuf;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use serde::Serialize;

use meridian_tools::json_file;
use shape::Shape;

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
    /// Pools of prefill and decode engines, in place of engines that serve whole requests.
    pub pools: bool,
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
            pools: false,
            json: PathBuf::from("target/bench/parity.json"),
        }
    }
}

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
    pools: bool,
    rows: Vec<Row>,
}

/// TTFT in ms at the client, by quantile, answers a second, and split requests in percent.
type Figures = [f64; 6];
const NAMES: [(&str, &str); 6] = [
    ("TTFT, mean", "ms"),
    ("TTFT, p50", "ms"),
    ("TTFT, p90", "ms"),
    ("TTFT, p99", "ms"),
    ("throughput", "requests/s"),
    ("split", "%"),
];

/// Measures, prints the table, writes the file.
///
/// # Errors
/// When a process does not start, a request fails, or the file cannot be written.
pub fn measure(options: &Options) -> anyhow::Result<()> {
    let shape = Shape::of(options);
    let mut both = Vec::new();
    for seed in 1..=options.runs.max(1) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let live = runtime.block_on(live::run(options, &shape, seed))?;
        both.push((live, simulated::run(options, &shape, seed)?));
    }
    let named = NAMES.iter().take(if options.pools { NAMES.len() } else { NAMES.len() - 1 });
    let rows = named.enumerate().map(|(at, (name, unit))| {
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
        commit: meridian_tools::commit(),
        policy: options.policy.clone(),
        clients: options.clients,
        runs: options.runs,
        pools: options.pools,
        rows: rows.collect(),
    };
    print(&report);
    json_file::write(&report, &options.json)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    meridian_base::median(&values).expect("a run has requests")
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
