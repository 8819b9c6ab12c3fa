//! The names, set identifiers and caller references of what Meridian makes.

use std::net::IpAddr;

use meridian_config::Route53;

use super::{Body, Key, Kind, Probe};

/// The settings, and how they name things.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) config: Route53,
}

impl Names {
    /// The name of one region: `eu.llm.example.org`.
    pub(crate) fn region(&self, region: &str) -> String {
        format!("{region}.{}", self.config.name)
    }

    /// The latency record of a region.
    pub(crate) fn alias(&self, region: &str, kind: Kind) -> Key {
        // With the type, so that no two records of the zone have the same identifier.
        let id = format!("{}/{region}/{}", self.config.owner, kind.name());
        Key { name: self.config.name.clone(), kind, id }
    }

    /// The record of an address of a region.
    pub(crate) fn address(&self, region: &str, address: IpAddr) -> Key {
        let id = format!("{}/{region}/{address}", self.config.owner);
        Key { name: self.region(region), kind: Kind::of(&address), id }
    }

    /// The same with its answer.
    pub(crate) fn gateway(&self, address: IpAddr, check: String) -> Body {
        let ttl = u32::try_from(self.config.ttl.0.as_secs()).unwrap_or(u32::MAX);
        Body::Gateway { address, ttl, check }
    }

    /// The region in the identifier of an own record.
    pub(crate) fn region_in<'a>(&self, key: &'a Key) -> Option<&'a str> {
        let rest = key.id.strip_prefix(&self.config.owner)?.strip_prefix('/')?;
        Some(rest.split_once('/')?.0)
    }

    /// The address in the identifier of a record.
    pub(crate) fn address_in(key: &Key) -> Option<IpAddr> {
        key.id.rsplit_once('/')?.1.parse().ok()
    }

    /// Whether a record with this set identifier is an own one at its place. Another fleet may have the
    /// same owner, and a name below this one.
    pub(crate) fn owns(&self, name: &str, id: &str) -> bool {
        let rest = id.strip_prefix(&self.config.owner).and_then(|rest| rest.strip_prefix('/'));
        let region = rest.and_then(|rest| rest.split_once('/')).map(|(region, _)| region);
        region.is_some_and(|region| name == self.config.name || name == self.region(region))
    }

    /// The health check for an address.
    pub(crate) fn probe(&self, address: IpAddr) -> Probe {
        let check = &self.config.health_check;
        Probe {
            address,
            scheme: check.scheme,
            port: check.port(),
            path: check.path.clone(),
            host: self.config.name.clone(),
            interval: u32::try_from(check.interval.0.as_secs()).unwrap_or(u32::MAX),
            failures: check.failures,
        }
    }

    /// The start of the caller reference of the own health checks. It names the owner, and by a hash
    /// the zone and the name: a health check is in no zone, and other fleets of the account have some,
    /// too.
    pub(crate) fn reference(&self) -> String {
        let place = format!("{}/{}", self.config.zone, self.config.name);
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = place.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
        format!("{}/{hash:016x}/", self.config.owner)
    }
}
