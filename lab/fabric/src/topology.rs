//! The ports of a cluster, and the path between two of its GPUs.
//!
//! A port is one direction of a link. Inside a server every GPU has NVLink to a switch that is
//! never full; outside it uses a network card and one of three network shapes. Switches carry as
//! much as their ports.

use alloc::vec::Vec;
use core::fmt;
use meridian_base::{PortId, mix};

use crate::path::Path;

/// The network between servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// One switch to which every card is connected.
    SingleSwitch,
    /// Leaves, each with its servers, all connected to every spine.
    LeafSpine {
        /// Servers of a leaf.
        leaf_servers: u32,
        /// Rate of a leaf's cards over the rate of its uplinks: 1 is full bisection.
        oversubscription: f64,
    },
    /// Edge switches with their servers, pods of edge switches, cores between pods.
    FatTree {
        /// Servers of an edge switch.
        edge_servers: u32,
        /// Edge switches of a pod.
        pod_edges: u32,
        /// Rate of an edge switch's cards over the rate of its uplinks; everything above is 1:1.
        oversubscription: f64,
    },
}

/// How a switch spreads flows over its uplinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uplinks {
    /// Each flow takes one, by hash (ECMP): some uplinks get more flows than others.
    Hashed,
    /// Each flow takes all, packet by packet: a switch's uplinks are one port of their summed rate.
    Pooled,
}

/// A cluster of equal servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// Servers.
    pub servers: u32,
    /// GPUs of a server.
    pub gpus: u32,
    /// Network cards of a server; GPUs share them evenly.
    pub cards: u32,
    /// Rate of a card in each direction, bytes a second.
    pub card_rate: f64,
    /// Rate of a GPU's NVLink in each direction, bytes a second.
    pub nvlink_rate: f64,
    /// The network between servers.
    pub shape: Shape,
    /// How switches spread flows.
    pub uplinks: Uplinks,
}

impl Cluster {
    /// The cluster that MFS simulates: 256 servers of 8 GPUs with 8 cards of 200 Gb/s, NVSwitch at
    /// 900 GB/s a GPU (both directions together), a 1:1 fat tree.
    #[must_use]
    pub fn mfs() -> Cluster {
        Cluster {
            servers: 256,
            gpus: 8,
            cards: 8,
            card_rate: 25e9,
            nvlink_rate: 450e9,
            shape: Shape::FatTree { edge_servers: 4, pod_edges: 8, oversubscription: 1.0 },
            uplinks: Uplinks::Hashed,
        }
    }
}

/// One GPU, counted through all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpu(pub u32);

/// The kind of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortName {
    /// A card of a server, outwards.
    CardOut(u32, u32),
    /// A card of a server, inwards.
    CardIn(u32, u32),
    /// A GPU's NVLink, outwards.
    NvlinkOut(Gpu),
    /// A GPU's NVLink, inwards.
    NvlinkIn(Gpu),
    /// From a leaf or edge switch upwards, and which of its uplinks.
    Up(u32, u32),
    /// Down to a leaf or edge switch, and which of its uplinks.
    Down(u32, u32),
    /// From a pod to the cores, and which of its links.
    PodUp(u32, u32),
    /// Down to a pod, and which of its links.
    PodDown(u32, u32),
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortName::CardOut(server, card) => write!(f, "server {server} card {card} out"),
            PortName::CardIn(server, card) => write!(f, "server {server} card {card} in"),
            PortName::NvlinkOut(gpu) => write!(f, "gpu {} nvlink out", gpu.0),
            PortName::NvlinkIn(gpu) => write!(f, "gpu {} nvlink in", gpu.0),
            PortName::Up(switch, nth) => write!(f, "edge {switch} up {nth}"),
            PortName::Down(switch, nth) => write!(f, "edge {switch} down {nth}"),
            PortName::PodUp(pod, nth) => write!(f, "pod {pod} up {nth}"),
            PortName::PodDown(pod, nth) => write!(f, "pod {pod} down {nth}"),
        }
    }
}

/// Ports with their rates and names, and paths over them.
#[derive(Clone, Debug)]
pub struct Topology {
    cluster: Cluster,
    rates: Vec<f64>,
    names: Vec<PortName>,
    /// First port of each kind.
    nvlink: u32,
    up: u32,
    pod_up: u32,
    /// Uplinks of an edge switch and of a pod, as ports.
    edge_links: u32,
    pod_links: u32,
    edge_servers: u32,
    pod_edges: u32,
}

