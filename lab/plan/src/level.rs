//! Levelled topologies: equivalent links are set to the rate of the slowest of them.
//!
//! If links differ, equal servers become different, and a search with fewer symmetries explores
//! other plans. A faster link could then lead to a worse plan. So an uneven topology is also
//! planned as if it were even: such a plan serves no less with the actual, faster links.

use std::collections::BTreeMap;

use crate::cell::same_build;
use crate::topology::{LinkName, Topology};

/// The key of equivalent links: the servers or unit, the kind of link, and the position in the
/// server.
type Key = (u32, u8, u32);

/// The topology with the minimum rate of links in the same position of equal servers, and with that
/// of all links of one kind in these; omits those equal to the original.
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

/// For each server the first with the same build.
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
    /// The same topology with each link at the minimum rate of all links with the same key.
    fn levelled(&self, key: impl Fn(LinkName) -> Key) -> Topology {
        let mut least: BTreeMap<Key, f64> = BTreeMap::new();
        for (name, rate) in self.links() {
            let known = least.entry(key(name)).or_insert(rate);
            *known = known.min(rate);
        }
        self.with_rates(|name, _| least[&key(name)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::TopologySpec;
    use crate::topology::LinkId;

    fn even() -> Topology {
        let yaml = "version: 1\nunits:\n- access: {count: 2}\n  servers:\n  - {count: 2, gpu: a100, \
                    gpus: 4, nvlink: 300GB/s, cards: 2, card_rate: 100Gb/s}\n  - {gpu: l4, gpus: 2, \
                    cards: 2, card_rate: 25Gb/s}\n";
        TopologySpec::read(yaml).unwrap().build().unwrap()
    }

    // Whichever link is faster, levelling restores the even topology, unless the link has no
    // equivalent: then no symmetry is lost either.
    #[test]
    fn one_faster_link_is_levelled() {
        let even = even();
        assert_eq!(levels(&even), Vec::new());
        let mut alone = 0;
        for link in (0..even.link_count()).map(LinkId).filter(|link| even.rate(*link) > 0.0) {
            let all = levels(&even.faster(link, 2.0));
            assert!(all.is_empty() || all.contains(&even), "{}", even.link_text(link));
            alone += usize::from(all.is_empty());
        }
        // The way between the NUMA nodes of the one L4 server, both directions.
        assert_eq!(alone, 2);
    }

    // A slower link slows those like it, and no others.
    #[test]
    fn one_slower_link_slows_its_like() {
        let even = even();
        let slower = even
            .faster(even.nvlink(crate::topology::GpuId(1), crate::topology::Direction::Out), 0.5);
        let all = levels(&slower);
        let by_place: Vec<f64> = all[0].links().map(|(_, rate)| rate).collect();
        let changed = even.links().zip(by_place).filter(|((_, a), b)| a != b).count();
        // Of the second GPU on both servers, both directions.
        assert_eq!((all.len(), changed), (2, 4));
    }
}
