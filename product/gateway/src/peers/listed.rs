//! Gateways that may use the peer port: those of `peers.gateways` and `peers.accept`, and those
//! that the control plane's registry has named.
//!
//! A certificate of the fleet proves a gateway's identity. It does not prove that this region wants
//! its requests, whose tenants are trusted. A gateway named by the registry stays listed until a
//! restart: its lease may end because the connection to the control plane broke, and the peers
//! should not disconnect for that. For stolen keys there are revocation lists.

use std::collections::BTreeSet;
use std::sync::RwLockReadGuard;

use meridian_config as config;
use meridian_protocol::peer::Identity;

use crate::lock::RwLock;

/// Most gateways remembered in addition to those of the newest view.
const MOST: usize = 4096;

/// The listed gateways.
pub(super) struct Listed {
    fleet: String,
    /// The region whose gateways may all connect, since this one looks for them.
    found_in: Option<String>,
    followed: Vec<(String, String)>,
    accepted: RwLock<Vec<config::Accept>>,
    /// From the registry: region and name.
    registered: RwLock<BTreeSet<(String, String)>>,
}

impl Listed {
    pub(super) fn new(own: &Identity, peers: &config::Peers) -> Listed {
        let followed = peers.gateways.iter();
        Listed {
            fleet: own.fleet().to_owned(),
            found_in: peers.siblings.as_ref().map(|_| own.region().to_owned()),
            followed: followed.map(|peer| (peer.region.clone(), peer.name.clone())).collect(),
            accepted: RwLock::new(peers.accept.clone()),
            registered: RwLock::default(),
        }
    }

    /// Whether a gateway may connect.
    pub(super) fn has(&self, gateway: &Identity) -> bool {
        let (region, name) = (gateway.region(), gateway.gateway());
        gateway.fleet() == self.fleet
            && (self.found_in.as_deref() == Some(region)
                || self.followed.iter().any(|(r, n)| r == region && n == name)
                || self.accepted.read().iter().any(|accept| accept.covers(region, name))
                || self.registered().contains(&(region.to_owned(), name.to_owned())))
    }

    /// Adopts another `peers.accept`. Connections of gateways that it leaves out stay open.
    pub(super) fn accept(&self, accepted: &[config::Accept]) {
        *self.accepted.write() = accepted.to_vec();
    }

    /// Adds the gateways that the registry names, by region and name.
    pub(super) fn register(&self, gateways: impl Iterator<Item = (String, String)>) {
        let newest: BTreeSet<_> = gateways.collect();
        let mut known = self.registered.write();
        if known.len() + newest.len() > MOST {
            known.clear();
        }
        known.extend(newest);
    }

    fn registered(&self) -> RwLockReadGuard<'_, BTreeSet<(String, String)>> {
        self.registered.read()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn listed(section: &str) -> Listed {
        let yaml = format!(
            "version: 1\nregion: us\npeers: {{ca: a, certificate: b, key: c, {section}}}\n"
        );
        let config = config::Gateway::read(&yaml).unwrap();
        Listed::new(&gateway("us", "us-1"), &config.peers.unwrap())
    }

    fn gateway(region: &str, name: &str) -> Identity {
        Identity::new("prod", region, name).unwrap()
    }

    // From the file: a followed gateway under its name and region, a gateway accepted by name, any
    // gateway of an accepted region; none of another fleet.
    #[test]
    fn by_the_file() {
        let listed = listed(
            "gateways: [{name: eu-1, region: eu, address: 'eu:1'}], accept: [uk/uk-1, asia/*]",
        );
        for (region, name) in [("eu", "eu-1"), ("uk", "uk-1"), ("asia", "a"), ("asia", "b")] {
            assert!(listed.has(&gateway(region, name)), "{region}/{name}");
        }
        for (region, name) in [("eu", "eu-2"), ("us", "eu-1"), ("uk", "uk-2"), ("sa", "a")] {
            assert!(!listed.has(&gateway(region, name)), "{region}/{name}");
        }
        assert!(!listed.has(&Identity::new("test", "asia", "a").unwrap()));
    }

    // With a source of this region's gateways, all of them may connect, and none of another region.
    #[test]
    fn by_region() {
        let listed = listed("siblings: {dns: 'a:1'}");
        assert!(listed.has(&gateway("us", "us-7")) && !listed.has(&gateway("eu", "eu-1")));
    }

    // From the registry: all gateways it has named, even after their lease has ended, up to a
    // limit.
    #[test]
    fn by_the_registry() {
        let listed = listed("gateways: []");
        let named = |name: &str| std::iter::once(("eu".to_owned(), name.to_owned()));
        assert!(!listed.has(&gateway("eu", "a")));
        listed.register(named("a"));
        listed.register(named("b"));
        assert!(listed.has(&gateway("eu", "a")) && listed.has(&gateway("eu", "b")));
        listed.register((0..MOST).map(|n| ("eu".to_owned(), format!("g{n}"))));
        assert!(!listed.has(&gateway("eu", "a")) && listed.has(&gateway("eu", "g7")));
        assert!(listed.registered().len() <= MOST);
    }
}
