//! The topology: servers with their GPUs and cards, access switches, the core, and all links.
//!
//! Each unit of servers has its own access switches; a server's card `i` goes to access switch `i`
//! modulo their number, so several access switches form as many rails. Above them is a core that
//! every access switch reaches evenly: its switches spread packets over all paths, so an access
//! switch has one uplink of the summed rate. A link has two directions, each with its own rate.
//!
//! It deliberately has no core of unequal parts and no failed links: a topology describes the
//! hardware to plan for.

use meridian_engine::{Efficiency, Gpu};

/// One GPU, counted through all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuId(pub u32);

/// One direction of a link, counted through the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// The kind of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkName {
    /// A GPU's NVLink, outwards or inwards.
    Nvlink(GpuId, Direction),
    /// A GPU's PCIe, outwards or inwards.
    Pcie(GpuId, Direction),
    /// Between the two halves of a server: out of the first NUMA node, or into it.
    Socket(u32, Direction),
    /// A card of a server: server, card.
    Card(u32, u32, Direction),
    /// An access switch's uplinks to the core.
    Uplink(u32, Direction),
}

impl LinkName {
    /// Its direction.
    #[must_use]
    pub const fn way(self) -> Direction {
        match self {
            LinkName::Nvlink(_, way)
            | LinkName::Pcie(_, way)
            | LinkName::Socket(_, way)
            | LinkName::Card(_, _, way)
            | LinkName::Uplink(_, way) => way,
        }
    }
}

/// The direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Away from the GPU.
    Out,
    /// Towards the GPU.
    In,
}

/// In-network aggregation, if a switch supports it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregation {
    /// Time of an empty all-reduce through it, in seconds.
    pub latency: f64,
    /// Bytes a second of its slots per port.
    pub rate: f64,
}

/// A network card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Card {
    /// Bytes a second, each direction.
    pub rate: f64,
    /// Its access switch.
    pub access: u32,
    /// The NUMA node that it is attached to.
    pub numa: u8,
}

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: u32,
    /// Its GPUs' kind, including the memory size that the topology sets.
    pub kind: Gpu,
    /// Its first GPU.
    pub first: u32,
    /// How many GPUs.
    pub gpus: u32,
    /// The NUMA node of each.
    pub numa: Vec<u8>,
    /// NVLink's bytes a second of each GPU, in each direction; `None` without.
    pub nvlink: Option<f64>,
    /// PCIe's bytes a second of each GPU, in each direction.
    pub pcie: f64,
    /// Bytes a second between NUMA nodes, in each direction.
    pub socket: f64,
    /// Its cards.
    pub cards: Vec<Card>,
    /// Its first link.
    links: u32,
}

/// An access switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Its unit.
    pub unit: u32,
    /// Bytes a second to the core, in each direction; 0 without a core.
    pub uplink: f64,
    /// Its in-network aggregation.
    pub aggregation: Option<Aggregation>,
}

/// The core.
#[derive(Clone, Debug, PartialEq)]
pub struct Core {
    /// Its switches.
    pub switches: u32,
    /// Their in-network aggregation.
    pub aggregation: Option<Aggregation>,
}

/// A topology.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Its name.
    pub name: String,
    servers: Vec<Server>,
    access: Vec<Access>,
    core: Option<Core>,
    links: Vec<(LinkName, f64)>,
    first_uplink: u32,
    /// For each GPU: its server, and the card that its bytes leave by.
    home: Vec<u32>,
    own_card: Vec<Option<u32>>,
}

/// Share of a card's line rate that a transfer reaches; for NVLink and PCIe each GPU's own fitted
/// share applies.
pub const CARD_SHARE: f64 = 0.9;

impl Topology {
    /// Lays out the links. The servers' `first` is set here.
    pub(crate) fn new(
        name: String,
        servers: Vec<Server>,
        access: Vec<Access>,
        core: Option<Core>,
    ) -> Topology {
        let mut all = Topology {
            name,
            servers,
            access,
            core,
            links: Vec::new(),
            first_uplink: 0,
            home: Vec::new(),
            own_card: Vec::new(),
        };
        for at in 0..all.servers.len() {
            all.lay(at as u32);
        }
        all.first_uplink = all.links.len() as u32;
        for (at, access) in all.access.iter().enumerate() {
            let name = |way| (LinkName::Uplink(at as u32, way), access.uplink);
            all.links.extend([name(Direction::Out), name(Direction::In)]);
        }
        all
    }

