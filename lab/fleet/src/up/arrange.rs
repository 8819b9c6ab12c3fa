//! The connections of a run: processes shared by the regions, each gateway's replicas, and the
//! routes between regions.
//!
//! Several regions are linked by the emulated WAN, follow one control plane or three, and identify each
//! other by certificates. If one gateway serves all of them (`central`), its file lists the
//! replicas of all regions, and clients and replicas are as far from it as their regions are. A
//! single region has none of these.

use std::net::{Ipv4Addr, SocketAddr};

use meridian_protocol::admin::Role;
use meridian_wan::config::KNOWN_RTT_MS;

use super::planes::Planes;
use super::region::{Region, Replica, USUAL};
use super::{CENTRAL, Options, names, tenants};
use crate::{Certificates, Distance, Fleet, GatewaySpec, PeersSpec, Result};

/// Processes shared by the regions.
pub(super) struct Shared {
    pub(super) distance: Distance,
    /// None if one gateway serves all regions.
    pub(super) planes: Option<Planes>,
}

impl Shared {
    /// Starts the shared processes, and registers all replicas with the control plane.
    pub(super) async fn start(
        fleet: &Fleet,
        options: &Options,
        regions: &[Region],
    ) -> Result<Shared> {
        let distance = fleet.distance(&routes(regions), Vec::new()).await?;
        if options.topology == CENTRAL {
            return Ok(Shared { distance, planes: None });
        }
        let planes = Planes::start(fleet, options, regions).await?;
        let control = planes.living().expect("they have just started");
        for region in regions {
            for replica in &region.replicas {
                let others = regions.iter().filter(|other| other.name != region.name);
                let way = |from: &Region| (from.name.clone(), way(&distance, from, replica));
                let from = others.map(way).collect();
                let Replica { name, url, role, .. } = replica;
                let role = role.word();
                fleet.add_replica(control, name, (&region.name, url, role), &from).await?;
            }
        }
        Ok(Shared { distance, planes: Some(planes) })
    }
}

/// The settings of a region's gateway; none if another region's serves it.
pub(super) fn gateway(
    options: &Options,
    shared: Option<&Shared>,
    regions: &[Region],
    at: usize,
) -> Option<GatewaySpec> {
    let here = &regions[at];
    let mut spec = GatewaySpec {
        region: here.name.clone(),
        topology: options.topology.clone(),
        policy: options.policy.clone(),
        shadow: options.shadow.clone(),
        listen: if at == 0 && options.usual_port { USUAL.into() } else { "127.0.0.1:0".into() },
        resume: options.resume,
        kv_lease: options.pools.as_ref().map(|_| options.kv_lease),
        further: if tenants::are_there(options) { tenants::config(0) } else { String::new() },
        ..GatewaySpec::default()
    };
    match shared {
        None => {
            for replica in &here.replicas {
                add(&mut spec, replica.url.clone(), replica.role);
            }
        }
        Some(Shared { distance, planes: Some(planes) }) => {
            // Each region is near another one.
            spec.control = planes.urls(at);
            spec.public = options.etcd.then(|| names::gateway(at));
            spec.peers = Some(peers(distance, &planes.certificates, &here.name, regions));
        }
        Some(Shared { planes: None, .. }) if at > 0 => return None,
        Some(Shared { distance, planes: None }) => {
            let url = |there: &Region, replica: &Replica| match there.name == here.name {
                true => replica.url.clone(),
                false => way(distance, here, replica),
            };
            for there in regions {
                for replica in &there.replicas {
                    add(&mut spec, url(there, replica), replica.role);
                }
            }
        }
    }
    Some(spec)
}

fn add(spec: &mut GatewaySpec, url: String, role: Role) {
    if role != Role::Both {
        spec.roles.insert(url.clone(), role.word());
    }
    spec.replicas.push(url);
}

/// The peers of a region's gateway, reached over the WAN.
fn peers(
    distance: &Distance,
    certificates: &Certificates,
    here: &str,
    regions: &[Region],
) -> PeersSpec {
    let (certificate, key) = certificates.of(&Region::gateway_name(here));
    let one = |to: &Region| {
        let at = distance.listens(&route("peer", here, &to.name));
        (Region::gateway_name(&to.name), to.name.clone(), at)
    };
    PeersSpec {
        listen: "127.0.0.1:0".into(),
        files: [certificates.ca(), certificate, key],
        gateways: regions.iter().filter(|to| to.name != here).map(one).collect(),
        accept: Vec::new(),
        digests: None,
    }
}

