//! A cold fleet under a burst: measurements from the burst must not mislead later decisions.

use std::sync::Arc;
use std::time::Duration;

use meridian_sim::{Load, News, Scenario, Source, System, Topology, Wan, run};
use meridian_workload::{Chat, Mixed, Sessions, Tree};

use crate::world::three_regions;

const REPLICAS: usize = 4;

fn load(region: usize) -> Load {
    let tree = |branch| Tree { branch, max_tokens: 64, ..Tree::default() };
    let generator = Mixed::new(vec![
        Box::new(Sessions { max_tokens: 64, ..Sessions::default() }),
        Box::new(tree(2)),
        Box::new(tree(4)),
        Box::new(Chat { max_tokens: 64, ..Chat::default() }),
    ]);
    let source = Source::Closed {
        clients: 50,
        generator: Arc::new(generator),
        // All at once.
        ramp: Duration::ZERO,
        programs: None,
        day: None,
    };
    Load { region, source, may_run_in: None }
}

/// The 99th percentile of TTFT, in seconds of the simulation.
fn p99(seed: u64, topology: Topology) -> f64 {
    let cold = three_regions(seed, topology, "meridian", REPLICAS);
    let report = run(Scenario {
        wan: Wan {
            rtt_ms: vec![vec![0.0, 92.0, 167.0], vec![92.0, 0.0, 230.0], vec![167.0, 230.0, 0.0]],
            jitter: 0.0,
            loss: 0.0,
        },
        system: System { news: News::Lazy, ..cold.system },
        loads: (0..3).map(load).collect(),
        paranoid: false,
        ..cold
    })
    .expect("a possible scenario");
    assert_eq!(report.violations, Vec::<String>::new());
    let mut ttft: Vec<f64> = report.requests.iter().map(|r| r.ttft.as_secs_f64()).collect();
    ttft.sort_by(f64::total_cmp);
    ttft[ttft.len() * 99 / 100]
}

// 150 clients send at once before any replica has been measured. Speeds measured in that burst are
// rough; a replica that looks ten times too fast must not get everything from then on. Sharing the
// regions is then no worse than keeping them separate.
#[test]
fn a_burst_leaves_no_favourite() {
    for seed in 1..=3 {
        let (shared, alone) = (p99(seed, Topology::TwoLayer), p99(seed, Topology::RegionLocal));
        assert!(shared < 3.0 && shared < 1.2 * alone, "seed {seed}: {shared:.2} and {alone:.2} s");
    }
}
