//! Groups of a system that only do all-reduces.

use meridian_base::Time;
use meridian_plan::{GpuId, PolicyTable, Topology};
use meridian_sim::fleet::{Way, exchanges};

use super::choose::Chooser;
use super::ports::{Ports, Senders};
use super::system::{Mode, System};

/// Groups, ready to run.
pub struct Exchange<'a> {
    topology: &'a Topology,
    system: System,
    mode: Mode,
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
        mode: Mode,
    ) -> Exchange<'a> {
        let (mut senders, mut table) = (Senders::new(topology), PolicyTable::default());
        groups.iter().for_each(|group| senders.group(system, mode, group, &mut table));
        let ports = senders.ports(system);
        Exchange { topology, system, mode, table, ports }
    }

    /// Bytes a second that all groups reduce together, in messages of `bytes`.
    #[must_use]
    pub fn rate(&self, bytes: f64, seconds: f64) -> f64 {
        let ways: Vec<Vec<Way>> =
            self.table.groups.iter().map(|group| self.ports.ways(group)).collect();
        let (table, links) = (self.table.clone(), self.ports.links.clone());
        let mut chooser = Chooser::new(self.system, self.mode, self.topology, table, links);
        let until = Time::from_nanos((seconds * 1e9) as u64);
        let done = exchanges(&self.ports.rates(), &ways, bytes, until, &mut chooser);
        done.iter().sum::<u64>() as f64 * bytes / seconds
    }
}
