//! The same run in the simulator.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use meridian_engine::{Config, Profile};
use meridian_sim::{
    Hardware, Load, Measure, News, Record, Region, Scenario, Source, System, Topology, Transfer,
    Twin, Wan, run_twin,
};
use meridian_workload::Sessions;

use super::shape::{CARD_GBPS, Shape};
use super::{Figures, Options};
use meridian_tools::load::Workload;

pub(super) fn run(options: &Options, shape: &Shape, seed: u64) -> anyhow::Result<Figures> {
    let twin = Twin { tick: Duration::from_millis(1), gateway_seed: seed, headers: true };
    let report = run_twin(scenario(options, shape, seed)?, twin)?;
    let mut ttft: Vec<f64> = report.requests.iter().map(|r| r.ttft.as_secs_f64() * 1e3).collect();
    ttft.sort_by(f64::total_cmp);
    ensure!(!ttft.is_empty(), "nothing was simulated within {:?}", options.each);
    let at = |q: f64| ttft[((ttft.len() - 1) as f64 * q).round() as usize];
    let mean = ttft.iter().sum::<f64>() / ttft.len() as f64;
    let rps = report.done_in_window as f64 / report.window.as_secs_f64();
    let split = |record: &&Record| record.crossing.is_some();
    let split = 100.0 * report.requests.iter().filter(split).count() as f64 / ttft.len() as f64;
    Ok([mean, at(0.5), at(0.9), at(0.99), rps, split])
}

fn scenario(options: &Options, shape: &Shape, seed: u64) -> anyhow::Result<Scenario> {
    let policy = meridian_rivals::find(&options.policy);
    let policy = policy.with_context(|| format!("no policy {:?}", options.policy))?;
    Ok(Scenario {
        seed,
        regions: vec![Region { name: "local".to_owned(), continent: "local".to_owned() }],
        wan: Wan { rtt_ms: vec![vec![0.0]], jitter: 0.0, loss: 0.0 },
        replicas: replicas(shape)?,
        system: System { news: News::Eager, ..System::usual(policy, Topology::RegionLocal) },
        loads: vec![load(options, shape)],
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::ZERO, window: options.each },
        paranoid: false,
    })
}

fn replicas(shape: &Shape) -> anyhow::Result<Vec<Hardware>> {
    let profile = Profile::named("llama-3.1-8b", "l4", 1).map_err(|e| anyhow!("{e}"))?;
    let transfer = Transfer { gbps: CARD_GBPS, ..Transfer::default() };
    let whole = Hardware::new(0, Config::new(profile));
    Ok(shape.roles.iter().map(|role| Hardware { role: *role, transfer, ..whole }).collect())
}

fn load(options: &Options, shape: &Shape) -> Load {
    let Workload { turns, system_bytes, question_bytes, max_tokens, .. } = shape.workload;
    let sessions = Sessions { turns, system_bytes, question_bytes, max_tokens };
    let source = Source::Closed {
        clients: options.clients,
        generator: Arc::new(sessions),
        ramp: Duration::ZERO,
        programs: None,
        day: None,
    };
    Load { region: 0, source, may_run_in: None }
}
