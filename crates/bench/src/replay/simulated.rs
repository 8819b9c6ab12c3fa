//! The same requests in the simulator.

use std::time::Duration;

use anyhow::{Context, ensure};
use meridian_base::Time;
use meridian_engine::Config;
use meridian_sim::{
    Hardware, Load, Measure, News, Region, Scenario, Source, System, Topology, Twin, Wan, run_twin,
};
use meridian_workload::Program;

use crate::load::Quantiles;
use crate::rule::Rule;

/// TTFT of `programs` on these engines behind a gateway with this policy, in one region.
pub(super) fn run(
    rule: &Rule,
    engines: Vec<Config>,
    programs: Vec<(Time, Program)>,
) -> anyhow::Result<Quantiles> {
    let window = super::last(&programs) + Duration::from_secs(1);
    let source = Source::Open(Box::new(programs.into_iter()));
    let scenario = Scenario {
        seed: 1,
        regions: vec![Region { name: "local".to_owned(), continent: "local".to_owned() }],
        wan: Wan { rtt_ms: vec![vec![0.0]], jitter: 0.0, loss: 0.0 },
        replicas: engines.into_iter().map(|engine| Hardware::new(0, engine)).collect(),
        system: System { news: News::Eager, ..rule.system(Topology::RegionLocal) },
        loads: vec![Load { region: 0, source, may_run_in: None }],
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::ZERO, window },
        paranoid: false,
    };
    let twin = Twin { tick: Duration::from_millis(1), gateway_seed: 1, headers: true };
    let report = run_twin(scenario, twin)?;
    let broken = &report.violations;
    ensure!(broken.is_empty(), "the simulation broke its own rules: {}", broken.join("; "));
    let done = report.requests.iter().filter(|r| r.fate == meridian_sim::Fate::Done);
    super::quantiles(done.map(|r| r.ttft).collect())
        .context("nothing was answered in the simulator")
}
