//! The running processes of a stage, and the routes between them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use meridian_protocol::admin::{Role, Status};
use tokio::time::Instant;

use super::{LIMIT, Post, Stage, StageLoad, gateway, to_gateway, to_peer, to_replica};
use crate::legs::{KV_SCALE, LegCounts};
use crate::load::Load;
use crate::{
    Certificates, Client, ClientCounts, Counts, Distance, EngineCounts, Error, Fleet, Gateway,
    GatewaySpec, LoadSpec, PeersSpec, Process, Result, total_of,
};

/// Longest wait for the last counter updates.
pub(super) const SETTLE: Duration = Duration::from_secs(10);
/// Interval between two polls of the gateways.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// All running processes.
pub(super) struct World {
    // Dropped in this order.
    pub(super) loads: Vec<Load>,
    pub(super) gateways: Vec<Gateway>,
    distance: Option<Distance>,
    pub(super) engines: Vec<Process>,
}

impl World {
    /// Starts a stage.
    pub(super) async fn of(stage: &Stage, fleet: &Fleet) -> Result<World> {
        let mut engines = Vec::new();
        for (at, (_, spec)) in stage.engines.iter().enumerate() {
            let planned = spec.planned.as_ref().map(|planned| planned.name.clone());
            let name = planned.unwrap_or_else(|| format!("engine-{at}"));
            engines.push(match &stage.llamacpp {
                Some((installed, server)) => fleet.llamacpp(&name, installed, *server).await?,
                None => fleet.engine(&name, spec).await?,
            });
        }
        let routes = stage.routes();
        let distance = match routes.is_empty() {
            true => None,
            false => Some(fleet.distance(&routes, stage.links()).await?),
        };
        let has_peers = stage.gateways.iter().any(|post| !post.peers.is_empty());
        let certificates = match has_peers {
            true => {
                let named = |(at, post): (usize, &Post)| (gateway(at), stage.name(post.region));
                let all: Vec<_> = stage.gateways.iter().enumerate().map(named).collect();
                Some(fleet.certificates(&all).await?)
            }
            false => None,
        };
        let mut world = World { loads: Vec::new(), gateways: Vec::new(), distance, engines };
        for (at, post) in stage.gateways.iter().enumerate() {
            world.lead_to_replicas(stage, at).await?;
            let spec = world.gateway_spec(stage, at, post, certificates.as_ref());
            world.gateways.push(fleet.gateway(&gateway(at), &spec).await?);
        }
        world.lead_to_gateways(stage).await?;
        Ok(world)
    }

    fn gateway_spec(
        &self,
        stage: &Stage,
        at: usize,
        post: &Post,
        certificates: Option<&Certificates>,
    ) -> GatewaySpec {
        let url = |replica: &usize| match self.way(&to_replica(at, *replica)) {
            Some(door) => format!("http://{door}"),
            None => self.engines[*replica].said(0).to_owned(),
        };
        let peer = |peer: &usize| {
            let there = &stage.gateways[*peer];
            Some((gateway(*peer), stage.name(there.region), self.way(&to_peer(at, *peer))?))
        };
        let peers = certificates.map(|certificates| {
            let (certificate, key) = certificates.of(&gateway(at));
            PeersSpec {
                listen: "127.0.0.1:0".into(),
                files: [certificates.ca(), certificate, key],
                gateways: post.peers.iter().filter_map(peer).collect(),
                accept: Vec::new(),
                digests: post.digests,
            }
        });
        let role = |replica: &usize| stage.engines[*replica].1.role;
        let in_pools = post.replicas.iter().filter(|replica| role(replica) != Role::Both);
        GatewaySpec {
            region: stage.name(post.region),
            replicas: post.replicas.iter().map(url).collect(),
            roles: in_pools.map(|replica| (url(replica), role(replica).word())).collect(),
            peers: peers.filter(|peers| !peers.gateways.is_empty()),
            ..post.spec.clone()
        }
    }

