//! Ports of the simulation: the cards and uplinks shared by several senders.
//!
//! NVLink and PCIe belong to one GPU, and their time is part of a transfer's time without
//! contention.

use std::collections::BTreeMap;

use meridian_base::PortId;
use meridian_plan::collective::{Algorithm, Choice};
use meridian_plan::{GpuId, GroupPolicy, LinkId, LinkName, Loads, PolicyTable, Topology};
use meridian_sim::fleet::Way;

use super::assumptions::Assumptions;
use super::system::{self, System};

/// Senders on each link.
pub(super) struct Senders<'a> {
    topology: &'a Topology,
    counts: BTreeMap<LinkId, u32>,
}

/// A way before its ports are known: seconds, seconds a byte, bytes a byte.
pub(super) type Raw = (f64, f64, Loads);

impl<'a> Senders<'a> {
    pub(super) fn new(topology: &'a Topology) -> Senders<'a> {
        Senders { topology, counts: BTreeMap::new() }
    }

    /// Adds a sender on these links.
    pub(super) fn add(&mut self, loads: &Loads) {
        for (link, _) in loads.iter() {
            if matches!(self.topology.link(link), LinkName::Card(..) | LinkName::Uplink(..)) {
                *self.counts.entry(link).or_default() += 1;
            }
        }
    }

    /// A group with the ways of a system, which counts as one sender whichever way it uses.
    pub(super) fn group(
        &mut self,
        system: System,
        assumed: Assumptions,
        members: &[GpuId],
        table: &mut PolicyTable,
    ) {
        let choices = system::ways(system, assumed, self.topology, members);
        let mut together = Loads::default();
        choices.iter().for_each(|choice| together.merge(&choice.loads, 1.0));
        self.add(&together);
        table.groups.push(GroupPolicy { members: members.to_vec(), choices, rows: Vec::new() });
    }

    /// The links with more than one sender.
    pub(super) fn ports(&self, system: System) -> Ports<'a> {
        let shared = self.counts.iter().filter(|(_, count)| **count > 1);
        Ports { topology: self.topology, system, links: shared.map(|(link, _)| *link).collect() }
    }
}

/// The ports, in the order of their links; after them ATP's parameter server.
pub(super) struct Ports<'a> {
    topology: &'a Topology,
    system: System,
    pub(super) links: Vec<LinkId>,
}

impl Ports<'_> {
    /// Bytes a second of each.
    pub(super) fn rates(&self) -> Vec<f64> {
        let usable = self.links.iter().map(|link| self.topology.usable(*link));
        let server =
            (self.system == System::DsAtp).then(|| system::parameter_server(self.topology));
        usable.chain(server).collect()
    }

    pub(super) fn way(&self, (latency, per_byte, loads): &Raw) -> Way {
        let port = |(link, load): (LinkId, f64)| {
            let at = self.links.binary_search(&link).ok()?;
            Some((PortId(at as u32), load))
        };
        let loads = loads.iter().filter_map(port).collect();
        Way { latency: *latency, per_byte: *per_byte, loads }
    }

    /// A group's ways. ATP's second one includes the parameter server, if there is a switch.
    pub(super) fn ways(&self, group: &GroupPolicy) -> Vec<Way> {
        let way = |one: &Choice| self.way(&(one.latency, one.per_byte, one.loads.clone()));
        let mut ways: Vec<Way> = group.choices.iter().map(way).collect();
        let switch = group.choices.first().filter(|one| one.algorithm == Algorithm::InNetwork);
        if let (System::DsAtp, Some(switch), [_, fallback, ..]) =
            (self.system, switch, ways.as_mut_slice())
        {
            let load = system::missed(self.topology, switch);
            fallback.loads.push((PortId(self.links.len() as u32), load));
        }
        ways
    }
}
