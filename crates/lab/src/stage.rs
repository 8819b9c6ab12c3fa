//! A fleet that is given as data: which engines, gateways and clients stand in which regions, and who
//! knows whom. It is brought up, plays once, and says what all of them counted.
//!
//! Regions are apart by the emulated WAN; within one everything is as near as processes of a machine
//! are. Gateways know each other and their replicas from their files, so nothing changes while it
//! plays.

mod world;

use std::path::PathBuf;
use std::time::Duration;

use meridian_wire::config::Span;
use meridian_wire::wan::LinkSpec;
use tokio::time::Instant;

use self::world::World;
use crate::cpu::{Busy, Ticks};
use crate::{Client, ClientCounts, Counts, EngineSpec, Fleet, GatewaySpec, Result};

/// Guard: the longest that a gateway may take to find everybody, and a load to end.
const LIMIT: Duration = Duration::from_secs(600);

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

impl Stage {
    /// Brings it up, lets it play, and reads all counts when everything is at rest. The records lie
    /// in the fleet's directory.
    ///
    /// # Errors
    /// When a process does not start or ends early, or something does not come to rest.
    pub async fn play(&self, fleet: &Fleet) -> Result<Played> {
        let mut world = World::of(self, fleet).await?;
        let client = Client::new();
        world.all_up(self, &client).await?;
        let mut records = Vec::new();
        for (at, load) in self.loads.iter().enumerate() {
            records.push(fleet.dir().join(format!("load-{at}.records")));
            let spec = world.load_spec(self, load, at, &records[at]);
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
