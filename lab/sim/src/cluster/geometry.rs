//! The placement of replicas, and the ports that their transfers cross.
//!
//! The GPUs of a tensor-parallel rank do the same work at the same time, each with a share of the
//! heads and its own card. Such lanes are folded together as far as all pools' degrees allow: with
//! one model of degree 4 on servers of 8 GPUs, a server is simulated as 2 GPUs with 2 cards, and
//! every flow represents 4. If cards are shared, or degrees differ, fewer lanes fold together. With
//! tensor-parallel attention all GPUs of a server are lanes, since they send and receive the same.
//!
//! A switch that spreads flows over all its uplinks, with as much rate above as below, is never
//! full before the cards below it. Its ports are left out of all paths.

use std::collections::BTreeMap;

use meridian_base::{PortId, mix};
use meridian_fabric::{self as fabric, Gpu, Path, PortName, Shape, Topology, Uplinks};
use meridian_flow::Ports;

use super::setup::{Impossible, Pool, Setup};

/// A replica's GPUs in the simulated cluster: lane by lane of rank by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    first: u32,
    lanes: u32,
}

impl Site {
    pub(crate) fn gpu(self, rank: u32, lane: u32) -> Gpu {
        Gpu(self.first + rank * self.lanes + lane)
    }
}

/// The simulated cluster.
#[derive(Debug)]
pub(crate) struct Geometry {
    pub(crate) topology: Topology,
    /// GPUs that one simulated GPU represents.
    pub(crate) fold: u32,
    /// Whether only cards can be full.
    open: bool,
    /// By pool: prefill replicas, then decode replicas.
    pub(crate) prefill: Vec<Vec<Site>>,
    pub(crate) decode: Vec<Vec<Site>>,
}

/// Lanes that fold together.
#[must_use]
pub fn fold(cluster: &fabric::Cluster, pools: &[Pool]) -> u32 {
    let all = pools.iter().map(|pool| pool.alike(cluster.gpus));
    all.fold(gcd(cluster.gpus, cluster.cards), gcd).max(1)
}

