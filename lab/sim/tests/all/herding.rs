//! All regions see the same idle region: together they must not exceed its capacity.

use std::sync::Arc;
use std::time::Duration;

use meridian_engine::{Config, Profile};
use meridian_sim::{
    Hardware, Load, Measure, Record, Region, Scenario, Source, System, Topology, Wan, run,
};
use meridian_workload::find_generator;

const REGIONS: usize = 4;
const IDLE: u16 = 3;

/// Three overloaded regions and one without clients; returns the requests sent to that one.
fn sent_to_the_idle(seed: u64, policy: &str) -> Vec<Record> {
    let policy = meridian_rivals::find(policy).expect("a policy");
    let profile = Profile::named("llama-3.1-8b", "l4", 1).expect("a known GPU");
    let generator = find_generator("wildchat").expect("a generator").published();
    let generator: Arc<dyn meridian_workload::Generator> = generator.into();
    let load = |region| {
        let generator = generator.clone();
        let ramp = Duration::from_secs(2);
        let source = Source::Closed { clients: 60, generator, ramp, programs: None, day: None };
        Load { region, source, may_run_in: None }
    };
    let named = |at| Region { name: format!("r{at}"), continent: "one".into() };
    let rtt = |a, b| if a == b { 0.0 } else { 80.0 };
    let report = run(Scenario {
        seed,
        regions: (0..REGIONS).map(named).collect(),
        wan: Wan {
            rtt_ms: (0..REGIONS).map(|a| (0..REGIONS).map(|b| rtt(a, b)).collect()).collect(),
            jitter: 0.0,
            loss: 0.0,
        },
        replicas: (0..REGIONS).map(|region| Hardware::new(region, Config::new(profile))).collect(),
        system: System::usual(policy, Topology::TwoLayer),
        loads: (0..usize::from(IDLE)).map(load).collect(),
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::ZERO, window: Duration::from_secs(60) },
        paranoid: false,
    })
    .expect("a possible scenario");
    assert_eq!(report.violations, Vec::<String>::new());
    report.requests.into_iter().filter(|r| r.served == IDLE).collect()
}

// The idle region is used, and queues none of the requests it is sent: those that do not fit go
// back. With a policy that queues such requests it queues some, so the load is high enough for the
// test.
#[test]
fn no_region_is_pushed_above_its_admission() {
    let held = |requests: &[Record]| requests.iter().filter(|r| !r.held_away.is_zero()).count();
    let mut queued = 0;
    for seed in 1..=3 {
        let (back, kept) =
            (sent_to_the_idle(seed, "meridian"), sent_to_the_idle(seed, "skywalker"));
        assert!(!back.is_empty() && !kept.is_empty());
        assert_eq!(held(&back), 0, "seed {seed}");
        queued += held(&kept);
    }
    assert!(queued > 0, "skywalker queues some");
}