    pub(super) fn load_spec(
        &self,
        stage: &Stage,
        load: &StageLoad,
        at: usize,
        records: &Path,
    ) -> LoadSpec {
        let url = |to: &usize| match self.way(&to_gateway(at, *to)) {
            Some(door) => format!("http://{door}"),
            None => self.gateways[*to].url.clone(),
        };
        let mut urls = load.gateways.iter().map(url);
        let url = urls.next().unwrap_or_default();
        let mut args = load.args.clone();
        args.extend(["--records".to_owned(), records.display().to_string()]);
        args.extend(urls.flat_map(|url| ["--also".to_owned(), url]));
        LoadSpec { url, duration: stage.warmup + stage.window, args }
    }

    /// Waits until each gateway has found its replicas and its peers.
    pub(super) async fn all_up(&self, stage: &Stage, client: &Client) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        for (post, gateway) in stage.gateways.iter().zip(&self.gateways) {
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

    /// The address of a route to another region; none within a region.
    fn way(&self, route: &str) -> Option<SocketAddr> {
        self.distance.as_ref()?.door(route)
    }

    /// Sets the targets of the routes to a gateway's replicas.
    async fn lead_to_replicas(&self, stage: &Stage, at: usize) -> Result<()> {
        for replica in &stage.gateways[at].replicas {
            self.lead(&to_replica(at, *replica), address(self.engines[*replica].said(0))).await?;
        }
        Ok(())
    }

    /// Sets the targets of the routes to gateways, once they run.
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

    /// The ids of all processes.
    pub(super) fn ids(&self) -> Vec<u32> {
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

    /// Reads the counts once they are at rest, with the problems of requests with two legs. After a
    /// bounded wait, remaining differences are reported as they are. Prefill engines answer no client.
    pub(super) async fn settle(
        &self,
        stage: &Stage,
        client: &Client,
        clients: &ClientCounts,
    ) -> Result<(Counts, Vec<String>)> {
        let roles = || stage.engines.iter().map(|(_, spec)| spec.role);
        let has_pools = roles().any(|role| role != Role::Both);
        let answering = || self.engines.iter().zip(roles()).filter(|(_, role)| role.answers());
        let deadline = Instant::now() + SETTLE;
        loop {
            let mut seen = Vec::new();
            for gateway in &self.gateways {
                seen.push(status(client, gateway).await?);
            }
            let all = total_of(&seen.iter().collect::<Vec<_>>());
            let urls = answering().map(|(engine, _)| engine.said(0));
            let mut engines = EngineCounts::ask(client, urls).await?;
            engines.cached_tokens = engines.cached_tokens.filter(|_| !has_pools);
            let counts = Counts::new(Some(clients), &all, &engines);
            let faults = match has_pools {
                true => self.legs(stage, client).await?.faults(KV_SCALE),
                false => Vec::new(),
            };
            let is_sound = counts.disagreements().is_empty() && faults.is_empty();
            if is_sound || Instant::now() >= deadline {
                return Ok((counts, faults));
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// The counts of requests with two legs.
    pub(super) async fn legs(&self, stage: &Stage, client: &Client) -> Result<LegCounts> {
        let mut legs = LegCounts::default();
        for gateway in &self.gateways {
            legs.add_gateway(&client.scrape(&gateway.admin).await?);
        }
        for (engine, (_, spec)) in self.engines.iter().zip(&stage.engines) {
            let page = client.scrape(engine.said(0)).await?;
            legs.add_engine(&page, spec.role == Role::Prefill);
        }
        Ok(legs)
    }
}

pub(super) async fn status(client: &Client, gateway: &Gateway) -> Result<Status> {
    client.json(&format!("{}/admin/status", gateway.admin)).await
}

fn address(url: &str) -> Option<SocketAddr> {
    url.trim_start_matches("http://").parse().ok()
}