fn open(setup: &Setup) -> bool {
    let above = match setup.fabric.shape {
        Shape::SingleSwitch => 1.0,
        Shape::LeafSpine { oversubscription, .. } | Shape::FatTree { oversubscription, .. } => {
            oversubscription
        }
    };
    let slower = setup.cards.iter().all(|card| card.2 <= setup.fabric.card_rate);
    setup.fabric.uplinks == Uplinks::Pooled && above <= 1.0 && slower
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Geometry {
    pub(crate) fn new(setup: &Setup) -> Result<Geometry, Impossible> {
        // The real cluster must be possible, not only the simulated one.
        let whole = Topology::new(setup.fabric)?;
        for pool in &setup.pools {
            pool.check(setup.fabric.gpus)?;
        }
        let fold = fold(&setup.fabric, &setup.pools);
        let (gpus, cards) = (setup.fabric.gpus / fold, setup.fabric.cards / fold);
        let mut topology = Topology::new(fabric::Cluster { gpus, cards, ..setup.fabric })?;
        for &(server, card, rate) in &setup.cards {
            let gpu = Gpu(server * gpus + card / fold * (gpus / cards));
            for port in [topology.card_out(gpu), topology.card_in(gpu)] {
                topology.set_rate(port, rate)?;
            }
        }
        let mut sites = Sites { fold, per_server: gpus, next: 0 };
        let mut place = |count: fn(&Pool) -> u32| -> Vec<Vec<Site>> {
            let of = |pool: &Pool| (0..count(pool)).map(|_| sites.take(pool)).collect();
            setup.pools.iter().map(of).collect()
        };
        let (prefill, decode) = (place(|pool| pool.prefill), place(|pool| pool.decode));
        let needed = u64::from(sites.next) * u64::from(fold);
        let there = u64::from(whole.gpus());
        if needed > there {
            return Err(Impossible::TooSmall { needed, there });
        }
        let open = open(setup);
        Ok(Geometry { topology, fold, open, prefill, decode })
    }

    /// The server of each port, 0 for those of switches, where no flow starts.
    pub(crate) fn servers(&self) -> Vec<u32> {
        let ports = (0..self.topology.rates().len() as u32).map(PortId);
        let server = |port| match self.topology.name(port) {
            Some(PortName::CardOut(server, _) | PortName::CardIn(server, _)) => server,
            Some(PortName::NvlinkOut(gpu) | PortName::NvlinkIn(gpu)) => self.server(gpu),
            _ => 0,
        };
        ports.map(server).collect()
    }

    /// The port by which a GPU's bytes leave its server.
    pub(crate) fn out(&self, gpu: Gpu) -> PortId {
        self.topology.card_out(gpu)
    }

    /// Simulated GPUs that each request uses, from the first of its rank on.
    pub(crate) fn gpus_of_request(&self, pool: &Pool) -> u32 {
        pool.spread() * pool.tensor / self.fold
    }

    /// GPUs of a server of the real cluster.
    pub(crate) fn gpus_of_server(&self) -> u32 {
        self.topology.cluster().gpus * self.fold
    }

    pub(crate) fn server(&self, gpu: Gpu) -> u32 {
        gpu.0 / self.topology.cluster().gpus
    }

    /// The path of KV from one GPU to another, `None` if it stays.
    pub(crate) fn path(&self, from: Gpu, to: Gpu, salt: u64) -> Option<Path> {
        self.way(from, to, mix(salt, 0x6B76))
    }

    fn way(&self, from: Gpu, to: Gpu, salt: u64) -> Option<Path> {
        let path = self.topology.path(from, to, salt)?;
        let ends = [path.ports()[0], *path.ports().last()?];
        if self.open { Path::new(&ends) } else { Some(path) }
    }

    /// From each rank to the next, if that is in another server.
    pub(crate) fn ring(&self, site: Site, ranks: u32) -> Vec<Rail> {
        let mut rails = Vec::new();
        for from in 0..ranks {
            let to = (from + 1) % ranks;
            for lane in 0..site.lanes {
                let (near, far) = (site.gpu(from, lane), site.gpu(to, lane));
                if self.server(near) != self.server(far) {
                    let path = self.way(near, far, u64::from(site.first));
                    let path = path.expect("GPUs of two servers have a path");
                    rails.push(Rail { from: vec![from], to, path });
                }
            }
        }
        rails
    }

    /// From each GPU to the one at the same position in the replica's next server, if it has
    /// several.
    pub(crate) fn server_ring(&self, site: Site, pool: &Pool) -> Vec<Rail> {
        let (gpus, server) = (pool.gpus() / self.fold, self.topology.cluster().gpus);
        let rank = |nth: u32| nth * self.fold / pool.tensor;
        let rail = |near: u32| {
            let far = (near + server) % gpus;
            let [a, b] = [near, far].map(|nth| Gpu(site.first + nth));
            let path = self.way(a, b, u64::from(site.first));
            let path = path.expect("GPUs of two servers have a path");
            Rail { from: vec![rank(near)], to: rank(far), path }
        };
        (0..gpus).filter(|_| gpus > server).map(rail).collect()
    }

    /// The ways of an exchange between the servers of a replica. Traffic from any GPU of a server
    /// to one of another first crosses NVLink to the card at the same position as the other's
    /// (NCCL's PXN), so all of it is one flow.
    pub(crate) fn rails(&self, site: Site, ranks: u32) -> Vec<Rail> {
        let gpus = (site.first..site.first + ranks * site.lanes).map(Gpu);
        let mut servers: BTreeMap<u32, Vec<Gpu>> = BTreeMap::new();
        gpus.for_each(|gpu| servers.entry(self.server(gpu)).or_default().push(gpu));
        let rank = |gpu: &Gpu| (gpu.0 - site.first) / site.lanes;
        let mut rails = Vec::new();
        for from in servers.values() {
            for to in servers.values().filter(|to| *to != from) {
                for (near, far) in from.iter().zip(to) {
                    let salt = u64::from(site.first);
                    let path = self.way(*near, *far, salt);
                    let path = path.expect("GPUs of two servers have a path");
                    let mut from: Vec<u32> = from.iter().map(rank).collect();
                    from.dedup();
                    rails.push(Rail { from, to: rank(far), path });
                }
            }
        }
        rails
    }
}

/// One flow of an exchange: from ranks of a server to a GPU of a rank elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Rail {
    pub(crate) from: Vec<u32>,
    pub(crate) to: u32,
    pub(crate) path: Path,
}

/// The ports that the flow machine uses: a card at each end, and the switches next to them. Ports
/// between pods are as fast as all that lead to them.
pub(crate) fn ports(path: &Path) -> Ports {
    let all = path.ports();
    let mut few: Vec<PortId> = all.to_vec();
    if all.len() > Ports::MOST {
        few = [&all[..2], &all[all.len() - 2..]].concat();
    }
    Ports::new(&few).expect("four ports at most")
}

/// Allocates GPUs: whole servers, or even parts of one.
struct Sites {
    fold: u32,
    per_server: u32,
    next: u32,
}

impl Sites {
    fn take(&mut self, pool: &Pool) -> Site {
        let gpus = pool.gpus() / self.fold;
        let align = gpus.min(self.per_server);
        let first = self.next.div_ceil(align) * align;
        self.next = first + gpus;
        Site { first, lanes: pool.tensor / self.fold }
    }
}
