//! The small world from which tests of faults and rules start.

use meridian_base::Duration;
use meridian_engine::{Config, Profile};
use meridian_sim::{Hardware, Measure, News, Region, Scenario, System, Topology, Wan};

/// Three regions with this many replicas each, and no load yet.
pub(crate) fn three_regions(
    seed: u64,
    topology: Topology,
    policy: &str,
    replicas: usize,
) -> Scenario {
    let region = |name: &str| Region { name: name.into(), continent: "one".into() };
    let profile = Profile::named("llama-3.1-8b", "l4", 1).expect("it fits");
    let hardware = |at| Hardware::new(at / replicas, Config::new(profile));
    let policy = meridian_rivals::find(policy).expect("a policy");
    Scenario {
        seed,
        regions: ["a", "b", "c"].map(region).into(),
        wan: Wan {
            rtt_ms: vec![vec![1.0, 20.0, 90.0], vec![20.0, 1.0, 70.0], vec![90.0, 70.0, 1.0]],
            jitter: 0.0,
            loss: 0.0,
        },
        replicas: (0..3 * replicas).map(hardware).collect(),
        system: System { news: News::Eager, ..System::usual(policy, topology) },
        loads: Vec::new(),
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::ZERO, window: Duration::from_secs(60) },
        paranoid: true,
    }
}
