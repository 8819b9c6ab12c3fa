//! Paths between two GPUs.
//!
//! Inside a server: NVLink, or PCIe and, between NUMA nodes, the socket link. Between servers there
//! may be several: over both GPUs' own cards; over a card on the other's access switch, reached by
//! NVLink (HeroServe's heterogeneous network, section II-C); or over the core. The fastest for the
//! given size is used.
//!
//! Switches cut through: a transfer takes its size over the slowest link's rate plus each hop's
//! latency, and not the sum of size over rate as in the paper's equations 6, 10 and 15.

use crate::topology::{Direction, GpuId, LinkId, LinkName, Topology};

/// Latency of a hop, in seconds: measured values of common hardware, the same for every topology.
pub mod hop {
    /// NVLink.
    pub const NVLINK: f64 = 0.5e-6;
    /// PCIe.
    pub const PCIE: f64 = 1.0e-6;
    /// Between sockets.
    pub const SOCKET: f64 = 0.5e-6;
    /// A card with its driver, one end.
    pub const CARD: f64 = 2.0e-6;
    /// A switch.
    pub const SWITCH: f64 = 0.6e-6;
}

/// A path.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The links, in order.
    pub links: Vec<LinkId>,
    /// Sum of the hops' latencies, in seconds.
    pub latency: f64,
    /// Whether NVLink carries it to another GPU's card first, or from one at the end.
    pub relayed: bool,
}

impl Route {
    /// The rate of the slowest link, bytes a second.
    #[must_use]
    pub fn rate(&self, topology: &Topology) -> f64 {
        self.links.iter().map(|link| topology.usable(*link)).fold(f64::INFINITY, f64::min)
    }

    /// Seconds a byte if every hop stores and forwards (the paper's equations 6, 10 and 15). A GPU
    /// and its card are one node, as in the paper's Figure 2, and NVLink is one hop.
    #[must_use]
    pub fn stored(&self, topology: &Topology) -> f64 {
        let hop = |link: &&LinkId| {
            !matches!(
                topology.link(**link),
                LinkName::Pcie(..) | LinkName::Nvlink(_, Direction::In)
            )
        };
        self.links.iter().filter(hop).map(|link| 1.0 / topology.rate(*link)).sum()
    }

    /// The time of `bytes` on it without contention.
    #[must_use]
    pub fn seconds(&self, topology: &Topology, bytes: f64) -> f64 {
        self.latency + bytes / self.rate(topology)
    }
}

/// The fastest path from one GPU to another for `bytes`; `None` if there is none, or they are the
/// same.
#[must_use]
pub fn route(topology: &Topology, from: GpuId, to: GpuId, bytes: f64) -> Option<Route> {
    if from == to {
        return None;
    }
    if topology.server_of(from) == topology.server_of(to) {
        return Some(inside(topology, from, to));
    }
    let ways = between(topology, from, to);
    let seconds = |way: &Route| way.seconds(topology, bytes);
    ways.into_iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
}

fn inside(topology: &Topology, from: GpuId, to: GpuId) -> Route {
    let home = topology.home(from);
    if home.nvlink.is_some() {
        let links = vec![topology.nvlink(from, Direction::Out), topology.nvlink(to, Direction::In)];
        return Route { links, latency: hop::NVLINK, relayed: false };
    }
    let numa = |gpu: GpuId| home.numa[(gpu.0 - home.first) as usize];
    let mut links = vec![topology.pcie(from, Direction::Out)];
    let mut latency = 2.0 * hop::PCIE;
    latency += cross(topology, topology.server_of(from), numa(from), numa(to), &mut links);
    links.push(topology.pcie(to, Direction::In));
    Route { links, latency, relayed: false }
}

/// Adds the socket link if two NUMA nodes differ; returns its latency.
fn cross(topology: &Topology, server: u32, from: u8, to: u8, links: &mut Vec<LinkId>) -> f64 {
    if from == to {
        return 0.0;
    }
    let way = if from < to { Direction::Out } else { Direction::In };
    links.push(topology.socket(server, way));
    hop::SOCKET
}

fn between(topology: &Topology, from: GpuId, to: GpuId) -> Vec<Route> {
    let (Some(out), Some(into)) = (topology.own_card(from), topology.own_card(to)) else {
        return Vec::new();
    };
    let (a, b) = (topology.home(from), topology.home(to));
    let rail = |home: &crate::topology::Server, card: u32| home.cards[card as usize].access;
    let direct = way(topology, (from, out), (to, into));
    if direct.as_ref().is_some_and(|_| rail(a, out) == rail(b, into)) {
        return direct.into_iter().collect();
    }
    // Over another card of the sender, or of the receiver, that is on the other's switch.
    let card_on = |home: &crate::topology::Server, access: u32| {
        (0..home.cards.len() as u32).find(|card| rail(home, *card) == access)
    };
    let near = card_on(a, rail(b, into)).and_then(|card| way(topology, (from, card), (to, into)));
    let far = card_on(b, rail(a, out)).and_then(|card| way(topology, (from, out), (to, card)));
    direct.into_iter().chain(near).chain(far).collect()
}

/// From a GPU over a card of its server to a card of the other's server.
fn way(topology: &Topology, from: (GpuId, u32), to: (GpuId, u32)) -> Option<Route> {
    let mut route = Route { links: Vec::with_capacity(8), latency: 0.0, relayed: false };
    let relay = end(topology, from, Direction::Out, &mut route);
    let access = |(gpu, card): (GpuId, u32)| topology.home(gpu).cards[card as usize].access;
    let (up, down) = (access(from), access(to));
    route.latency += hop::SWITCH;
    if up != down {
        topology.core()?;
        route
            .links
            .extend([topology.uplink(up, Direction::Out), topology.uplink(down, Direction::In)]);
        route.latency += 2.0 * hop::SWITCH;
    }
    let mut back = Route { links: Vec::with_capacity(4), latency: 0.0, relayed: false };
    let relay_back = end(topology, to, Direction::In, &mut back);
    route.links.extend(back.links.into_iter().rev());
    route.latency += back.latency;
    route.relayed = relay || relay_back;
    Some(route)
}

/// The part of a path between a GPU and a card of its server. By NVLink to the GPU that owns the
/// card, if there is one; otherwise by PCIe, and between NUMA nodes by the socket link.
fn end(topology: &Topology, (gpu, card): (GpuId, u32), way: Direction, route: &mut Route) -> bool {
    let (server, home) = (topology.server_of(gpu), topology.home(gpu));
    let opposite = if way == Direction::Out { Direction::In } else { Direction::Out };
    let mut bearer = gpu;
    let mut relayed = false;
    if home.nvlink.is_some() && topology.own_card(gpu) != Some(card) {
        let owner = |one: &GpuId| topology.own_card(*one) == Some(card);
        if let Some(owner) = (home.first..home.first + home.gpus).map(GpuId).find(owner) {
            let links = [topology.nvlink(gpu, way), topology.nvlink(owner, opposite)];
            route.links.extend(links);
            route.latency += hop::NVLINK;
            (bearer, relayed) = (owner, true);
        }
    }
    route.links.push(topology.pcie(bearer, way));
    let numa = home.numa[(bearer.0 - home.first) as usize];
    let far = home.cards[card as usize].numa;
    let (a, b) = if way == Direction::Out { (numa, far) } else { (far, numa) };
    route.latency += cross(topology, server, a, b, &mut route.links);
    route.links.push(topology.card(server, card, way));
    route.latency += hop::PCIE + hop::CARD;
    relayed
}
