//! A session with 30 sub-agents beside one without: the small one must not wait for the large one's whole queue.

use std::sync::Arc;
use std::time::Duration;

use meridian_engine::{Config, Profile};
use meridian_sim::{
    Hardware, Load, Measure, Record, Region, Scenario, Source, System, Topology, Wan, run,
};
use meridian_workload::find_generator;

/// One client, which sends one task after the other.
fn load(sub_agents: f64, tool_s: f64) -> Load {
    let knobs = [("delegating", 1.0), ("sub_agents", sub_agents), ("tool_s", tool_s)];
    let knobs: Vec<(String, f64)> = knobs.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let spec = find_generator("agents").expect("a generator");
    let generator: Arc<dyn meridian_workload::Generator> =
        spec.build(&knobs).expect("knobs in their ranges").into();
    let source =
        Source::Closed { clients: 1, generator, ramp: Duration::ZERO, programs: None, day: None };
    Load { region: 0, source, may_run_in: None }
}

fn answered(seed: u64, loads: Vec<Load>) -> Vec<Record> {
    let policy = meridian_rivals::find("meridian").expect("a policy");
    let profile = Profile::named("llama-3.1-8b", "a100", 1).expect("a known GPU");
    let report = run(Scenario {
        seed,
        regions: vec![Region { name: "us".into(), continent: "one".into() }],
        wan: Wan { rtt_ms: vec![vec![1.0]], jitter: 0.0, loss: 0.0 },
        replicas: vec![Hardware::new(0, Config::new(profile))],
        system: System::usual(policy, Topology::RegionLocal),
        loads,
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::from_secs(60), window: Duration::from_secs(600) },
        paranoid: false,
    })
    .expect("a possible scenario");
    assert_eq!(report.violations, Vec::<String>::new());
    report.requests
}

/// The 90th percentile of TTFT of a load's requests, in ms.
fn p90(requests: &[Record], load: u16) -> f64 {
    let own = requests.iter().filter(|r| r.load == load);
    let mut ttft: Vec<f64> = own.map(|r| r.ttft.as_secs_f64() * 1e3).collect();
    ttft.sort_by(f64::total_cmp);
    ttft[ttft.len() * 9 / 10]
}

// One replica, nearly all of whose time the large session takes. The small one's requests wait for the prompts that are
// before them in the engine, and not for all those that the sub-agents send at the same time.
#[test]
fn a_small_session_beside_a_large_one() {
    for seed in 1..=3 {
        let alone = p90(&answered(seed, vec![load(0.0, 2.0)]), 0);
        let both = answered(seed, vec![load(30.0, 0.5), load(0.0, 2.0)]);
        let (small, large) = (p90(&both, 1), p90(&both, 0));
        assert!(
            small < 1.6 * alone && small < large / 2.0,
            "{small:.0} ms, alone {alone:.0}, {large:.0}"
        );
    }
}
