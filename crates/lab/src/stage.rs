//! A fleet that is given as data: which engines, gateways and clients stand in which regions, and who
//! knows whom. It is brought up, plays once, and says what all of them counted.
//!
//! Regions are apart by the emulated WAN; within one everything is as near as processes of a machine
//! are. Gateways know each other and their replicas from their files, so nothing changes while it
//! plays.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use meridian_wire::admin::Status;
use meridian_wire::config::Span;
use meridian_wire::wan::LinkSpec;
use tokio::time::Instant;

use crate::cpu::{Busy, Ticks};
use crate::load::Load;
use crate::{
    Certificates, Client, ClientCounts, Counts, Distance, EngineCounts, EngineSpec, Error, Fleet,
    Gateway, GatewaySpec, LoadSpec, PeersSpec, Process, Result, total_of,
};

/// Guard: the longest that a gateway may take to find everybody, and a load to end.
const LIMIT: Duration = Duration::from_secs(300);
/// The longest that the last counters may take to arrive where they are read.
const SETTLE: Duration = Duration::from_secs(10);
/// Between two looks at the gateways.
const TICK: Duration = Duration::from_millis(100);

/// The fleet, and what its clients do.
#[derive(Debug, Clone, Default)]
pub struct Stage {
    /// Names of the regions; others name them by their place here.
    pub regions: Vec<String>,
    /// Round-trip times between them, in ms; the diagonal is not looked at.
    pub rtt_ms: Vec<Vec<f64>>,
    /// Engines, each with its region.
    pub engines: Vec<(usize, EngineSpec)>,
    /// Gateways.
    pub gateways: Vec<Post>,
    /// Clients.
    pub loads: Vec<StageLoad>,
    /// What is not looked at in the beginning.
    pub warmup: Duration,
    /// For how long after that requests are sent.
    pub window: Duration,
}

/// A gateway at its post.
#[derive(Debug, Clone, Default)]
pub struct Post {
    /// Its region.
    pub region: usize,
    /// Its settings; replicas and peers are filled in.
    pub spec: GatewaySpec,
    /// Its replicas, by their place among the engines.
    pub replicas: Vec<usize>,
    /// Its peers, by their place among the gateways.
    pub peers: Vec<usize>,
    /// Between two digests, where that is not the usual.
    pub digests: Option<Duration>,
}

/// Clients of one region.
#[derive(Debug, Clone, Default)]
pub struct StageLoad {
    /// Where they stand.
    pub region: usize,
    /// The gateways that they share their sessions out to.
    pub gateways: Vec<usize>,
    /// Further arguments of `meridian bench`.
    pub args: Vec<String>,
}

/// How it went.
#[derive(Debug)]
pub struct Played {
    /// What clients, gateways and engines counted.
    pub counts: Counts,
    /// A file of records for each load.
    pub records: Vec<PathBuf>,
    /// The processor, while it was looked at.
    pub busy: Busy,
}

/// Everything that runs.
struct World {
    // In this order they are dropped.
    loads: Vec<Load>,
    gateways: Vec<Gateway>,
    distance: Option<Distance>,
    engines: Vec<Process>,
}

impl Stage {
    /// Brings it up, lets it play, and reads all counts when everything is at rest. The records lie
    /// in the fleet's directory.
    ///
    /// # Errors
    /// When a process does not start or ends early, or something does not come to rest.
    pub async fn play(&self, fleet: &Fleet) -> Result<Played> {
        let mut world = self.bring_up(fleet).await?;
        let client = Client::new();
        self.all_up(&client, &world).await?;
        let mut records = Vec::new();
        for (at, load) in self.loads.iter().enumerate() {
            records.push(fleet.dir().join(format!("load-{at}.records")));
            let spec = self.load_spec(load, at, &world, &records[at]);
            world.loads.push(fleet.load(&format!("load-{at}"), &spec).await?);
        }
        let start = Instant::now();
        tokio::time::sleep_until(start + self.warmup).await;
        let before = Ticks::now(world.ids())?;
        tokio::time::sleep_until(start + self.warmup + self.window).await;
        let busy = Ticks::now(world.ids())?.since(before);
        let mut clients = ClientCounts::default();
        for load in &mut world.loads {
            clients = clients + load.report(LIMIT).await?.counts;
        }
        let counts = world.settle(&client, &clients).await?;
        for gateway in &mut world.gateways {
            gateway.process.terminate();
        }
        Ok(Played { counts, records, busy })
    }

