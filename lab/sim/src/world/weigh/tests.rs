use std::sync::Arc;

use meridian_base::{Duration, Time};
use meridian_routing::policy::Params;
use meridian_workload::Sessions;

use super::*;
use crate::claims::Claims;
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

// Trust that follows stays within the bound for any hits, in the worst order as well; trust that
// stays constant or follows half as fast exceeds it.
#[test]
fn the_bound_is_what_following_gives() {
    let worst = |gain: f64, found: &dyn Fn(u32) -> f64| {
        let (mut claims, mut trust, mut most) = (Claims::default(), 1.0_f64, 0.0_f64);
        claims.begin(ReplicaId(0));
        for answer in 0..2000 {
            most = most.max(claims.weigh(ReplicaId(0), trust, found(answer)));
            trust += gain * (found(answer) - trust);
        }
        most
    };
    let never = |_| 0.0;
    let seldom = |answer: u32| f64::from(u8::from(answer.is_multiple_of(7)));
    let in_turns = |answer: u32| f64::from(u8::from((answer / 300).is_multiple_of(2)));
    for found in [&never as &dyn Fn(u32) -> f64, &seldom, &in_turns] {
        assert!(worst(0.05, found) <= MOST);
        assert!(worst(0.0, found) > MOST);
    }
    assert!(worst(0.025, &never) > MOST);
}

// A replica that joins again starts without claims, and an unknown one has none.
#[test]
fn claims_start_again() {
    let mut claims = Claims::default();
    assert_eq!(claims.weigh(ReplicaId(3), 1.0, 0.0), 0.0);
    claims.begin(ReplicaId(3));
    assert_eq!(claims.weigh(ReplicaId(3), 1.0, 0.25), 0.75);
    claims.begin(ReplicaId(3));
    assert_eq!(claims.weigh(ReplicaId(3), 0.0, 1.0), 0.0);
}
