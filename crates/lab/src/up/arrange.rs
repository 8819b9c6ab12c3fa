//! Who knows whom: what the regions of a run share, which replicas a gateway has, and the routes by
//! which one region reaches another.
//!
//! Several regions are linked by the emulated WAN, follow one control plane, and know each other by
//! certificates. Where one gateway serves all of them (`central`), it has the replicas of all in its
//! file, and clients and replicas of other regions are as far from it as their regions are. One
//! region alone has none of these.

use std::net::SocketAddr;

use meridian_wire::wan::KNOWN_RTT_MS;

use super::region::{Region, Replica, USUAL};
use super::{CENTRAL, Options, tenants};
use crate::{Certificates, Control, Distance, Fleet, GatewaySpec, PeersSpec, Result};

/// What the regions of a run share.
pub(super) struct Shared {
    pub(super) distance: Distance,
    /// None where one gateway serves all regions.
    pub(super) common: Option<(Certificates, Control)>,
}

impl Shared {
    /// Starts what is shared, and tells the control plane of all replicas.
    pub(super) async fn start(
        fleet: &Fleet,
        options: &Options,
        regions: &[Region],
    ) -> Result<Shared> {
        let distance = fleet.distance(&routes(regions), Vec::new()).await?;
        if options.topology == CENTRAL {
            return Ok(Shared { distance, common: None });
        }
        let named = |region: &Region| (Region::gateway_name(&region.name), region.name.clone());
        let gateways: Vec<(String, String)> = regions.iter().map(named).collect();
        let certificates = fleet.certificates(&gateways).await?;
        fleet.control_certificates(&certificates).await?;
        let control = fleet.control("127.0.0.1:0", &certificates).await?;
        for region in regions {
            for replica in &region.replicas {
                let others = regions.iter().filter(|other| other.name != region.name);
                let way = |from: &Region| (from.name.clone(), way(&distance, from, replica));
                let from = others.map(way).collect();
                let Replica { name, url, .. } = replica;
                fleet.add_replica(&control, name, &region.name, url, &from).await?;
            }
        }
        Ok(Shared { distance, common: Some((certificates, control)) })
    }
}

/// The gateway of a region; none where another region's serves it.
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
        listen: if at == 0 { USUAL.into() } else { "127.0.0.1:0".into() },
        resume: options.resume,
        further: if tenants::are_there(options) { tenants::config(0) } else { String::new() },
        ..GatewaySpec::default()
    };
    match shared {
        None => spec.replicas = here.replicas.iter().map(|replica| replica.url.clone()).collect(),
        Some(Shared { distance, common: Some((certificates, control)) }) => {
            spec.control = Some(control.admin.clone());
            spec.peers = Some(peers(distance, certificates, &here.name, regions));
        }
        Some(Shared { common: None, .. }) if at > 0 => return None,
        Some(Shared { distance, common: None }) => {
            let url = |there: &Region, replica: &Replica| match there.name == here.name {
                true => replica.url.clone(),
                false => way(distance, here, replica),
            };
            for there in regions {
                spec.replicas.extend(there.replicas.iter().map(|replica| url(there, replica)));
            }
        }
    }
    Some(spec)
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

/// Where the clients of a region ask: their own gateway, and then the others, nearest first.
pub(super) fn addresses(regions: &[Region], distance: Option<&Distance>, at: usize) -> Vec<String> {
    let here = &regions[at];
    let mut all: Vec<&Region> = regions.iter().filter(|region| region.spec.is_some()).collect();
    all.sort_by_key(|region| rtt_ms(&here.name, &region.name));
    let url = |there: &&Region| match (there.name == here.name, &there.spec, distance) {
        (false, _, Some(distance)) => {
            Some(format!("http://{}", distance.listens(&route("client", &here.name, &there.name))))
        }
        (_, Some(spec), _) => Some(format!("http://{}", spec.listen)),
        _ => None,
    };
    all.iter().filter_map(url).collect()
}

/// All routes between regions, from each to each, and to each replica: name, from and to.
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

/// What is at the ends of the routes now.
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

/// The name of the route by which `from` reaches a gateway's port in `to`.
fn route(kind: &str, from: &str, to: &str) -> String {
    format!("{kind}-{from}-{to}")
}

/// Where a region's gateway reaches a replica of another one.
fn way(distance: &Distance, from: &Region, replica: &Replica) -> String {
    format!("http://{}", distance.listens(&replica_route(from, replica)))
}

/// The name of the route by which a region's gateway reaches a replica of another one.
fn replica_route(from: &Region, replica: &Replica) -> String {
    format!("replica-{}-{}", from.name, replica.name)
}

fn rtt_ms(a: &str, b: &str) -> u64 {
    let known = KNOWN_RTT_MS.iter().find(|(x, y, _)| (*x, *y) == (a, b) || (*x, *y) == (b, a));
    known.map_or(if a == b { 0 } else { u64::MAX }, |(_, _, ms)| *ms)
}
