//! Groups of a system that only do all-reduces.

use meridian_base::Time;
use meridian_plan::{GpuId, PolicyTable, Topology};
use meridian_sim::fleet::{Way, exchanges};

use super::assumptions::Assumptions;
use super::choose::Chooser;
use super::ports::{Ports, Senders};
use super::system::System;

/// Groups, ready to run.
pub struct Exchange<'a> {
    topology: &'a Topology,
    system: System,
    assumed: Assumptions,
    table: PolicyTable,
    ports: Ports<'a>,
}

impl<'a> Exchange<'a> {
    /// Lays groups out.
    #[must_use]
    pub fn new(
        topology: &'a Topology,
        groups: &[Vec<GpuId>],
        system: System,
        assumed: Assumptions,
    ) -> Exchange<'a> {
        let (mut senders, mut table) = (Senders::new(topology), PolicyTable::default());
        groups.iter().for_each(|group| senders.group(system, assumed, group, &mut table));
        let ports = senders.ports(system);
        Exchange { topology, system, assumed, table, ports }
    }

    /// Bytes a second that all groups reduce together, in messages of `bytes`.
    #[must_use]
    pub fn rate(&self, bytes: f64, seconds: f64) -> f64 {
        let ways: Vec<Vec<Way>> =
            self.table.groups.iter().map(|group| self.ports.ways(group)).collect();
        let (table, links) = (self.table.clone(), self.ports.links.clone());
        let mut chooser = Chooser::new(self.system, self.assumed, self.topology, table, links);
        let until = Time::from_nanos((seconds * 1e9) as u64);
        let done = exchanges(&self.ports.rates(), &ways, bytes, until, &mut chooser);
        done.iter().sum::<u64>() as f64 * bytes / seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Mode;
    use meridian_plan::{TOPOLOGIES, TopologySpec};

    // Corrected, with every GPU of a unit in a group over two or four servers, the two with a switch
    // reduce at least what NCCL alone does, although they share links, slots and a parameter server.
    #[test]
    fn rivals_are_never_slower_than_nccl() {
        for (name, yaml) in TOPOLOGIES.iter().filter(|(name, _)| *name != "heroserve-testbed") {
            let mut spec = TopologySpec::read(yaml).unwrap();
            spec.units.truncate(1);
            spec.units[0].count = 1;
            let topology = spec.build().unwrap();
            for spread in [2, 4] {
                let groups: Vec<Vec<GpuId>> = topology
                    .servers()
                    .chunks_exact(spread)
                    .flat_map(|servers| {
                        let each = 8 / spread as u32;
                        (0..8 / each).map(move |nth| {
                            let gpus = |first: u32| {
                                (first + nth * each..first + (nth + 1) * each).map(GpuId)
                            };
                            servers.iter().flat_map(|one| gpus(one.first)).collect()
                        })
                    })
                    .collect();
                let rate = |system| {
                    let assumed = Mode::Corrected.assumptions();
                    Exchange::new(&topology, &groups, system, assumed).rate(16e6, 0.2)
                };
                let nccl = rate(System::Distserve);
                for system in [System::DsAtp, System::DsSwitchml] {
                    let ours = rate(system);
                    assert!(ours >= 0.99 * nccl, "{name}, {spread} servers: {ours} {nccl}");
                }
            }
        }
    }
}
