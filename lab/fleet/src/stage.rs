//! A fleet described as data: engines, gateways and clients by region, and their connections. It is
//! started, runs once, and returns all parties' counts.
//!
//! The emulated WAN separates the regions; within one, processes are as close as on one machine.
//! Gateways find each other and their replicas in their files, so nothing changes during the run.

mod runs;
mod world;

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use meridian_protocol::units::Span;
use meridian_wan::config::LinkSpec;
use tokio::time::{Instant, timeout_at};

use self::world::World;
use crate::cpu::{Busy, Ticks};
use crate::llamacpp::{self, LlamaCpp, ServerSpec};
use crate::load::Load;
use crate::{Client, ClientCounts, Counts, EngineSpec, Fleet, GatewaySpec, Result};
pub use runs::{Killed, OneRun, PlayedRuns, Runs};

/// Guard: the longest that a gateway may take to find its replicas and peers, and a load to end.
const LIMIT: Duration = Duration::from_secs(600);

/// The fleet and its clients.
#[derive(Debug, Clone, Default)]
pub struct Stage {
    /// Names of the regions; other fields refer to them by index.
    pub regions: Vec<String>,
    /// Round-trip times between them, in ms; the diagonal is ignored.
    pub rtt_ms: Vec<Vec<f64>>,
    /// Engines, each with its region.
    pub engines: Vec<(usize, EngineSpec)>,
    /// Real llama.cpp servers that run in place of all the model engines.
    pub llamacpp: Option<(LlamaCpp, ServerSpec)>,
    /// Gateways.
    pub gateways: Vec<Post>,
    /// Clients.
    pub loads: Vec<StageLoad>,
    /// Warmup that is not measured.
    pub warmup: Duration,
    /// Duration of the measurement after it.
    pub window: Duration,
}

/// A gateway and its connections.
#[derive(Debug, Clone, Default)]
pub struct Post {
    /// Its region.
    pub region: usize,
    /// Its settings; replicas and peers are filled in.
    pub spec: GatewaySpec,
    /// Its replicas, by index of the engines.
    pub replicas: Vec<usize>,
    /// Its peers, by index of the gateways.
    pub peers: Vec<usize>,
    /// Interval between two digests, if not the default.
    pub digests: Option<Duration>,
}

/// Clients of one region.
#[derive(Debug, Clone, Default)]
pub struct StageLoad {
    /// Their region.
    pub region: usize,
    /// The gateways among which they distribute their sessions.
    pub gateways: Vec<usize>,
    /// Further arguments of `meridian bench`.
    pub args: Vec<String>,
}

/// The results of a run.
#[derive(Debug)]
pub struct Played {
    /// The counts of clients, gateways and engines.
    pub counts: Counts,
    /// Problems of requests with two legs, one sentence each.
    pub faults: Vec<String>,
    /// A file of records for each load.
    pub records: Vec<PathBuf>,
    /// CPU use during the measurement.
    pub busy: Busy,
}

impl Stage {
    /// Starts the fleet, runs the loads, and reads all counts when everything is at rest. The
    /// records are in the fleet's directory.
    ///
    /// # Errors
    /// If a process does not start or ends early, or does not come to rest.
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
        let ids = world.ids();
        let before = Ticks::now(ids.clone())?;
        let (clients, busy) = {
            let mut clients = pin!(clients(&mut world.loads));
            // Loads with a fixed number of programs may end earlier.
            let early = timeout_at(start + self.warmup + self.window, &mut clients).await;
            let busy = Ticks::now(ids)?.since(before);
            let clients = match early {
                Ok(clients) => clients?,
                Err(_) => clients.await?,
            };
            (clients, busy)
        };
        let (counts, faults) = world.settle(self, &client, &clients).await?;
        for gateway in &mut world.gateways {
            gateway.process.terminate();
        }
        if self.llamacpp.is_some() {
            for server in std::mem::take(&mut world.engines) {
                llamacpp::end(server).await?;
            }
        }
        Ok(Played { counts, faults, records, busy })
    }

    fn name(&self, region: usize) -> String {
        self.regions[region].clone()
    }

    /// Connections to other regions: name, from and to.
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

/// What all loads counted, when they have ended.
async fn clients(loads: &mut [Load]) -> Result<ClientCounts> {
    let mut clients = ClientCounts::default();
    for load in loads {
        clients = clients + load.report(LIMIT).await?.counts;
    }
    Ok(clients)
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
