use super::*;
use crate::experiment::{find, spec::Spec};

/// The experiment's own settings with few requests.
fn small(requests: u32) -> FlowTestbed {
    let entry = find("mfs-testbed").expect("it is registered");
    let spec: Spec = crate::experiment::spec::read(entry.name, entry.yaml).unwrap();
    let mut spec = spec.flow_testbed.expect("the file has it");
    spec.load.requests = requests;
    spec
}

/// The simulated side of these settings.
fn simulated_of(spec: &FlowTestbed) -> Simulated {
    simulated(spec, 1, &|_, _, _| ()).unwrap()
}

#[test]
fn probe() {
    let spec = small(72);
    let found = simulated_of(&spec);
    println!("{}", compare::simulated(&spec, &found).text());
    let plan = &found.plan;
    println!("{:?}", plan.batches.iter().map(|b| b.requests.len()).collect::<Vec<_>>());
    println!("{:?}", plan.requests.iter().map(|r| r.slo).collect::<Vec<_>>());
    println!("{:?}", plan.requests.last());
}
