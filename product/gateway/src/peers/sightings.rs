//! Where gateways of this region may be, as the registry and a name in the DNS have them.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use meridian_config::{self as config, name_and_port};
use meridian_protocol::peer::Identity;
use meridian_protocol::registry::Gateway;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::dial::{PATIENCE, identify};
use super::tls::Tls;
use crate::resolve::{addresses, resolver};

/// An address where a gateway of this region may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) address: String,
    /// The gateway, if the source names it.
    pub(super) identity: Option<Identity>,
}

/// What the sources of this region's gateways report.
#[derive(Debug)]
pub(super) struct Sightings {
    pub(super) registered: watch::Sender<BTreeSet<Place>>,
    /// A gateway of this region that is not known connected to this one.
    pub(super) again: Notify,
}

impl Default for Sightings {
    fn default() -> Sightings {
        Sightings { registered: watch::Sender::default(), again: Notify::new() }
    }
}

impl Sightings {
    /// The registry's gateways.
    pub(super) fn register<'a>(
        &self,
        own: &Identity,
        gateways: impl Iterator<Item = (&'a String, &'a Gateway)>,
    ) {
        let place = |(name, gateway): (&String, &Gateway)| {
            let address = gateway.peer_address.clone()?;
            let identity = Identity::new(own.fleet(), &gateway.region, name).ok()?;
            let is_other = identity.region() == own.region() && identity != *own;
            is_other.then_some(Place { address, identity: Some(identity) })
        };
        let places: BTreeSet<_> = gateways.filter_map(place).collect();
        self.registered
            .send_if_modified(|known| std::mem::replace(known, places.clone()) != places);
    }

    /// Resolves the name again now: there is a gateway that it did not have.
    pub(super) fn look_again(&self) {
        self.again.notify_one();
    }
}

/// Connects once to each gateway that the name has now; none if the source is the registry.
pub(super) async fn meet(
    tls: &Tls,
    source: &config::SiblingDiscovery,
) -> Vec<(String, Result<(), String>)> {
    let Some(dns) = &source.dns else { return Vec::new() };
    let (name, port) = name_and_port(dns).expect("the configuration was checked");
    let found = async { addresses(&resolver(source.server)?, name).await };
    let ips = match found.await {
        Ok((ips, _)) => ips,
        Err(why) => return vec![("peers.siblings.dns".to_owned(), Err(why))],
    };
    let mut met = Vec::new();
    for ip in ips {
        let address = SocketAddr::new(ip, port).to_string();
        let seen = timeout(PATIENCE, identify(tls, &address)).await;
        let result = match seen {
            Ok(seen) => seen.map(drop).map_err(|error| error.to_string()),
            Err(_) => Err("no answer within 5 s".to_owned()),
        };
        met.push((format!("peers.siblings.dns: {address}"), result));
    }
    met
}