impl Topology {
    /// Lays out the ports of a cluster.
    ///
    /// # Errors
    /// If a field is out of range; the error names the first one.
    pub fn new(cluster: Cluster) -> Result<Topology, TopologyError> {
        check(&cluster)?;
        let mut all = Topology {
            cluster,
            rates: Vec::new(),
            names: Vec::new(),
            nvlink: 0,
            up: 0,
            pod_up: 0,
            edge_links: 0,
            pod_links: 0,
            edge_servers: cluster.servers,
            pod_edges: 1,
        };
        for server in 0..cluster.servers {
            for card in 0..cluster.cards {
                all.push(PortName::CardOut(server, card), cluster.card_rate);
                all.push(PortName::CardIn(server, card), cluster.card_rate);
            }
        }
        all.nvlink = all.rates.len() as u32;
        for gpu in 0..cluster.servers * cluster.gpus {
            all.push(PortName::NvlinkOut(Gpu(gpu)), cluster.nvlink_rate);
            all.push(PortName::NvlinkIn(Gpu(gpu)), cluster.nvlink_rate);
        }
        match cluster.shape {
            Shape::SingleSwitch => {}
            Shape::LeafSpine { leaf_servers, oversubscription } => {
                (all.edge_servers, all.pod_edges) = (leaf_servers, u32::MAX);
                all.tiers(oversubscription, false);
            }
            Shape::FatTree { edge_servers, pod_edges, oversubscription } => {
                (all.edge_servers, all.pod_edges) = (edge_servers, pod_edges);
                all.tiers(oversubscription, true);
            }
        }
        Ok(all)
    }

    /// Ports above the cards.
    fn tiers(&mut self, oversubscription: f64, pods: bool) {
        let Cluster { servers, cards, card_rate, uplinks, .. } = self.cluster;
        let below = f64::from(self.edge_servers * cards) / oversubscription;
        // Links are whole, so the oversubscription is the nearest that their number allows.
        let (links, rate) = match uplinks {
            Uplinks::Hashed => (libm::round(below).max(1.0) as u32, card_rate),
            Uplinks::Pooled => (1, below * card_rate),
        };
        let edges = servers.div_ceil(self.edge_servers);
        self.edge_links = links;
        self.up = self.rates.len() as u32;
        for edge in 0..edges {
            for nth in 0..links {
                self.push(PortName::Up(edge, nth), rate);
                self.push(PortName::Down(edge, nth), rate);
            }
        }
        self.pod_up = self.rates.len() as u32;
        if !pods {
            return;
        }
        let (pod_links, rate) = match uplinks {
            Uplinks::Hashed => (links * self.pod_edges, card_rate),
            Uplinks::Pooled => (1, rate * f64::from(self.pod_edges)),
        };
        self.pod_links = pod_links;
        for pod in 0..edges.div_ceil(self.pod_edges) {
            for nth in 0..pod_links {
                self.push(PortName::PodUp(pod, nth), rate);
                self.push(PortName::PodDown(pod, nth), rate);
            }
        }
    }

    fn push(&mut self, name: PortName, rate: f64) {
        self.names.push(name);
        self.rates.push(rate);
        assert!(self.names.len() == self.rates.len(), "every port has a name and a rate");
    }

    /// Rates of all ports, bytes a second.
    #[must_use]
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// The kind of a port.
    #[must_use]
    pub fn name(&self, port: PortId) -> Option<PortName> {
        self.names.get(port.index()).copied()
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// GPUs of the cluster.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.cluster.servers * self.cluster.gpus
    }

    /// The port by which a GPU's bytes leave its server.
    #[must_use]
    pub fn card_out(&self, gpu: Gpu) -> PortId {
        assert!(gpu.0 < self.gpus(), "the cluster has the GPU");
        let (server, nth) = (gpu.0 / self.cluster.gpus, gpu.0 % self.cluster.gpus);
        let card = nth * self.cluster.cards / self.cluster.gpus;
        PortId(2 * (server * self.cluster.cards + card))
    }

    /// The port by which bytes for a GPU enter its server.
    #[must_use]
    pub fn card_in(&self, gpu: Gpu) -> PortId {
        PortId(self.card_out(gpu).0 + 1)
    }

