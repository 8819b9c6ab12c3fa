//! The data for the page: the state of everything, as JSON.

use std::time::Duration;

use bytes::Bytes;
use meridian_wire::admin::{Decided, Status};
use meridian_wire::wan;
use serde::Serialize;

use super::Options;
use super::beside::Second;
use super::world::World;
use crate::Live;
use crate::page::Seen;

/// Decisions shown per region.
const DECISIONS: usize = 6;

/// The whole state.
#[derive(Serialize)]
struct State<'a> {
    /// Seconds since the start.
    t_s: f64,
    topology: &'a str,
    regions: Vec<OfRegion<'a>>,
    links: Vec<wan::Link>,
    /// Faults and repairs, newest first.
    orders: &'a [String],
    beside: Option<Other<'a>>,
}

/// The expected current results of another arrangement.
#[derive(Serialize)]
struct Other<'a> {
    name: &'a str,
    #[serde(flatten)]
    now: &'a Second,
}

#[derive(Serialize)]
struct OfRegion<'a> {
    name: &'a str,
    status: Option<&'a Status>,
    clients: Option<&'a Live>,
    replicas: Vec<OfReplica<'a>>,
    decisions: Vec<Decided>,
}

#[derive(Serialize)]
struct OfReplica<'a> {
    name: &'a str,
    url: &'a str,
    alive: bool,
}

impl World {
    pub(super) async fn state(&self, elapsed: Duration, options: &Options, seen: &[Seen]) -> Bytes {
        let mut regions = Vec::new();
        for (region, seen) in self.regions.iter().zip(seen) {
            let replica = super::region::Replica::answers;
            regions.push(OfRegion {
                name: &region.name,
                status: seen.status.as_ref(),
                clients: seen.live.as_ref(),
                replicas: region
                    .replicas
                    .iter()
                    .map(|r| OfReplica { name: &r.name, url: &r.url, alive: replica(r) })
                    .collect(),
                decisions: self.decisions(region).await,
            });
        }
        let links = match &self.distance {
            Some(distance) => distance.state().await.map(|s| s.links).unwrap_or_default(),
            None => Vec::new(),
        };
        let beside = options
            .beside
            .as_ref()
            .and_then(|beside| beside.at(elapsed).map(|now| Other { name: &beside.name, now }));
        let (t_s, topology) = (elapsed.as_secs_f64(), &*options.topology);
        let state = State { t_s, topology, regions, links, orders: &self.orders, beside };
        serde_json::to_vec(&state).expect("the state always serializes").into()
    }

    /// The newest decisions; none if the gateway does not answer.
    async fn decisions(&self, region: &super::region::Region) -> Vec<Decided> {
        let Some(gateway) = region.answering() else { return Vec::new() };
        let url = format!("{}/admin/decisions?last={DECISIONS}", gateway.admin);
        self.client.json(&url).await.unwrap_or_default()
    }
}