    async fn bring_up(&self, fleet: &Fleet) -> Result<World> {
        let mut engines = Vec::new();
        for (at, (_, spec)) in self.engines.iter().enumerate() {
            engines.push(fleet.engine(&format!("engine-{at}"), spec).await?);
        }
        let routes = self.routes();
        let distance = match routes.is_empty() {
            true => None,
            false => Some(fleet.distance(&routes, self.links()).await?),
        };
        let has_peers = self.gateways.iter().any(|post| !post.peers.is_empty());
        let certificates = match has_peers {
            true => {
                let named = |(at, post): (usize, &Post)| (gateway(at), self.name(post.region));
                let all: Vec<_> = self.gateways.iter().enumerate().map(named).collect();
                Some(fleet.certificates(&all).await?)
            }
            false => None,
        };
        let mut world = World { loads: Vec::new(), gateways: Vec::new(), distance, engines };
        for (at, post) in self.gateways.iter().enumerate() {
            world.lead_to_replicas(self, at).await?;
            let spec = self.gateway_spec(at, post, &world, certificates.as_ref());
            world.gateways.push(fleet.gateway(&gateway(at), &spec).await?);
        }
        world.lead_to_gateways(self).await?;
        Ok(world)
    }

    fn name(&self, region: usize) -> String {
        self.regions[region].clone()
    }

    /// Who reaches whom in another region: name, from and to.
    fn routes(&self) -> Vec<(String, String, String)> {
        let mut routes = Vec::new();
        let mut add = |name: String, from: usize, to: usize| {
            if from != to {
                routes.push((name, self.name(from), self.name(to)));
            }
        };
        for (at, post) in self.gateways.iter().enumerate() {
            for replica in &post.replicas {
                add(to_replica(at, *replica), post.region, self.engines[*replica].0);
            }
            for peer in &post.peers {
                add(to_peer(at, *peer), post.region, self.gateways[*peer].region);
            }
        }
        for (at, load) in self.loads.iter().enumerate() {
            for to in &load.gateways {
                add(to_gateway(at, *to), load.region, self.gateways[*to].region);
            }
        }
        routes
    }

    fn links(&self) -> Vec<LinkSpec> {
        let all = 0..self.regions.len();
        let pairs = all.clone().flat_map(|from| all.clone().map(move |to| (from, to)));
        let link = |(from, to): (usize, usize)| LinkSpec {
            from: self.name(from),
            to: self.name(to),
            delay: Some(Span(Duration::from_secs_f64(self.rtt_ms[from][to] / 2e3))),
            jitter: Span(Duration::ZERO),
            rate: Default::default(),
        };
        pairs.filter(|(from, to)| from != to).map(link).collect()
    }

    fn gateway_spec(
        &self,
        at: usize,
        post: &Post,
        world: &World,
        certificates: Option<&Certificates>,
    ) -> GatewaySpec {
        let url = |replica: &usize| match world.way(&to_replica(at, *replica)) {
            Some(door) => format!("http://{door}"),
            None => world.engines[*replica].said(0).to_owned(),
        };
        let peer = |peer: &usize| {
            let there = &self.gateways[*peer];
            Some((gateway(*peer), self.name(there.region), world.way(&to_peer(at, *peer))?))
        };
        let peers = certificates.map(|certificates| {
            let (certificate, key) = certificates.of(&gateway(at));
            PeersSpec {
                listen: "127.0.0.1:0".into(),
                files: [certificates.ca(), certificate, key],
                gateways: post.peers.iter().filter_map(peer).collect(),
                digests: post.digests,
            }
        });
        GatewaySpec {
            region: self.name(post.region),
            replicas: post.replicas.iter().map(url).collect(),
            peers: peers.filter(|peers| !peers.gateways.is_empty()),
            ..post.spec.clone()
        }
    }

    fn load_spec(
        &self,
        load: &StageLoad,
        at: usize,
        world: &World,
        records: &std::path::Path,
    ) -> LoadSpec {
        let url = |to: &usize| match world.way(&to_gateway(at, *to)) {
            Some(door) => format!("http://{door}"),
            None => world.gateways[*to].url.clone(),
        };
        let mut urls = load.gateways.iter().map(url);
        let url = urls.next().unwrap_or_default();
        let mut args = load.args.clone();
        args.extend(["--records".to_owned(), records.display().to_string()]);
        args.extend(urls.flat_map(|url| ["--also".to_owned(), url]));
        LoadSpec { url, duration: self.warmup + self.window, args }
    }

