//! What several regions share, and how each is started with its part of it.

use meridian_wire::wan::KNOWN_RTT_MS;

use super::Options;
use super::region::Region;
use super::start::{Maker, usual_or_any};
use crate::{Certificates, Control, Distance, Fleet, GatewaySpec, PeersSpec, Result};

/// What the regions of a run share.
pub(super) struct Shared {
    certificates: Certificates,
    pub(super) control: Control,
    pub(super) distance: Distance,
}

/// The name of the route by which `from` reaches a gateway's port in `to`.
pub(super) fn route(kind: &str, from: &str, to: &str) -> String {
    format!("{kind}-{from}-{to}")
}

pub(super) fn rtt_ms(a: &str, b: &str) -> u64 {
    let known = KNOWN_RTT_MS.iter().find(|(x, y, _)| (*x, *y) == (a, b) || (*x, *y) == (b, a));
    known.map_or(u64::MAX, |(_, _, ms)| *ms)
}

impl Shared {
    pub(super) async fn start(fleet: &Fleet, regions: &[String]) -> Result<Shared> {
        let named = |region: &String| (Region::gateway_name(region), region.clone());
        let gateways: Vec<(String, String)> = regions.iter().map(named).collect();
        let mut routes = Vec::new();
        for from in regions {
            for to in regions.iter().filter(|to| *to != from) {
                for kind in ["peer", "client"] {
                    routes.push((route(kind, from, to), from.clone(), to.clone()));
                }
            }
        }
        Ok(Shared {
            certificates: fleet.certificates(&gateways).await?,
            control: fleet.control("127.0.0.1:0").await?,
            distance: fleet.distance(&routes).await?,
        })
    }

    /// The peers of a region's gateway, reached over the WAN.
    fn peers(&self, here: &str, regions: &[String]) -> PeersSpec {
        let (certificate, key) = self.certificates.of(&Region::gateway_name(here));
        let one = |to: &String| {
            let at = self.distance.listens(&route("peer", here, to));
            (Region::gateway_name(to), to.clone(), at)
        };
        PeersSpec {
            listen: "127.0.0.1:0".into(),
            files: [self.certificates.ca(), certificate, key],
            gateways: regions.iter().filter(|to| *to != here).map(one).collect(),
        }
    }
}

/// Starts a region's replicas and its gateway.
pub(super) async fn region(
    fleet: &Fleet,
    maker: &Maker,
    options: &Options,
    shared: Option<&Shared>,
    at: usize,
) -> Result<Region> {
    let name = options.regions[at].clone();
    let replicas = Region::replicas(fleet, maker, options, at).await?;
    let mut spec = GatewaySpec {
        region: name.clone(),
        topology: options.topology.clone(),
        policy: options.policy.clone(),
        listen: if at == 0 { usual_or_any() } else { "127.0.0.1:0".into() },
        ..GatewaySpec::default()
    };
    match shared {
        None => spec.replicas = replicas.iter().map(|replica| replica.url.clone()).collect(),
        Some(shared) => {
            spec.control = Some(shared.control.admin.clone());
            spec.peers = Some(shared.peers(&name, &options.regions));
            for replica in &replicas {
                shared.control.add(&replica.name, &name, &replica.url).await?;
            }
        }
    }
    let mut region = Region { load: None, gateway: None, replicas, name, spec };
    region.start_gateway(fleet).await?;
    Ok(region)
}