    fn lay(&mut self, at: u32) {
        let server = &mut self.servers[at as usize];
        (server.first, server.links) = (self.home.len() as u32, self.links.len() as u32);
        for gpu in server.first..server.first + server.gpus {
            self.home.push(at);
            self.own_card.push(server.own_card((gpu - server.first) as usize));
            let gpu = GpuId(gpu);
            for way in [Direction::Out, Direction::In] {
                self.links.push((LinkName::Nvlink(gpu, way), server.nvlink.unwrap_or(0.0)));
            }
            for way in [Direction::Out, Direction::In] {
                self.links.push((LinkName::Pcie(gpu, way), server.pcie));
            }
        }
        for way in [Direction::Out, Direction::In] {
            self.links.push((LinkName::Socket(at, way), server.socket));
        }
        for (nth, card) in server.cards.iter().enumerate() {
            for way in [Direction::Out, Direction::In] {
                self.links.push((LinkName::Card(at, nth as u32, way), card.rate));
            }
        }
    }

    /// The servers.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The access switches.
    #[must_use]
    pub fn access(&self) -> &[Access] {
        &self.access
    }

    /// The core, if there is one.
    #[must_use]
    pub fn core(&self) -> Option<&Core> {
        self.core.as_ref()
    }

    /// Number of GPUs.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.home.len() as u32
    }

    /// Every GPU.
    pub fn all_gpus(&self) -> impl Iterator<Item = GpuId> {
        (0..self.gpus()).map(GpuId)
    }

    /// The index of a GPU's server.
    #[must_use]
    pub fn server_of(&self, gpu: GpuId) -> u32 {
        self.home[gpu.0 as usize]
    }

    /// A GPU's server.
    #[must_use]
    pub fn home(&self, gpu: GpuId) -> &Server {
        &self.servers[self.server_of(gpu) as usize]
    }

    /// A GPU's kind.
    #[must_use]
    pub fn kind(&self, gpu: GpuId) -> &Gpu {
        &self.home(gpu).kind
    }

    /// A GPU's name: `server/nth`.
    #[must_use]
    pub fn gpu_name(&self, gpu: GpuId) -> String {
        let home = self.home(gpu);
        format!("{}/{}", home.name, gpu.0 - home.first)
    }

    /// The GPU of a name.
    #[must_use]
    pub fn gpu_named(&self, name: &str) -> Option<GpuId> {
        let (server, nth) = name.rsplit_once('/')?;
        let nth: u32 = nth.parse().ok()?;
        let home = self.servers.iter().find(|one| one.name == server)?;
        (nth < home.gpus).then_some(GpuId(home.first + nth))
    }

    /// Number of links, each direction counted.
    #[must_use]
    pub fn link_count(&self) -> u32 {
        self.links.len() as u32
    }

    /// The name of a link.
    #[must_use]
    pub fn link(&self, id: LinkId) -> LinkName {
        self.links[id.0 as usize].0
    }

    /// A link's rate as the datasheet has it, bytes a second.
    #[must_use]
    pub fn rate(&self, id: LinkId) -> f64 {
        self.links[id.0 as usize].1
    }

    /// The rate that transfers get on a link, bytes a second.
    #[must_use]
    pub fn usable(&self, id: LinkId) -> f64 {
        let (name, rate) = self.links[id.0 as usize];
        let share = match name {
            LinkName::Nvlink(gpu, _) | LinkName::Pcie(gpu, _) => self.kind(gpu).efficiency.link,
            LinkName::Socket(server, _) => self.servers[server as usize].kind.efficiency.link,
            LinkName::Card(..) | LinkName::Uplink(..) => CARD_SHARE,
        };
        rate * share
    }

    /// Every link with its rate, bytes a second.
    pub(crate) fn links(&self) -> impl Iterator<Item = (LinkName, f64)> + '_ {
        self.links.iter().copied()
    }

    /// The same topology with other rates, bytes a second.
    pub(crate) fn with_rates(&self, rate: impl Fn(LinkName, f64) -> f64) -> Topology {
        let mut other = self.clone();
        other.links.iter_mut().for_each(|(name, own)| *own = rate(*name, *own));
        other
    }

    /// The same topology with another rate of one direction of a link, bytes a second.
    #[must_use]
    pub fn with_rate(&self, id: LinkId, rate: f64) -> Topology {
        let mut other = self.clone();
        other.links[id.0 as usize].1 = rate;
        other
    }

    /// The same topology with one link, in both directions, `factor` times as fast.
    #[must_use]
    pub fn faster(&self, id: LinkId, factor: f64) -> Topology {
        let pair = self.link(id).pair();
        self.with_rates(|name, rate| if name.pair() == pair { rate * factor } else { rate })
    }

    /// The same topology with other shares of its GPUs' datasheets, for the servers that `of` gives
    /// some: those of a calibrated engine, say.
    #[must_use]
    pub fn with_efficiency(&self, of: impl Fn(u32) -> Option<Efficiency>) -> Topology {
        let mut other = self.clone();
        for (at, server) in (0..).zip(&mut other.servers) {
            server.kind.efficiency = of(at).unwrap_or(server.kind.efficiency);
        }
        other
    }

    /// A link in words.
    #[must_use]
    pub fn link_text(&self, id: LinkId) -> String {
        let way = |way| if way == Direction::Out { "out" } else { "in" };
        let server = |at: u32| &self.servers[at as usize].name;
        match self.link(id) {
            LinkName::Nvlink(gpu, w) => format!("{} nvlink {}", self.gpu_name(gpu), way(w)),
            LinkName::Pcie(gpu, w) => format!("{} pcie {}", self.gpu_name(gpu), way(w)),
            LinkName::Socket(at, w) => format!("{} socket {}", server(at), way(w)),
            LinkName::Card(at, nth, w) => format!("{} card {nth} {}", server(at), way(w)),
            LinkName::Uplink(at, w) => format!("access {at} uplink {}", way(w)),
        }
    }

    /// Rates of a server's own links: each GPU's NVLink and PCIe, the socket, the cards.
    pub(crate) fn own_rates(&self, server: u32) -> impl Iterator<Item = f64> + '_ {
        let home = &self.servers[server as usize];
        let first = home.links as usize;
        let count = 4 * home.gpus as usize + 2 + 2 * home.cards.len();
        self.links[first..first + count].iter().map(|(_, rate)| *rate)
    }

    pub(crate) fn nvlink(&self, gpu: GpuId, way: Direction) -> LinkId {
        self.of_gpu(gpu, 0, way)
    }

    pub(crate) fn pcie(&self, gpu: GpuId, way: Direction) -> LinkId {
        self.of_gpu(gpu, 2, way)
    }

    fn of_gpu(&self, gpu: GpuId, offset: u32, way: Direction) -> LinkId {
        let home = self.home(gpu);
        LinkId(home.links + 4 * (gpu.0 - home.first) + offset + u32::from(way == Direction::In))
    }

    pub(crate) fn socket(&self, server: u32, way: Direction) -> LinkId {
        let server = &self.servers[server as usize];
        LinkId(server.links + 4 * server.gpus + u32::from(way == Direction::In))
    }

    pub(crate) fn card(&self, server: u32, nth: u32, way: Direction) -> LinkId {
        let server = &self.servers[server as usize];
        LinkId(server.links + 4 * server.gpus + 2 + 2 * nth + u32::from(way == Direction::In))
    }

    pub(crate) fn uplink(&self, access: u32, way: Direction) -> LinkId {
        LinkId(self.first_uplink + 2 * access + u32::from(way == Direction::In))
    }

    /// The card that a GPU's bytes leave by.
    #[must_use]
    pub fn own_card(&self, gpu: GpuId) -> Option<u32> {
        self.own_card[gpu.0 as usize]
    }
}

