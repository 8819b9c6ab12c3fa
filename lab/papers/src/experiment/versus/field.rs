//! The competitors: every policy as published and as tuned, in every topology.

use std::collections::BTreeMap;

use meridian_routing::policy::Spec;

use super::marks::OURS;
use crate::experiment::build;
use crate::experiment::catalogue::tuned;
use crate::experiment::spec::{Ref, System, Topology, Tuned};

/// Every arrangement of gateways.
fn topologies() -> [Topology; 6] {
    [
        Topology::TwoLayer,
        Topology::Central("first".to_owned()),
        Topology::RegionLocal,
        Topology::Flat,
        Topology::Waterfall(0.8),
        Topology::Continent(0.8),
    ]
}

/// The policies that compete: all but the one whose rule is the user's.
pub(in crate::experiment) fn policies() -> impl Iterator<Item = &'static Spec> {
    meridian_rivals::EVERY.iter().copied().filter(|policy| policy.name != "expression")
}

/// Every policy in every topology: with its published defaults, then tuned.
pub(in crate::experiment) fn all() -> Vec<Ref<System>> {
    let published = policies().map(|policy| Tuned {
        policy: policy.name.to_owned(),
        topology: Topology::TwoLayer,
        params: BTreeMap::new(),
        admission: None,
    });
    let mut systems = Vec::new();
    for line in published {
        systems.extend(topologies().iter().map(|topology| system(&line, "", topology)));
    }
    for line in tuned().iter().filter(|line| line.policy != OURS) {
        let near = topologies().into_iter().filter(|t| stand_in(t) == line.topology);
        systems.extend(near.map(|topology| system(line, "-tuned", &topology)));
    }
    systems.into_iter().map(Ref::Own).collect()
}

/// The topology whose tuned parameters apply to this one: depending on whether a gateway sees all
/// replicas, or those of its region.
fn stand_in(topology: &Topology) -> Topology {
    match topology {
        Topology::Flat | Topology::Central(_) => Topology::Flat,
        _ => Topology::TwoLayer,
    }
}

fn system(line: &Tuned, suffix: &str, topology: &Topology) -> System {
    let name = format!("{}{suffix}@{}", line.policy, build::topology_name(topology));
    line.system(name, topology.clone())
}
