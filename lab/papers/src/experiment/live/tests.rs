//! Tests of a live run's setup, without running it.

use std::time::Duration;

use super::stage::stage;
use super::*;
use crate::experiment::plan::Cell;
use crate::experiment::{ALL, find, spec};

fn small(name: &str, quick: bool) -> Plan {
    let entry = find(name).expect("an experiment");
    let spec: Spec = spec::read(entry.name, entry.yaml).expect("the file is read");
    plan(&spec, quick).expect("the scale is a good one")
}

// Every experiment of regions that runs live has a scale, and each of its cells can be staged. The
// testbed of flows has a stage of its own.
#[test]
fn every_live_experiment_can_be_staged() {
    let live: Vec<_> = ALL.iter().filter(|e| e.live.is_some() && e.name != "mfs-testbed").collect();
    assert_eq!(live.len(), 8);
    for entry in live {
        let plan = small(entry.name, false);
        for cell in plan.cells() {
            let stage = stage(&plan, cell, 1).expect("it can be staged");
            assert!(!stage.engines.is_empty() && !stage.loads.is_empty(), "{}", entry.name);
        }
        assert!(small(entry.name, true).cells().len() <= 2, "{}", entry.name);
    }
}

// Engines have the roles and the cards of the fleet, and none has a role under a system without
// pools.
#[test]
fn engines_have_roles() {
    let plan = small("pd-pairs", false);
    let of = |name: &str| {
        let system = plan.systems.iter().position(|(s, ..)| s.name == name).expect("a system");
        stage(&plan, Cell { workload: 0, fleet: 0, system }, 1).expect("it can be staged").engines
    };
    let roles = |name: &str| -> Vec<&str> {
        of(name).iter().map(|(_, engine)| engine.role.word()).collect()
    };
    assert_eq!(roles("meridian"), ["prefill", "decode"]);
    assert_eq!(roles("no pools"), ["both", "both"]);
    assert!(of("meridian")[0].1.args.ends_with(&["--kv-link-gbps".into(), "100".into()]));
}

// Gateways know the same replicas and peers as in the simulator: a central one has all replicas and
// no peer, with two layers each has its own region's and the gateways of the others. Clients go to
// the nearest gateway, with the same numbers as in the simulator.
#[test]
fn who_knows_whom() {
    let plan = small("skywalker-fig8", false);
    let of = |name: &str| {
        let system = plan.systems.iter().position(|(s, ..)| s.name == name).expect("a system");
        stage(&plan, Cell { workload: 0, fleet: 0, system }, 7).expect("it can be staged")
    };
    let (central, two) = (of("rr"), of("meridian"));
    assert_eq!(central.gateways.len(), 1);
    assert_eq!(central.gateways[0].replicas.len(), central.engines.len());
    assert!(central.gateways[0].peers.is_empty());
    assert!(central.loads.iter().all(|load| load.gateways == [0]));
    assert_eq!(two.gateways.len(), 3);
    for (at, post) in two.gateways.iter().enumerate() {
        assert_eq!((post.region, post.peers.len()), (at, 2));
        assert!(post.replicas.iter().all(|replica| two.engines[*replica].0 == at));
        assert_eq!(two.loads[at].gateways, [at]);
    }
    let arg = |at: usize, flag: &str| {
        let args = &two.loads[at].args;
        args[args.iter().position(|a| a == flag).expect("is given") + 1].clone()
    };
    assert_eq!((arg(2, "--first-client"), arg(2, "--region")), ("131072".into(), "2".into()));
    assert_eq!((arg(0, "--seed"), arg(0, "--generator")), ("7".into(), "wildchat".into()));
    assert_eq!(plan.regions.rtt_ms[0][0], 0.0);
    assert!(two.window > Duration::ZERO);
}

// An open loop has the simulator's rates and the seed of its arrivals, and each engine has its
// sequence slots. Bursts are refused by name.
#[test]
fn open_loops_and_slots_are_staged() {
    let mut plan = small("hard-live", false);
    let cell = plan.cells()[0];
    let staged = stage(&plan, cell, 7).expect("it can be staged");
    let slots = plan.fleets[cell.fleet].groups[0].max_num_seqs;
    assert!(slots.is_some() && staged.engines.iter().all(|(_, e)| e.max_num_seqs == slots));
    let arg = |flag: &str| {
        let args = &staged.loads[1].args;
        args[args.iter().position(|a| a == flag).expect("is given") + 1].clone()
    };
    let load = plan.workloads[cell.workload].0.loads[0].clone();
    let rates = load.rates(plan.workloads[cell.workload].0.level).expect("an open loop");
    assert_eq!(arg("--rate"), rates[1].to_string());
    let seed = crate::experiment::build::arrival_seed(7, 0, 1);
    assert_eq!(arg("--arrival-seed"), seed.to_string());
    assert!(!staged.loads[1].args.contains(&"--clients".to_owned()));

    let loads = &mut plan.workloads[cell.workload].0.loads;
    loads[0].rise = Some(Span::secs(1));
    let error = format!("{:#}", stage(&plan, cell, 1).expect_err("no live load rises"));
    assert!(error.contains("loads[0]") && error.contains("rise"), "{error}");
}

// A topology that only the simulator supports is refused by name.
#[test]
fn what_is_not_arranged_is_refused() {
    let mut plan = small("skywalker-fig8", false);
    plan.systems[0].0.topology = crate::experiment::spec::Topology::Continent(0.8);
    let error = stage(&plan, plan.cells()[0], 1).expect_err("no stage has it");
    assert!(error.to_string().contains("live.systems"), "{error}");
}
