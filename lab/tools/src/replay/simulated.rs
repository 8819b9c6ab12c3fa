//! The same requests in the simulator, several times.
//!
//! A millisecond more or less before an arrival changes which step of an engine takes it, then which
//! replica the next request gets, and soon everything. So one run is one draw, as the live one is: of
//! 1,100 requests, P99 is that of eleven, and differs by a third from run to run. The mean of several
//! runs is what a live one can be compared with, and their range shows by how much it may differ.

use std::time::Duration;

use anyhow::{Context, ensure};
use meridian_base::{Rng, Time};
use meridian_engine::Config;
use meridian_sim::{
    Hardware, Load, Measure, News, Region, Scenario, Source, System, Topology, Twin, Wan, run_twin,
};
use meridian_workload::Program;

use crate::load::Quantiles;
use crate::rule::Rule;

/// Most runs of a replay, and requests of all of them, about: longer traces differ less.
const RUNS: usize = 8;
const REQUESTS: usize = 20_000;
/// Arrivals of a run are later by up to this.
const LATER: Duration = Duration::from_millis(1);
/// Programs that wait for answers may end later than they were recorded.
pub const WAITS: Duration = Duration::from_secs(600);

/// The requests of a simulation.
pub(super) struct Sent {
    /// Programs, by time.
    pub(super) programs: Vec<(Time, Program)>,
    /// When the last request was sent.
    pub(super) last: Duration,
}

/// TTFT of `sent` on these engines behind a gateway with this policy, in one region, of each run.
pub(crate) fn run(rule: &Rule, engines: &[Config], sent: &Sent) -> anyhow::Result<Vec<Quantiles>> {
    let requests: usize = sent.programs.iter().map(|(_, program)| program.nodes.len()).sum();
    let runs = REQUESTS.div_ceil(requests.max(1)).min(RUNS);
    (1..=runs as u64).map(|seed| one(rule, engines, sent, seed)).collect()
}

fn one(rule: &Rule, engines: &[Config], sent: &Sent, seed: u64) -> anyhow::Result<Quantiles> {
    let mut rng = Rng::new(seed);
    let mut programs = sent.programs.clone();
    for (at, _) in &mut programs {
        *at = *at + LATER.mul_f64(rng.unit());
    }
    programs.sort_by_key(|(at, _)| *at);
    let waits = programs.iter().any(|(_, program)| program.nodes.len() > 1);
    let window = sent.last + if waits { WAITS } else { Duration::from_secs(1) };
    let source = Source::Open(Box::new(programs.into_iter()));
    let scenario = Scenario {
        seed,
        regions: vec![Region { name: "local".to_owned(), continent: "local".to_owned() }],
        wan: Wan { rtt_ms: vec![vec![0.0]], jitter: 0.0, loss: 0.0 },
        replicas: engines.iter().map(|engine| Hardware::new(0, *engine)).collect(),
        system: System { news: News::Eager, ..rule.system(Topology::RegionLocal) },
        loads: vec![Load { region: 0, source, may_run_in: None }],
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::ZERO, window },
        paranoid: false,
    };
    let twin = Twin { tick: Duration::from_millis(1), gateway_seed: seed, headers: true };
    let report = run_twin(scenario, twin)?;
    let broken = &report.violations;
    ensure!(broken.is_empty(), "the simulation broke its own rules: {}", broken.join("; "));
    let done = report.requests.iter().filter(|r| r.fate == meridian_sim::Fate::Done);
    super::quantiles(done.map(|r| r.ttft).collect())
        .context("nothing was answered in the simulator")
}