impl LinkName {
    /// The link without its direction.
    fn pair(self) -> LinkName {
        match self {
            LinkName::Nvlink(gpu, _) => LinkName::Nvlink(gpu, Direction::Out),
            LinkName::Pcie(gpu, _) => LinkName::Pcie(gpu, Direction::Out),
            LinkName::Socket(server, _) => LinkName::Socket(server, Direction::Out),
            LinkName::Card(server, nth, _) => LinkName::Card(server, nth, Direction::Out),
            LinkName::Uplink(access, _) => LinkName::Uplink(access, Direction::Out),
        }
    }
}

impl Server {
    /// A server before its position in a topology is known.
    pub(crate) fn unplaced(name: String, unit: u32, kind: Gpu, gpus: u32) -> Server {
        Server {
            name,
            unit,
            kind,
            first: 0,
            gpus,
            numa: vec![0; gpus as usize],
            nvlink: None,
            pcie: 0.0,
            socket: 0.0,
            cards: Vec::new(),
            links: 0,
        }
    }

    /// The card that its `nth` GPU's bytes leave by: one of its NUMA node if that has any, with
    /// GPUs spread evenly.
    fn own_card(&self, nth: usize) -> Option<u32> {
        let numa = self.numa[nth];
        let any = self.cards.iter().any(|card| card.numa == numa);
        let near = |of: u8| !any || of == numa;
        let gpus = self.numa.iter().filter(|of| near(**of)).count();
        let before = self.numa[..nth].iter().filter(|of| near(**of)).count();
        let mut cards = (0..).zip(&self.cards).filter(|(_, card)| near(card.numa));
        let count = cards.clone().count();
        cards.nth(before * count / gpus.max(1)).map(|(at, _)| at)
    }
}