/// Target addresses of a region's clients: their own gateway, then the others, nearest first.
pub(super) fn addresses(regions: &[Region], distance: Option<&Distance>, at: usize) -> Vec<String> {
    let here = &regions[at];
    let mut all: Vec<&Region> = regions.iter().filter(|region| region.spec.is_some()).collect();
    all.sort_by_key(|region| rtt_ms(&here.name, &region.name));
    all.iter().filter_map(|there| url(here, there, distance)).collect()
}

/// The same for clients of the fleet's name: for each public address the one that leads there.
pub(super) fn behind_the_name(
    regions: &[Region],
    distance: Option<&Distance>,
    at: usize,
) -> Vec<(Ipv4Addr, String)> {
    let here = &regions[at];
    let there = regions.iter().enumerate().map(|(n, there)| (names::gateway(n), there));
    there.filter_map(|(public, there)| Some((public, url(here, there, distance)?))).collect()
}

/// The address at which a region's clients reach the gateway of one.
fn url(here: &Region, there: &Region, distance: Option<&Distance>) -> Option<String> {
    match (there.name == here.name, &there.spec, distance) {
        (false, _, Some(distance)) => {
            Some(format!("http://{}", distance.listens(&route("client", &here.name, &there.name))))
        }
        (_, Some(spec), _) => Some(format!("http://{}", spec.listen)),
        _ => None,
    }
}

/// All routes between regions, in all directions, and to each replica: name, from and to.
fn routes(regions: &[Region]) -> Vec<(String, String, String)> {
    let mut routes = Vec::new();
    for (from, to) in pairs(regions) {
        let one = |name| (name, from.name.clone(), to.name.clone());
        routes.push(one(route("peer", &from.name, &to.name)));
        routes.push(one(route("client", &from.name, &to.name)));
        routes.extend(to.replicas.iter().map(|replica| one(replica_route(from, replica))));
    }
    routes
}

/// The current targets of the routes.
pub(super) fn at_the_ends(regions: &[Region]) -> Vec<(String, SocketAddr)> {
    let mut all = Vec::new();
    for (from, to) in pairs(regions) {
        let clients = to.spec.as_ref().and_then(|spec| spec.listen.parse().ok());
        let peers = to.gateway.as_ref().and_then(|gateway| gateway.peers);
        let gateways = [("client", clients), ("peer", peers)];
        let gateways = gateways.into_iter().filter_map(|(kind, target)| Some((kind, target?)));
        all.extend(gateways.map(|(kind, target)| (route(kind, &from.name, &to.name), target)));
        let address = |replica: &Replica| {
            let target = replica.url.trim_start_matches("http://").parse().ok()?;
            Some((replica_route(from, replica), target))
        };
        all.extend(to.replicas.iter().filter_map(address));
    }
    all
}

fn pairs(regions: &[Region]) -> impl Iterator<Item = (&Region, &Region)> {
    let all = regions.iter().flat_map(|from| regions.iter().map(move |to| (from, to)));
    all.filter(|(from, to)| from.name != to.name)
}

/// The name of the route from `from` to a gateway's port in `to`.
fn route(kind: &str, from: &str, to: &str) -> String {
    format!("{kind}-{from}-{to}")
}

/// The address at which a region's gateway reaches a replica of another one.
fn way(distance: &Distance, from: &Region, replica: &Replica) -> String {
    format!("http://{}", distance.listens(&replica_route(from, replica)))
}

/// The name of the route from a region's gateway to a replica of another one.
fn replica_route(from: &Region, replica: &Replica) -> String {
    format!("replica-{}-{}", from.name, replica.name)
}

fn rtt_ms(a: &str, b: &str) -> u64 {
    let known = KNOWN_RTT_MS.iter().find(|(x, y, _)| (*x, *y) == (a, b) || (*x, *y) == (b, a));
    known.map_or(if a == b { 0 } else { u64::MAX }, |(_, _, ms)| *ms)
}
