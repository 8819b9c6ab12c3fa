//! The cost of an all-reduce in a group of GPUs, for each algorithm.
//!
//! Every algorithm takes a latency plus the time of its bottleneck: the maximum over links of the
//! whole group's bytes on the link, divided by its rate. Members that share a card therefore slow
//! each other down. There are four algorithms:
//!
//! - *ring*: servers in sequence, with as many rings as each server has members, each over a
//!   separate card; a chunk goes around twice, less two hops.
//! - *tree*: two binary trees over the servers and chains inside; the same bytes as a ring, but
//!   logarithmic latency.
//! - *relayed*: each server first reduces over NVLink, and each member then sends only its part
//!   over its own card (HeroServe's heterogeneous network).
//! - *in-network*: a switch reduces, so each card sends once and receives once.
//!
//! Inside one server it is a ring with the latency from the GPU's calibration. In-network
//! aggregation is NCCL's CollNet or SHARP, with its latency of some 30 microseconds and the
//! throughput of the switch's slots, not the microsecond of the paper's section III-C.

use crate::loads::Loads;
use crate::route::{Route, hop, route};
use crate::topology::{Aggregation, Direction, GpuId, LinkId, Topology};

/// An algorithm for an all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Rings through all members.
    Ring,
    /// Double binary tree over servers.
    Tree,
    /// NVLink first, then cards with a part each.
    Relayed,
    /// A switch reduces.
    InNetwork,
}

impl Algorithm {
    /// The short name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Ring => "ring",
            Algorithm::Tree => "tree",
            Algorithm::Relayed => "relayed",
            Algorithm::InNetwork => "in-network",
        }
    }

    /// The algorithm with a short name.
    #[must_use]
    pub fn named(name: &str) -> Option<Algorithm> {
        [Algorithm::Ring, Algorithm::Tree, Algorithm::Relayed, Algorithm::InNetwork]
            .into_iter()
            .find(|one| one.name() == name)
    }
}

/// The cost of one algorithm in one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Latency in seconds, without bytes.
    pub latency: f64,
    /// Seconds a byte.
    pub per_byte: f64,
    /// The load of one byte on each link.
    pub loads: Loads,
    /// The link that finishes last.
    pub bottleneck: Option<LinkId>,
}

impl Choice {
    /// Seconds of an all-reduce of `bytes`.
    #[must_use]
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.latency + self.per_byte * bytes
    }
}

/// Every algorithm that a group can use; none for one GPU. Members are in the order of their ring.
#[must_use]
pub fn choices(topology: &Topology, members: &[GpuId]) -> Vec<Choice> {
    if members.len() < 2 {
        return Vec::new();
    }
    let group = Group::new(topology, members);
    if group.servers.len() == 1 {
        return vec![group.inside()];
    }
    let all = [group.ring(), group.tree(), group.relayed(), group.in_network()];
    all.into_iter().flatten().collect()
}

/// The cheapest algorithm for `bytes`.
#[must_use]
pub fn best(choices: &[Choice], bytes: f64) -> Option<&Choice> {
    choices.iter().min_by(|a, b| a.seconds(bytes).total_cmp(&b.seconds(bytes)))
}

struct Group<'a> {
    topology: &'a Topology,
    /// Members of each server, servers in the order of the ring.
    servers: Vec<Vec<GpuId>>,
    /// The cost of an all-reduce inside a server in addition to its hops.
    base: f64,
}

/// The message size for which paths between two GPUs are chosen: a prompt of some hundred tokens.
const TYPICAL: f64 = 4e6;

