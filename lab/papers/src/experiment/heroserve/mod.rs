//! HeroServe's figures, each in three modes.
//!
//! The paper's mode uses the paper's formulas for the cost of an all-reduce, its Algorithm 1 for
//! the placement and its equations 16 to 18 for the online choice, on simulated links that groups
//! share. The network mode has the paper's formulas alone, on links that nothing shares, and our
//! objective for the placement: what the formulas promise. The corrected mode has neither.

mod causes;
mod exchanges;
mod fleets;
mod hops;
mod share;

use anyhow::Context as _;
use meridian_plan::{TOPOLOGIES, Topology, TopologySpec};

pub(super) use causes::run as causes;
pub(super) use exchanges::run as exchanges;
pub(super) use fleets::run as fleets;
pub(super) use hops::run as hops;
pub(super) use share::run as share;

/// One unit of a built-in topology, with a different kind of GPU if one is named.
fn unit(name: &str, gpu: Option<&str>) -> anyhow::Result<Topology> {
    let found = TOPOLOGIES.iter().find(|(known, _)| *known == name);
    let (_, yaml) = found.with_context(|| {
        let known: Vec<&str> = TOPOLOGIES.iter().map(|(known, _)| *known).collect();
        format!("topology: {name} is unknown; use one of {}", known.join(", "))
    })?;
    let mut spec = TopologySpec::read(yaml)?;
    spec.units.truncate(1);
    for unit in &mut spec.units {
        unit.count = 1;
        if let Some(gpu) = gpu {
            unit.servers.iter_mut().for_each(|server| server.gpu = gpu.to_owned());
        }
    }
    Ok(spec.build()?)
}