    /// Waits until each gateway has found its replicas and its peers.
    async fn all_up(&self, client: &Client, world: &World) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        for (post, gateway) in self.gateways.iter().zip(&world.gateways) {
            loop {
                let status = status(client, gateway).await?;
                let replicas = status.replicas.iter().filter(|r| r.state == "up").count();
                let peers = status.peers.iter().filter(|p| p.state == "up").count();
                if (replicas, peers) == (post.replicas.len(), post.peers.len()) {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(Error::TooSlow {
                        name: gateway.process.name().to_owned(),
                        what: "find all replicas and peers up".into(),
                        limit: LIMIT,
                        log: gateway.process.log_tail(),
                    });
                }
                tokio::time::sleep(TICK).await;
            }
        }
        Ok(())
    }
}

impl World {
    /// Where a way to another region begins; none within a region.
    fn way(&self, route: &str) -> Option<SocketAddr> {
        self.distance.as_ref()?.door(route)
    }

    /// Leads the ways that a gateway will take to its replicas.
    async fn lead_to_replicas(&self, stage: &Stage, at: usize) -> Result<()> {
        for replica in &stage.gateways[at].replicas {
            self.lead(&to_replica(at, *replica), address(self.engines[*replica].said(0))).await?;
        }
        Ok(())
    }

    /// Leads the ways to gateways, once they are there.
    async fn lead_to_gateways(&self, stage: &Stage) -> Result<()> {
        for (at, post) in stage.gateways.iter().enumerate() {
            for peer in &post.peers {
                self.lead(&to_peer(at, *peer), self.gateways[*peer].peers).await?;
            }
        }
        for (at, load) in stage.loads.iter().enumerate() {
            for to in &load.gateways {
                self.lead(&to_gateway(at, *to), address(&self.gateways[*to].url)).await?;
            }
        }
        Ok(())
    }

    async fn lead(&self, route: &str, target: Option<SocketAddr>) -> Result<()> {
        match (&self.distance, target, self.way(route)) {
            (Some(distance), Some(target), Some(_)) => distance.leads_to(route, target).await,
            _ => Ok(()),
        }
    }

    fn ids(&self) -> Vec<u32> {
        let gateways = self.gateways.iter().map(|gateway| &gateway.process);
        let loads = self.loads.iter().map(|load| &load.process);
        let wan = self.distance.iter().map(|distance| &distance.process);
        self.engines
            .iter()
            .chain(gateways)
            .chain(loads)
            .chain(wan)
            .filter_map(Process::id)
            .collect()
    }

    /// Reads the counts once they are at rest. What differs at the end of a bounded wait, differs.
    async fn settle(&self, client: &Client, clients: &ClientCounts) -> Result<Counts> {
        let deadline = Instant::now() + SETTLE;
        loop {
            let mut seen = Vec::new();
            for gateway in &self.gateways {
                seen.push(status(client, gateway).await?);
            }
            let all = total_of(&seen.iter().collect::<Vec<_>>());
            let engines = self.engines.iter().map(|engine| engine.said(0));
            let engines = EngineCounts::ask(client, engines).await?;
            let counts = Counts::new(Some(clients), &all, &engines);
            if counts.disagreements().is_empty() || Instant::now() >= deadline {
                return Ok(counts);
            }
            tokio::time::sleep(TICK).await;
        }
    }
}

async fn status(client: &Client, gateway: &Gateway) -> Result<Status> {
    client.json(&format!("{}/admin/status", gateway.admin)).await
}

fn address(url: &str) -> Option<SocketAddr> {
    url.trim_start_matches("http://").parse().ok()
}

fn gateway(at: usize) -> String {
    format!("gateway-{at}")
}

fn to_replica(gateway: usize, replica: usize) -> String {
    format!("gateway-{gateway}-engine-{replica}")
}

fn to_peer(gateway: usize, peer: usize) -> String {
    format!("gateway-{gateway}-gateway-{peer}")
}

fn to_gateway(load: usize, gateway: usize) -> String {
    format!("load-{load}-gateway-{gateway}")
}
