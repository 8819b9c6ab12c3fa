//! Residency rules hold in every topology: a request runs where its rules permit, and nowhere else.

use std::sync::Arc;

use crate::world::three_regions;
use meridian_base::{Duration, Time};
use meridian_sim::{
    Fate, Fault, Load, Measure, Objective, Report, Scenario, Source, Topology, run,
};
use meridian_workload::Sessions;

const TOPOLOGIES: [Topology; 7] = [
    Topology::TwoLayer,
    Topology::Central { region: 0 },
    Topology::Flat,
    Topology::Waterfall { above: 0.8 },
    Topology::Continent { above: 0.8 },
    Topology::RegionLocal,
    Topology::Oracle(Objective::Ttft { work: 1.0 }),
];

/// Three regions with a replica each, and clients in the first whose requests may run in some of
/// them.
fn world(topology: Topology, policy: &str, may_run_in: Vec<usize>) -> Scenario {
    let source = Source::Closed {
        clients: 8,
        generator: Arc::new(Sessions::default()),
        ramp: Duration::from_secs(1),
        programs: Some(12),
        day: None,
    };
    Scenario {
        loads: vec![Load { region: 0, source, may_run_in: Some(may_run_in) }],
        measure: Measure { warmup: Duration::ZERO, window: Duration::from_secs(30) },
        ..three_regions(3, topology, policy, 1)
    }
}

fn ran(scenario: Scenario) -> Report {
    let report = run(scenario).expect("a possible scenario");
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.requests.len() > 20, "{} requests", report.requests.len());
    report
}

// A rule that permits only the farthest region sends every request there, even if nearer ones are
// idle; if the topology has no path there, every request is refused.
#[test]
fn requests_run_where_they_may() {
    for topology in TOPOLOGIES {
        for policy in ["meridian", "round_robin", "consistent_hash", "skywalker"] {
            let report = ran(world(topology, policy, vec![2]));
            for request in &report.requests {
                match topology {
                    Topology::RegionLocal => assert_eq!(request.fate, Fate::Rejected),
                    _ => {
                        assert_eq!((request.fate, request.served), (Fate::Done, 2), "{topology:?}")
                    }
                }
            }
        }
    }
}

// If no region may serve it, a request is refused at once and not held.
#[test]
fn nowhere_is_refused() {
    for topology in TOPOLOGIES {
        let report = ran(world(topology, "meridian", Vec::new()));
        for request in &report.requests {
            assert_eq!((request.fate, request.held), (Fate::Rejected, Duration::ZERO));
        }
    }
}

// The only permitted region loses its gateways and gets them back: requests that enter elsewhere
// meanwhile wait, and go to the region that has adopted its replica. The checkers ensure that no
// request is finally refused and none runs elsewhere.
#[test]
fn a_lost_gateway_refuses_nothing() {
    for topology in [Topology::TwoLayer, Topology::Waterfall { above: 0.8 }] {
        for policy in ["meridian", "round_robin"] {
            let faults = vec![
                (Time::from_millis(2_000), Fault::GatewaysDown(2)),
                (Time::from_millis(12_000), Fault::GatewaysUp(2)),
            ];
            let report = ran(Scenario { faults, ..world(topology, policy, vec![2]) });
            let refused = report.requests.iter().filter(|r| r.fate == Fate::Rejected).count();
            let served = report.requests.iter().filter(|r| r.fate == Fate::Done).count();
            assert!(refused == 0 && served > 20, "{topology:?} {policy}: {refused} of {served}");
        }
    }
}

// The nearest region's gateways stop, and the clients' own gateway adopts its replica, which still
// belongs to the other region. All regions are full, so a request without permission would use it.
#[test]
fn adopted_replicas_stay_where_they_stand() {
    for topology in [Topology::TwoLayer, Topology::Waterfall { above: 0.0 }, Topology::RegionLocal]
    {
        let faults = vec![(Time::from_millis(500), Fault::GatewaysDown(1))];
        let free =
            Scenario { faults: faults.clone(), ..world(topology, "round_robin", vec![0, 1]) };
        assert!(ran(free).requests.iter().any(|r| r.served == 1), "{topology:?}: it is adopted");
        let ruled = Scenario { faults, ..world(topology, "round_robin", vec![0, 2]) };
        assert!(ran(ruled).requests.iter().all(|r| r.served != 1), "{topology:?}");
    }
}