    /// Makes a port slower or faster than the cluster's.
    ///
    /// # Errors
    ///
    /// When there is no such port, or the rate is not positive.
    pub fn set_rate(&mut self, port: PortId, rate: f64) -> Result<(), TopologyError> {
        let most = f64::from(self.rates.len() as u32 - 1);
        let Some(slot) = self.rates.get_mut(port.index()) else {
            let (field, value) = ("port", f64::from(port.0));
            return Err(TopologyError { field, value, least: 0.0, most });
        };
        within("rate of a port", rate, LEAST_RATE, MOST_RATE)?;
        *slot = rate;
        Ok(())
    }

    /// The ports from one GPU to another; `None` if they are the same or not in the cluster. `salt`
    /// identifies the flow: with hashed uplinks, equal salts take equal paths.
    #[must_use]
    pub fn path(&self, from: Gpu, to: Gpu, salt: u64) -> Option<Path> {
        if from == to || from.0.max(to.0) >= self.gpus() {
            return None;
        }
        let (a, b) = (from.0 / self.cluster.gpus, to.0 / self.cluster.gpus);
        if a == b {
            let out = PortId(self.nvlink + 2 * from.0);
            return Path::new(&[out, PortId(self.nvlink + 2 * to.0 + 1)]);
        }
        let (out, into) = (self.card_out(from), self.card_in(to));
        let (edge_a, edge_b) = (a / self.edge_servers, b / self.edge_servers);
        if edge_a == edge_b {
            return Path::new(&[out, into]);
        }
        let hash = mix(mix(salt, u64::from(from.0)), u64::from(to.0));
        let link = (hash % u64::from(self.edge_links)) as u32;
        let up = PortId(self.up + 2 * (edge_a * self.edge_links + link));
        let down = PortId(self.up + 2 * (edge_b * self.edge_links + link) + 1);
        let (pod_a, pod_b) = (edge_a / self.pod_edges, edge_b / self.pod_edges);
        if pod_a == pod_b {
            return Path::new(&[out, up, down, into]);
        }
        // Each uplink of an edge leads to one switch of its pod, which has as many links to the cores
        // as the pod has edges; the core that is reached has one link to the same switch of each pod.
        let cores = self.pod_links / self.edge_links;
        assert!(cores > 0, "a pod has a link to the cores for each uplink of an edge");
        let core = link * cores + ((hash >> 32) % u64::from(cores)) as u32;
        let pod_up = PortId(self.pod_up + 2 * (pod_a * self.pod_links + core));
        let pod_down = PortId(self.pod_up + 2 * (pod_b * self.pod_links + core) + 1);
        Path::new(&[out, up, pod_up, pod_down, down, into])
    }
}

const LEAST_RATE: f64 = 1.0;
const MOST_RATE: f64 = 1e15;

fn within(field: &'static str, value: f64, least: f64, most: f64) -> Result<(), TopologyError> {
    let fits = value >= least && value <= most;
    if fits { Ok(()) } else { Err(TopologyError { field, value, least, most }) }
}

fn check(cluster: &Cluster) -> Result<(), TopologyError> {
    within("servers", f64::from(cluster.servers), 1.0, 65_536.0)?;
    within("gpus", f64::from(cluster.gpus), 1.0, 256.0)?;
    within("cards", f64::from(cluster.cards), 1.0, f64::from(cluster.gpus))?;
    within("card_rate", cluster.card_rate, LEAST_RATE, MOST_RATE)?;
    within("nvlink_rate", cluster.nvlink_rate, LEAST_RATE, MOST_RATE)?;
    let (servers, most) = (f64::from(cluster.servers), 64.0);
    match cluster.shape {
        Shape::SingleSwitch => Ok(()),
        Shape::LeafSpine { leaf_servers, oversubscription } => {
            within("leaf_servers", f64::from(leaf_servers), 1.0, servers)?;
            within("oversubscription", oversubscription, 1.0, most)
        }
        Shape::FatTree { edge_servers, pod_edges, oversubscription } => {
            within("edge_servers", f64::from(edge_servers), 1.0, servers)?;
            within("pod_edges", f64::from(pod_edges), 1.0, servers)?;
            within("oversubscription", oversubscription, 1.0, most)
        }
    }
}

/// Why a cluster cannot be laid out this way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopologyError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: f64,
    /// The smallest allowed value.
    pub least: f64,
    /// The largest allowed value.
    pub most: f64,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TopologyError { field, value, least, most } = self;
        write!(f, "{field} {value} is out of range: use {least} to {most}")
    }
}

impl core::error::Error for TopologyError {}
