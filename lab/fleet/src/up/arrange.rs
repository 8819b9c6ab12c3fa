//! The connections of a run: processes shared by the regions, each gateway's replicas, and the
//! routes between regions, and between gateways of one region.
//!
//! Several regions are linked by the emulated WAN, follow one control plane or three, and identify each
//! other by certificates. If one gateway serves all of them (`central`), its file lists the
//! replicas of all regions, and clients and replicas are as far from it as their regions are. A
//! single region with one gateway has none of these; its gateways, if there are several, are linked by
//! the emulated WAN without a delay, so that they can be cut off from each other.

use std::net::{Ipv4Addr, SocketAddr};

use meridian_protocol::admin::Role;
use meridian_protocol::units::Span;
use meridian_wan::config::{KNOWN_RTT_MS, LinkSpec, Rate, known_delay};

use super::planes::Planes;
use super::region::{Region, Replica, USUAL};
use super::{CENTRAL, Options, names, tenants};
use crate::{Certificates, Distance, Fleet, GatewaySpec, PeersSpec, Result};

/// Processes shared by the regions.
pub(super) struct Shared {
    pub(super) distance: Distance,
    /// Of gateways that are peers; none if one gateway serves all regions.
    pub(super) certificates: Option<Certificates>,
    /// None if there is one region, or one gateway serves all.
    pub(super) planes: Option<Planes>,
}

impl Shared {
    /// Starts the shared processes, and registers all replicas with the control plane.
    pub(super) async fn start(
        fleet: &Fleet,
        options: &Options,
        regions: &[Region],
    ) -> Result<Shared> {
        let distance = fleet.distance(&routes(regions), links(regions)).await?;
        if options.topology == CENTRAL {
            return Ok(Shared { distance, certificates: None, planes: None });
        }
        let named = |region: &Region| (Region::gateway_name(&region.name), region.of.clone());
        let gateways: Vec<(String, String)> = regions.iter().map(named).collect();
        let certificates = fleet.certificates(&gateways).await?;
        if options.regions.len() == 1 {
            return Ok(Shared { distance, certificates: Some(certificates), planes: None });
        }
        let planes = Planes::start(fleet, options, certificates.clone()).await?;
        let control = planes.living().expect("they have just started");
        for region in regions {
            for replica in &region.replicas {
                let others = regions.iter().filter(|other| are_far(other, region));
                let others = others.filter(|other| !other.is_further());
                let way = |from: &Region| (from.name.clone(), way(&distance, from, replica));
                let from = others.map(way).collect();
                let Replica { name, url, role, .. } = replica;
                let role = role.word();
                fleet.add_replica(control, name, (&region.name, url, role), &from).await?;
            }
        }
        Ok(Shared { distance, certificates: Some(certificates), planes: Some(planes) })
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
        region: here.of.clone(),
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
        None => add_own(&mut spec, here),
        Some(Shared { distance, certificates: Some(certificates), planes }) => {
            match planes {
                // Each region is near another one.
                Some(planes) => spec.control = planes.urls(here.number),
                None => add_own(&mut spec, &regions[here.number]),
            }
            spec.public = options.etcd.then(|| names::gateway(at));
            spec.peers = Some(peers(distance, certificates, here, regions));
        }
        Some(Shared { certificates: None, .. }) if at > 0 => return None,
        Some(Shared { distance, .. }) => {
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

fn add_own(spec: &mut GatewaySpec, region: &Region) {
    region.replicas.iter().for_each(|replica| add(spec, replica.url.clone(), replica.role));
}

fn add(spec: &mut GatewaySpec, url: String, role: Role) {
    if role != Role::Both {
        spec.roles.insert(url.clone(), role.word());
    }
    spec.replicas.push(url);
}

/// The peers of a gateway, reached over the WAN: all other gateways, those of its own region too.
fn peers(
    distance: &Distance,
    certificates: &Certificates,
    here: &Region,
    regions: &[Region],
) -> PeersSpec {
    let (certificate, key) = certificates.of(&Region::gateway_name(&here.name));
    let one = |to: &Region| {
        let at = distance.listens(&route("peer", &here.name, &to.name));
        (Region::gateway_name(&to.name), to.of.clone(), at)
    };
    PeersSpec {
        listen: "127.0.0.1:0".into(),
        files: [certificates.ca(), certificate, key],
        gateways: regions.iter().filter(|to| to.name != here.name).map(one).collect(),
        accept: Vec::new(),
        digests: None,
    }
}

/// Target addresses of a gateway's clients: that one, the others of its region, then the others, nearest
/// first.
pub(super) fn addresses(regions: &[Region], distance: Option<&Distance>, at: usize) -> Vec<String> {
    let here = &regions[at];
    let mut all: Vec<&Region> = regions.iter().filter(|region| region.spec.is_some()).collect();
    all.sort_by_key(|region| (rtt_ms(&here.of, &region.of), region.name != here.name));
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
    match (!are_far(here, there), &there.spec, distance) {
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
        if are_far(from, to) {
            routes.push(one(route("client", &from.name, &to.name)));
        }
        routes.extend(seen_from(from, to).map(|replica| one(replica_route(from, replica))));
    }
    routes
}

/// The current targets of the routes.
pub(super) fn at_the_ends(regions: &[Region]) -> Vec<(String, SocketAddr)> {
    let mut all = Vec::new();
    for (from, to) in pairs(regions) {
        let clients = to.spec.as_ref().filter(|_| are_far(from, to));
        let clients = clients.and_then(|spec| spec.listen.parse().ok());
        let peers = to.gateway.as_ref().and_then(|gateway| gateway.peers);
        let gateways = [("client", clients), ("peer", peers)];
        let gateways = gateways.into_iter().filter_map(|(kind, target)| Some((kind, target?)));
        all.extend(gateways.map(|(kind, target)| (route(kind, &from.name, &to.name), target)));
        let address = |replica: &Replica| {
            let target = replica.url.trim_start_matches("http://").parse().ok()?;
            Some((replica_route(from, replica), target))
        };
        all.extend(seen_from(from, to).filter_map(address));
    }
    all
}

/// The links of further gateways, which have no distance of their own.
fn links(regions: &[Region]) -> Vec<LinkSpec> {
    let further = pairs(regions).filter(|(from, to)| from.is_further() || to.is_further());
    let link = |(from, to): (&Region, &Region)| LinkSpec {
        from: from.name.clone(),
        to: to.name.clone(),
        delay: Some(delay(from, to)),
        jitter: Span::millis(0),
        rate: Rate(None),
    };
    further.map(link).collect()
}

/// The usual delay of a link.
pub(super) fn delay(from: &Region, to: &Region) -> Span {
    known_delay(&from.of, &to.of).unwrap_or(Span::millis(0))
}

/// Whether both are in different regions.
pub(super) fn are_far(one: &Region, other: &Region) -> bool {
    one.of != other.of
}

/// The replicas of a region that another one may adopt. The registry knows one address for all of its
/// gateways.
fn seen_from<'a>(from: &Region, to: &'a Region) -> impl Iterator<Item = &'a Replica> {
    to.replicas.iter().filter(|_| !from.is_further())
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