impl<'a> Group<'a> {
    fn new(topology: &'a Topology, members: &[GpuId]) -> Group<'a> {
        let mut servers: Vec<Vec<GpuId>> = Vec::new();
        for gpu in members {
            let home = topology.server_of(*gpu);
            match servers.iter_mut().find(|one| topology.server_of(one[0]) == home) {
                Some(server) => server.push(*gpu),
                None => servers.push(vec![*gpu]),
            }
        }
        let base = members.iter().map(|gpu| topology.kind(*gpu).efficiency.reduce);
        let base = base.fold(0.0, f64::max);
        Group { topology, servers, base }
    }

    fn choice(&self, algorithm: Algorithm, latency: f64, loads: Loads) -> Choice {
        let slowest = loads.slowest(self.topology);
        let per_byte = slowest.map_or(0.0, |(_, seconds)| seconds);
        let bottleneck = slowest.map(|(link, _)| link);
        Choice { algorithm, latency, per_byte, loads, bottleneck }
    }

    fn way(&self, from: GpuId, to: GpuId) -> Option<Route> {
        route(self.topology, from, to, TYPICAL)
    }

    /// Adds a ring to the links; returns the latency of a chunk around it.
    fn circle(&self, order: &[GpuId], bytes: f64, loads: &mut Loads) -> Option<f64> {
        let len = order.len() as f64;
        let mut around = 0.0;
        for (at, from) in order.iter().enumerate() {
            let way = self.way(*from, order[(at + 1) % order.len()])?;
            loads.add(&way.links, 2.0 * (len - 1.0) / len * bytes);
            around += way.latency;
        }
        Some(2.0 * (len - 1.0) / len * around)
    }

    /// One server: the latency is the calibration's own.
    fn inside(&self) -> Choice {
        let mut loads = Loads::default();
        self.circle(&self.servers[0], 1.0, &mut loads);
        self.choice(Algorithm::Ring, self.base, loads)
    }

    fn ring(&self) -> Option<Choice> {
        let rings = self.servers.iter().map(Vec::len).min().unwrap_or(1);
        let mut loads = Loads::default();
        let mut latency = 0.0_f64;
        for ring in 0..rings {
            // In each ring a different member is the last of its server, and its card sends to the
            // next server.
            let turned = |server: &Vec<GpuId>| {
                let mut server = server.clone();
                server.rotate_left(ring);
                server
            };
            let order: Vec<GpuId> = self.servers.iter().flat_map(turned).collect();
            latency = latency.max(self.circle(&order, 1.0 / rings as f64, &mut loads)?);
        }
        Some(self.choice(Algorithm::Ring, self.base + latency, loads))
    }

    /// Two trees in which every server is an inner node once and a leaf once load all servers
    /// equally, as if each sent its part to both neighbours.
    fn tree(&self) -> Option<Choice> {
        let count = self.servers.len();
        let channels = self.servers.iter().map(Vec::len).min().unwrap_or(1);
        let share = (count as f64 - 1.0) / count as f64 / channels as f64;
        let mut loads = Loads::default();
        let mut hop = 0.0_f64;
        for (at, server) in self.servers.iter().enumerate() {
            for (channel, card) in server.iter().enumerate().take(channels) {
                for next in [(at + 1) % count, (at + count - 1) % count] {
                    let way = self.way(*card, self.servers[next][channel])?;
                    loads.add(&way.links, share);
                    hop = hop.max(way.latency);
                }
            }
        }
        let longest = self.servers.iter().map(Vec::len).max().unwrap_or(1) as f64;
        for server in self.servers.iter().filter(|server| server.len() > 1) {
            self.circle(server, 1.0, &mut loads)?;
        }
        let levels = libm::ceil(libm::log2(count as f64));
        let latency = 2.0 * (levels * hop + (longest - 1.0) * hop::NVLINK);
        Some(self.choice(Algorithm::Tree, self.base + latency, loads))
    }

    /// Members of each server, if all have the same number, above one, and NVLink.
    fn even(&self) -> Option<usize> {
        let len = self.servers[0].len();
        let same = self.servers.iter().all(|server| server.len() == len);
        let nvlink = |server: &Vec<GpuId>| self.topology.home(server[0]).nvlink.is_some();
        (len > 1 && same && self.servers.iter().all(nvlink)).then_some(len)
    }

    /// Reducing and distributing inside each server: together one ring.
    fn fold(&self, loads: &mut Loads) -> Option<()> {
        self.servers.iter().try_for_each(|server| self.circle(server, 1.0, loads).map(|_| ()))
    }

    fn relayed(&self) -> Option<Choice> {
        let each = self.even()?;
        let mut loads = Loads::default();
        self.fold(&mut loads)?;
        let mut latency = 0.0_f64;
        for nth in 0..each {
            let order: Vec<GpuId> = self.servers.iter().map(|server| server[nth]).collect();
            latency = latency.max(self.circle(&order, 1.0 / each as f64, &mut loads)?);
        }
        let latency = self.base + latency + 2.0 * (each as f64 - 1.0) * hop::NVLINK;
        Some(self.choice(Algorithm::Relayed, latency, loads))
    }

    fn in_network(&self) -> Option<Choice> {
        let mut loads = Loads::default();
        let ranks: Vec<Vec<GpuId>> = match self.even() {
            Some(each) => {
                self.fold(&mut loads)?;
                (0..each).map(|nth| self.servers.iter().map(|one| one[nth]).collect()).collect()
            }
            None => vec![self.servers.iter().flatten().copied().collect()],
        };
        let part = 1.0 / ranks.len() as f64;
        let (mut latency, mut slots) = (0.0_f64, 0.0_f64);
        for rank in &ranks {
            let aggregation = self.gather(rank, part, &mut loads)?;
            latency = latency.max(aggregation.latency);
            slots = slots.max(part / aggregation.rate);
        }
        let folded = if ranks.len() > 1 { self.base } else { 0.0 };
        let mut choice = self.choice(Algorithm::InNetwork, latency + folded, loads);
        choice.per_byte = choice.per_byte.max(slots);
        Some(choice)
    }

    /// Sends a part from each of `rank` to the lowest switch common to all of them, and back.
    fn gather(&self, rank: &[GpuId], part: f64, loads: &mut Loads) -> Option<Aggregation> {
        let topology = self.topology;
        let card = |gpu: GpuId| topology.own_card(gpu);
        let access = |gpu: GpuId| Some(topology.home(gpu).cards[card(gpu)? as usize].access);
        let first = access(*rank.first()?)?;
        let met = rank.iter().all(|gpu| access(*gpu) == Some(first));
        let aggregation = if met {
            topology.access()[first as usize].aggregation?
        } else {
            topology.core()?.aggregation?
        };
        for gpu in rank {
            for way in [Direction::Out, Direction::In] {
                let nth = card(*gpu)?;
                let links =
                    [topology.pcie(*gpu, way), topology.card(topology.server_of(*gpu), nth, way)];
                loads.add(&links, part);
                if !met {
                    loads.add(&[topology.uplink(access(*gpu)?, way)], part);
                }
            }
        }
        Some(aggregation)
    }
}

#[cfg(test)]
mod tests;
