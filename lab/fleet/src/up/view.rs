//! The data for the page: the state of everything, as JSON. Each region's gateway reports its own, and
//! this file puts them together with the processes, the clients and the links.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use meridian_protocol::admin::{PageState, Point, Snapshot};
use meridian_wan::config as wan;
use serde::Serialize;

use super::Options;
use super::beside::Second;
use super::hours::{KEPT, Shown};
use super::side_row::SideRow;
use super::world::World;
use crate::Live;
use crate::page::Seen;

/// Points of an event that is not the first of its stream.
const NEWEST: usize = 6;

/// The whole state.
#[derive(Serialize)]
struct ViewState<'a> {
    /// Seconds since the start.
    t_s: f64,
    /// The time, in seconds since 1970.
    now_s: f64,
    build: &'a str,
    topology: &'a str,
    regions: Vec<OfRegion<'a>>,
    links: &'a [wan::Link],
    /// Faults and repairs, newest first.
    orders: &'a [String],
    beside: Option<Other<'a>>,
    #[serde(skip_serializing_if = "<[SideRow]>::is_empty")]
    sides: &'a [SideRow],
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
    /// Whether it has a gateway of its own.
    own_gateway: bool,
    /// Its gateway's state; none while that does not answer.
    page: Option<&'a PageState>,
    points: Vec<Point>,
    clients: Option<&'a Live>,
    replicas: Vec<OfReplica<'a>>,
}

#[derive(Serialize)]
struct OfReplica<'a> {
    name: &'a str,
    url: &'a str,
    alive: bool,
}

impl World {
    pub(super) async fn state(
        &mut self,
        elapsed: Duration,
        options: &Options,
        seen: &[Seen],
    ) -> Shown {
        let pages = self.pages().await;
        let links = match &self.distance {
            Some(distance) => distance.state().await.map(|s| s.links).unwrap_or_default(),
            None => Vec::new(),
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a date for people, the end of the time axis"
        )]
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let json = |most: usize| {
            let state = ViewState {
                t_s: elapsed.as_secs_f64(),
                now_s: now.as_secs_f64(),
                build: pages.iter().flatten().next().map_or("", |page| &page.build),
                topology: &options.topology,
                regions: self.regions_of(seen, &pages, most),
                links: &links,
                orders: &self.orders,
                beside: options.beside.as_ref().and_then(|beside| {
                    beside.at(elapsed).map(|now| Other { name: &beside.name, now })
                }),
                sides: &self.sides,
            };
            Bytes::from(serde_json::to_vec(&state).expect("the state always serializes"))
        };
        let answering = self.regions.iter().filter_map(|region| {
            region.answering().map(|gateway| (region.name.clone(), gateway.admin.clone()))
        });
        Shown { whole: json(KEPT), newest: json(NEWEST), admins: Arc::new(answering.collect()) }
    }

    fn regions_of<'a>(
        &'a self,
        seen: &'a [Seen],
        pages: &'a [Option<PageState>],
        most: usize,
    ) -> Vec<OfRegion<'a>> {
        let all = self.regions.iter().zip(seen).zip(pages);
        let one =
            |((region, seen), page): ((&'a super::region::Region, &'a Seen), &'a Option<_>)| {
                let replica = |r: &'a super::region::Replica| OfReplica {
                    name: &r.name,
                    url: &r.url,
                    alive: r.answers(),
                };
                OfRegion {
                    name: &region.name,
                    own_gateway: region.spec.is_some(),
                    page: page.as_ref(),
                    points: self.hours.last(&region.name, most),
                    clients: seen.live.as_ref(),
                    replicas: region.replicas.iter().map(replica).collect(),
                }
            };
        all.map(one).collect()
    }

    /// The states of the gateways, by region; keeps their new points.
    pub(super) async fn pages(&mut self) -> Vec<Option<PageState>> {
        let mut pages = Vec::new();
        for region in &self.regions {
            let since = self.hours.newest(&region.name);
            let page: Option<Snapshot> = match region.answering() {
                Some(gateway) => {
                    let url = format!("{}/admin/page?since={since}", gateway.admin);
                    self.client.json(&url).await.ok()
                }
                None => None,
            };
            pages.push(page.map(|Snapshot { state, points }| {
                self.hours.keep(&region.name, points);
                state
            }));
        }
        pages
    }
}
