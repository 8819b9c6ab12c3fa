//! Measures the planning of large fleets: HeroServe's two with 1,200 servers and 9,600 GPUs, with
//! the paper's model and objectives.
//!
//! It also measures the online scheduler's choice of a way, for the groups of one unit of either
//! fleet, eight ranks over two servers each, in random order. This includes the clock's own cost.
//!
//! One thread. The target applies to CPU time, which other programs do not affect; the peak of
//! memory is the process's own.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, anyhow};
use meridian_base::{Duration, Rng, Time};
use meridian_plan::online::{Balance, Settings};
use meridian_plan::{
    GpuId, GroupPolicy, Lengths, PolicyTable, Slo, Subject, TOPOLOGIES, Task, TopologySpec,
    collective, plan,
};
use serde_json::json;

use crate::harness::{Quantiles, Results, cpu_time, memory, sample};

/// The path of the results.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Output file
    #[arg(long, default_value = "target/bench/plan.json")]
    json: PathBuf,
}

/// Limits on CPU seconds and bytes for planning.
const SECONDS: f64 = 10.0;
const GIBIBYTES: f64 = 2.0;
/// Limit on an online choice, in microseconds.
const MICROSECOND: f64 = 1.0;
/// Number of choices timed.
const CHOICES: usize = 100_000;

/// Measures, prints the table, writes the file.
///
/// # Errors
/// When a fleet has no plan or the file cannot be written.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut results = Results::new("plan", json!({}), &options.json)?;
    let subject = Subject::named("opt-175b")?;
    for name in ["2track", "8track"] {
        let start = cpu_time();
        let topology = fleet(name)?.build()?;
        let prompt = Lengths { mean: 300.0, cv: 1.0 };
        let output = Lengths { mean: 200.0, cv: 1.0 };
        let slo = Slo { ttft: 4.0, tpot: 0.2, attainment: 0.9 };
        let task = Task::new(&topology, &subject, (prompt, output), slo);
        let plans = plan(&task).with_context(|| format!("{name} has no plan"))?;
        let seconds = (cpu_time() - start).as_secs_f64();
        results.add(format!("{name}, 9,600 GPUs"), "s", seconds).at_most(SECONDS);
        let goodput = plans.first().map_or(0.0, |plan| plan.goodput());
        results.add(format!("{name}, goodput"), "requests/s", goodput);
    }
    let chosen = choosing("8track", 4)?;
    results.times("online choice, 8 ranks on 2 servers", &chosen, [Some(MICROSECOND), None]);
    let peak = memory().1 as f64 / f64::from(1 << 30);
    results.add("peak of memory", "GiB", peak).at_most(GIBIBYTES);
    results.finish()
}

/// One of HeroServe's fleets.
fn fleet(name: &str) -> anyhow::Result<TopologySpec> {
    let found = TOPOLOGIES.iter().find(|(known, _)| known.strip_prefix("heroserve-") == Some(name));
    let (_, yaml) = found.ok_or_else(|| anyhow!("no topology {name}"))?;
    Ok(TopologySpec::read(yaml)?)
}

/// The time of a choice among all groups of a unit, each with half of its ranks on either of two
/// servers.
fn choosing(name: &str, half: u32) -> anyhow::Result<Quantiles> {
    let mut spec = fleet(name)?;
    spec.units.iter_mut().for_each(|unit| unit.count = 1);
    let topology = spec.build()?;
    let mut table = PolicyTable::default();
    for pair in topology.servers().chunks_exact(2) {
        for first in (0..pair[0].gpus).step_by(half as usize) {
            let part = |start: u32| (start + first..start + first + half).map(GpuId);
            let members: Vec<GpuId> = part(pair[0].first).chain(part(pair[1].first)).collect();
            let choices = collective::choices(&topology, &members);
            table.groups.push(GroupPolicy { members, choices, rows: Vec::new() });
        }
    }
    let mut balance = Balance::new(&topology, &table, Settings::default());
    let (mut rng, mut now) = (Rng::new(1), Time::ZERO);
    Ok(sample(CHOICES, || {
        now = now + Duration::from_micros(20);
        let group = rng.below(table.groups.len());
        let bytes = [2e4, 1e6, 3e7][rng.below(3)];
        let start = Instant::now();
        black_box(balance.pick(now, group, bytes, 1.0));
        start.elapsed()
    }))
}
