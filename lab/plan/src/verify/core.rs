//! The core under full load: every card sends at once, across access switches where possible.
//!
//! One pair can't fill an uplink that is faster than a card, so an oversubscription that is worse
//! than planned shows only here.

use std::collections::BTreeMap;

use super::pairs::{Measured, Pair, Port, path};
use super::{BUSY, SLOW};
use crate::topology::{LinkId, LinkName, Topology};

/// An uplink's direction under the load of all cards.
#[derive(Clone, Debug, PartialEq)]
pub struct Uplink {
    /// The link.
    pub link: LinkId,
    /// Flows over it.
    pub flows: usize,
    /// What they should carry together, bytes a second.
    pub expected: f64,
    /// What they carried.
    pub measured: f64,
    /// Whether a processor limited any of them.
    pub is_cpu_bound: bool,
}

impl Uplink {
    /// Whether it carried less than it should, and a processor was not the limit.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.measured < SLOW * self.expected && !self.is_cpu_bound
    }

    /// Whether it carried less than it should because of a processor, which says nothing about it.
    #[must_use]
    pub fn is_unproven(&self) -> bool {
        self.measured < SLOW * self.expected && self.is_cpu_bound
    }
}

/// Pairs to measure at once: each card sends to one and receives from one. Cards in the order of
/// their switches are shifted by the size of the largest switch, so that as many as possible cross
/// the core.
#[must_use]
pub fn together(topology: &Topology, ports: &[Port]) -> Vec<(Port, Port)> {
    let access =
        |port: &Port| topology.servers()[port.server as usize].cards[port.card as usize].access;
    let mut sorted = ports.to_vec();
    sorted.sort_by_key(|port| (access(port), *port));
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    sorted.iter().for_each(|port| *sizes.entry(access(port)).or_default() += 1);
    let shift = sizes.values().max().copied().unwrap_or(0);
    let count = sorted.len().max(1);
    let to = |at: usize| sorted[(at + shift) % count];
    let all = sorted.iter().enumerate().map(|(at, from)| (*from, to(at)));
    all.filter(|(from, to)| path(topology, *from, *to).is_some()).collect()
}

/// The uplinks under this load. A flow should carry what it carries alone, if that was measured,
/// and otherwise what the topology says; but no more than its share of any uplink on its path.
#[must_use]
pub fn uplinks(topology: &Topology, at_once: &[Measured], alone: &[Pair]) -> Vec<Uplink> {
    let flows = super::compared(topology, at_once);
    let of = |flow: &Pair| -> Vec<LinkId> {
        let links = flow.links.iter().copied();
        links.filter(|link| matches!(topology.link(*link), LinkName::Uplink(..))).collect()
    };
    let mut sharing: BTreeMap<LinkId, f64> = BTreeMap::new();
    flows.iter().flat_map(&of).for_each(|link| *sharing.entry(link).or_default() += 1.0);
    let mut all: BTreeMap<LinkId, Uplink> = BTreeMap::new();
    for flow in &flows {
        let (from, to) = (flow.measured.from, flow.measured.to);
        let single = alone.iter().find(|one| (one.measured.from, one.measured.to) == (from, to));
        let own = single.map_or(flow.expected, |one| one.measured.goodput.min(one.expected));
        let uplinks = of(flow);
        let share = |link: &LinkId| topology.usable(*link) / sharing[link];
        let own = uplinks.iter().map(share).fold(own, f64::min);
        for link in uplinks {
            let empty =
                Uplink { link, flows: 0, expected: 0.0, measured: 0.0, is_cpu_bound: false };
            let uplink = all.entry(link).or_insert(empty);
            uplink.flows += 1;
            uplink.expected += own;
            uplink.measured += flow.measured.goodput;
            uplink.is_cpu_bound |= flow.measured.busy >= BUSY;
        }
    }
    let mut all: Vec<Uplink> = all.into_values().collect();
    for uplink in &mut all {
        uplink.expected = uplink.expected.min(topology.usable(uplink.link));
    }
    all
}
