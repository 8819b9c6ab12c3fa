use std::sync::Arc;

use meridian_base::{Duration, Time};
use meridian_routing::policy::Params;
use meridian_workload::Sessions;

use super::*;
use crate::run::World as _;
use crate::scenario::{Load, Measure, Source, Topology};
use crate::{Scenario, swarm};

/// A replica that holds a few conversations and is configured to hold fifty times as many, and
/// clients whose conversations return after others have evicted them: an index that errs.
fn forgetful(policy: &str) -> Scenario {
    let policy = meridian_rivals::find(policy).expect("a policy");
    let mut scenario = swarm::scenario(1);
    scenario.regions.truncate(1);
    scenario.wan.rtt_ms = vec![vec![1.0]];
    scenario.wan.loss = 0.0;
    scenario.replicas.truncate(1);
    let hardware = &mut scenario.replicas[0];
    hardware.region = 0;
    hardware.engine = hardware.engine.with_kv_blocks(600);
    hardware.kv_tokens = Some(50 * 600 * u64::from(meridian_engine::BLOCK_TOKENS));
    scenario.faults.clear();
    scenario.autoscaler = None;
    scenario.system.topology = Topology::RegionLocal;
    scenario.system.gateways = 1;
    scenario.system.policy = policy;
    scenario.system.params = Params::defaults(policy);
    scenario.measure = Measure { warmup: Duration::ZERO, window: Duration::from_secs(120) };
    let source = Source::Closed {
        clients: 20,
        generator: Arc::new(Sessions::default()),
        ramp: Duration::from_secs(1),
        programs: None,
        day: None,
    };
    scenario.loads = vec![Load { region: 0, source, may_run_in: None }];
    scenario
}

fn lies(scenario: Scenario, untold: bool) -> Vec<String> {
    let mut world = World::new(scenario, None).expect("a possible scenario");
    world.untold = untold;
    world.until(Time::MAX);
    world.close().violations
}

// A wrong index is detected if the engines' hits do not reach the trust, and not if they do: the
// same world and the same wrong predictions, but the trust has come down.
#[test]
fn a_lying_index_is_found() {
    for policy in ["prefix_trie", "meridian", "skywalker"] {
        assert_eq!(lies(forgetful(policy), false), Vec::<String>::new(), "{policy}");
        let found = lies(forgetful(policy), true);
        let reported = found.iter().filter(|what| what.contains("its index lies beyond its trust"));
        assert!(reported.count() > 0, "{policy}: {found:?}");
    }
}
