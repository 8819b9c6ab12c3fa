//! Levelled topologies: links that should be alike at the rate of the slowest of them.
//!
//! Where links differ, alike servers are none, and a search that knows fewer symmetries looks elsewhere.
//! What it finds with a faster link may then be worse than what it found without. So an uneven topology is
//! planned as if it were even, too: such a plan serves no less with the faster links that are there.

use std::collections::BTreeMap;

use crate::cell::same_build;
use crate::topology::{LinkName, Topology};

/// Links that should be alike: of which servers or unit, which kind of link, and where in the server.
type Key = (u32, u8, u32);

/// The topology with the least rate of links in the same place of alike servers, and with that of all
/// links of one kind in these; those that it is not already.
pub(crate) fn levels(topology: &Topology) -> Vec<Topology> {
    let firsts = firsts(topology);
    let by_place = topology.levelled(|link| key(topology, &firsts, link, true));
    let by_kind = topology.levelled(|link| key(topology, &firsts, link, false));
    let mut all = vec![topology.clone()];
    for one in [by_place, by_kind] {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all.split_off(1)
}

/// For each server the first that is built as it is.
fn firsts(topology: &Topology) -> Vec<u32> {
    let mut classes: Vec<u32> = Vec::new();
    let count = topology.servers().len() as u32;
    let first = |at: u32| {
        let known = classes.iter().copied().find(|first| same_build(topology, *first, at));
        known.unwrap_or_else(|| {
            classes.push(at);
            at
        })
    };
    (0..count).map(first).collect()
}

fn key(topology: &Topology, firsts: &[u32], link: LinkName, by_place: bool) -> Key {
    let of_gpu = |gpu| {
        let home = topology.home(gpu);
        (topology.server_of(gpu), gpu.0 - home.first)
    };
    let (kind, server, place) = match link {
        LinkName::Nvlink(gpu, way) => (way as u8, of_gpu(gpu).0, of_gpu(gpu).1),
        LinkName::Pcie(gpu, way) => (2 + way as u8, of_gpu(gpu).0, of_gpu(gpu).1),
        LinkName::Socket(server, way) => (4 + way as u8, server, 0),
        LinkName::Card(server, nth, way) => (6 + way as u8, server, nth),
        LinkName::Uplink(access, way) => {
            return (topology.access()[access as usize].unit, 8 + way as u8, 0);
        }
    };
    (firsts[server as usize], kind, if by_place { place } else { 0 })
}

impl Topology {
    /// The same topology with the least rate of all links that have a key in common.
    fn levelled(&self, key: impl Fn(LinkName) -> Key) -> Topology {
        let mut least: BTreeMap<Key, f64> = BTreeMap::new();
        for (name, rate) in self.links() {
            let known = least.entry(key(name)).or_insert(rate);
            *known = known.min(rate);
        }
        self.with_rates(|name, _| least[&key(name)])
    }
}
