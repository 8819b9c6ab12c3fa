//! The peers of a gateway: their names, addresses and certificates.

mod siblings;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use meridian_routing::Peering;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::twice::twice;
use super::{MutualTls, Registry, Secret, Size, Span};
use meridian_base::residency::Term;
use meridian_protocol::peer::{MOST_TERMS, label, term};

pub use siblings::SiblingDiscovery;

/// Most peers of a gateway: the routing machine keeps a request's permissions as one bit per peer.
pub const MOST_PEERS: usize = 64;

/// The peer port, and the peers that this gateway follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Peers {
    /// Address for peers. Port 0: any free one.
    #[serde(default = "listen", deserialize_with = "super::listening")]
    pub listen: SocketAddr,
    /// In place of certificates: a secret that all gateways have, of 16 characters or more.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::secret::given"
    )]
    pub secret: Option<Secret>,
    /// This gateway's name, with `secret`; `control.name` or the host's name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Certificates of the fleet's CA, as PEM.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub ca: PathBuf,
    /// Revocation lists of that CA, as PEM; if absent, no certificate counts as revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crl: Option<PathBuf>,
    /// This gateway's certificate, as PEM. It contains the gateway's name and region.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub certificate: PathBuf,
    /// Its key, as PEM.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub key: PathBuf,
    /// The continent of this region. Peers on the same continent count as near.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continent: Option<String>,
    /// Peers whose digests this gateway follows, and other gateways of its own region.
    #[serde(default)]
    pub gateways: Vec<Peer>,
    /// Further gateways of this region, found while this one serves. Every gateway of the region may
    /// connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub siblings: Option<SiblingDiscovery>,
    /// Further gateways that may connect, though this one does not follow them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<Accept>,
    /// Interval between two digests while something changes.
    #[serde(default = "push")]
    pub push: Span,
    /// Interval between two digests while nothing changes, and between heartbeats.
    #[serde(default = "beat")]
    pub beat: Span,
    /// A peer that was silent for so long counts as gone until it sends something again.
    #[serde(default = "gone")]
    pub gone: Span,
    /// A digest older than this is ignored: no request is forwarded there until a newer one
    /// arrives.
    #[serde(default = "stale")]
    pub stale: Span,
    /// SkyWalker's tau: a peer with more queued requests than this gets none.
    #[serde(default = "tau")]
    pub tau: u32,
    /// Whether to also exclude a peer with more queued requests than this gateway has.
    #[serde(default = "tau_own")]
    pub tau_own: bool,
    /// Bytes sent over a new connection to open its congestion window before the first request. 0
    /// for none.
    #[serde(default = "warm")]
    pub warm: Size,
}

/// `REGION/NAME`, or `REGION/*` for every gateway of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Accept(pub String);

impl Accept {
    /// Whether it names the gateway `name` of `region`.
    #[must_use]
    pub fn covers(&self, region: &str, name: &str) -> bool {
        let parts = self.0.split_once('/');
        parts.is_some_and(|(r, n)| r == region && (n == "*" || n == name))
    }

    fn problem(&self) -> Option<String> {
        let Some((region, name)) = self.0.split_once('/') else {
            return Some(format!(
                "`{}` is not a gateway; write region and name, as in eu/eu-1, or eu/*",
                self.0
            ));
        };
        let name = if name == "*" { Ok(()) } else { label("name", name) };
        label("region", region).and(name).err().map(|error| error.to_string())
    }
}

/// One peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name, as in its certificate.
    pub name: String,
    /// Its region, as in its certificate.
    pub region: String,
    /// The continent of its region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continent: Option<String>,
    /// Its address for peers, `host:port`.
    pub address: String,
    /// Where its replicas may be besides its own region: other regions, and labels of replicas as
    /// `name=value`. Places in the registry need no entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
}

impl Peer {
    /// The regions and labels in `places`. An entry that is neither permits nothing; a
    /// configuration that was read has none.
    #[must_use]
    pub fn vouched(&self) -> Vec<Term> {
        self.places.iter().filter_map(|place| term(place).ok()).collect()
    }
}

fn is_unset(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

fn listen() -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, 8082).into()
}
fn push() -> Span {
    Span::millis(20)
}
fn beat() -> Span {
    let beat = Span::millis(100);
    assert!(push() <= beat, "by default a push comes before the next beat");
    beat
}
fn gone() -> Span {
    let gone = Span::secs(2);
    assert!(beat() < gone, "by default a peer that beats is not gone");
    gone
}
fn stale() -> Span {
    let stale = Span(Peering::default().stale);
    assert!(beat() < stale, "by default the digest of a peer that beats is not stale");
    stale
}
fn tau() -> u32 {
    Peering::default().tau
}
fn tau_own() -> bool {
    Peering::default().tau_own
}
fn warm() -> Size {
    let warm = Size::mib(2);
    assert!(warm <= MOST_WARM, "the default is within its limit");
    warm
}

/// Shortest secret, in characters: guesses can be tested against the port.
const LEAST_SECRET: usize = 16;

/// Most bytes sent ahead: beyond this the window is open for any request.
const MOST_WARM: Size = Size::mib(16);

impl Peers {
    /// Whether a peer's region is on this gateway's continent, if both are configured.
    #[must_use]
    pub fn is_near(&self, peer: &Peer) -> bool {
        self.continent.is_some() && self.continent == peer.continent
    }

    /// This gateway's certificate files and its trusted CA, if they are given; a secret takes their place.
    #[must_use]
    pub fn files(&self) -> Option<MutualTls> {
        let files = [&self.ca, &self.certificate, &self.key];
        let given = self.crl.is_some() || files.into_iter().any(|path| !is_unset(path));
        (self.secret.is_none() && given).then(|| MutualTls {
            ca: self.ca.clone(),
            crl: self.crl.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        })
    }

    /// Whether a gateway of this region, which has the same replicas, is listed or may be found.
    #[must_use]
    pub fn has_siblings(&self, region: &str) -> bool {
        self.siblings.is_some() || self.gateways.iter().any(|peer| peer.region == region)
    }

    /// The routing machine's settings for peers.
    pub(super) fn peering(&self) -> Peering {
        Peering { tau: self.tau, tau_own: self.tau_own, stale: self.stale.0, ..Peering::default() }
    }

    pub(super) fn check(&self, control: Option<&Registry>, check: &mut impl FnMut(bool, String)) {
        self.check_proof(check);
        if let Some(siblings) = &self.siblings {
            siblings.check(control.is_some(), check);
        }
        let names = self.name.as_ref().zip(control.and_then(|control| control.name.as_ref()));
        check(
            names.is_none_or(|(own, control)| own == control),
            "peers.name: differs from control.name; use one name, or remove this line".to_owned(),
        );
        let spans =
            [("push", self.push), ("beat", self.beat), ("gone", self.gone), ("stale", self.stale)];
        for (name, span) in spans {
            check(!span.0.is_zero(), format!("peers.{name}: 0 is too short; use a time above 0"));
        }
        check(
            self.push <= self.beat,
            "peers.push: is longer than peers.beat; use the same time or a shorter one".to_owned(),
        );
        check(
            self.beat < self.gone,
            "peers.gone: is not longer than peers.beat, so every peer would count as gone; use a longer time".to_owned(),
        );
        check(
            self.beat < self.stale,
            "peers.stale: is not longer than peers.beat, so every digest would count as stale; use a longer time".to_owned(),
        );
        check(
            self.warm <= MOST_WARM,
            format!("peers.warm: {} bytes is too large; use 16MiB or less", self.warm.0),
        );
        check(
            self.gateways.len() <= MOST_PEERS,
            format!("peers.gateways: {} are listed; use at most {MOST_PEERS}", self.gateways.len()),
        );
        self.check_gateways(check);
        let accepted: Vec<&String> = self.accept.iter().map(|accept| &accept.0).collect();
        twice("peers.accept", &accepted, check);
        let continents = self.gateways.iter().map(|peer| peer.continent.as_ref());
        let continents = continents.chain([self.continent.as_ref()]).flatten();
        check(
            continents.into_iter().all(|name| !name.trim().is_empty()),
            "peers.continent: it or that of a gateway is empty; name a continent, or remove the line"
                .to_owned(),
        );
        for (i, accept) in self.accept.iter().enumerate() {
            if let Some(problem) = accept.problem() {
                check(false, format!("peers.accept[{i}]: {problem}"));
            }
        }
    }

    /// Checks that gateways can prove who they are in one way: by certificates, or by the secret.
    fn check_proof(&self, check: &mut impl FnMut(bool, String)) {
        let files = [("ca", &self.ca), ("certificate", &self.certificate), ("key", &self.key)];
        let crl = self.crl.iter().map(|crl| ("crl", crl));
        let given: Vec<_> =
            files.into_iter().chain(crl).filter(|(_, path)| !is_unset(path)).collect();
        let Some(secret) = &self.secret else {
            check(
                !given.is_empty(),
                "peers: has neither certificates nor a secret; set ca, certificate and key, or secret"
                    .to_owned(),
            );
            if let Some(files) = self.files() {
                files.check("peers", check);
            }
            check(
                self.name.is_none(),
                "peers.name: is set, and the name is in the certificate; remove it".to_owned(),
            );
            return;
        };
        for (field, _) in given {
            check(
                false,
                format!("peers.{field}: is set, and peers.secret is, too; remove one of the two"),
            );
        }
        let long = secret.expose().chars().count();
        check(
            long >= LEAST_SECRET,
            format!(
                "peers.secret: has {long} characters; use {LEAST_SECRET} or more, such as `openssl rand -hex 32` makes"
            ),
        );
        if let Some(Err(error)) = self.name.as_ref().map(|name| label("name", name)) {
            check(false, format!("peers.{error}"));
        }
    }

    fn check_gateways(&self, check: &mut impl FnMut(bool, String)) {
        for (i, peer) in self.gateways.iter().enumerate() {
            for (part, value) in [("name", &peer.name), ("region", &peer.region)] {
                if let Err(error) = label(part, value) {
                    check(false, format!("peers.gateways[{i}].{error}"));
                }
            }
            if let Err(problem) = host_port(&peer.address) {
                check(false, format!("peers.gateways[{i}].address: {problem}"));
            }
            for place in &peer.places {
                if let Err(problem) = term(place) {
                    check(false, format!("peers.gateways[{i}].places: {problem}"));
                }
            }
            check(
                peer.places.len() <= MOST_TERMS,
                format!(
                    "peers.gateways[{i}].places: {} are listed; use at most {MOST_TERMS}",
                    peer.places.len()
                ),
            );
            let same = |p: &Peer| p.name == peer.name && p.region == peer.region;
            if let Some(j) = self.gateways[..i].iter().position(same) {
                check(
                    false,
                    format!(
                        "peers.gateways[{i}]: {}/{} is peers.gateways[{j}] already; remove one",
                        peer.region, peer.name
                    ),
                );
            }
        }
    }
}

/// Checks that an address has a host and a port.
fn host_port(address: &str) -> Result<(), String> {
    let authority: Option<http::uri::Authority> = address.parse().ok();
    let has =
        |a: &http::uri::Authority| !a.host().is_empty() && a.port_u16().is_some_and(|p| p > 0);
    match authority.filter(|a| has(a) && !address.contains('@')) {
        Some(_) => Ok(()),
        None => Err(format!(
            "`{address}` is not an address; write host and port, as in eu.example.org:8082"
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::Gateway;

    fn read(peers: &str) -> Result<Gateway, String> {
        let yaml = format!("version: 1\nregion: us\npeers: {{{peers}}}\n");
        Gateway::read(&yaml).map_err(|error| error.to_string())
    }

    // A secret takes the place of all files, and is not printed. Each mistake is reported with its field
    // and the remedy, and no message has the secret.
    #[test]
    fn a_secret_or_certificates() {
        let secret = "secret: correct-horse-battery";
        let config = read(&format!("{secret}, name: us-1")).expect("is enough");
        assert!(config.peers.as_ref().unwrap().files().is_none());
        let printed = config.print().unwrap();
        assert!(printed.contains("(set)") && !printed.contains("horse"), "{printed}");
        for (bad, part) in [
            ("continent: america", "peers: has neither certificates nor a secret"),
            ("ca: a, key: b", "peers.certificate: is empty"),
            ("ca: a, certificate: b, key: c, name: us-1", "peers.name: is set, and the name is in"),
            (&format!("{secret}, ca: a"), "peers.ca: is set, and peers.secret is, too"),
            (&format!("{secret}, crl: a"), "peers.crl: is set, and peers.secret is, too"),
            (&format!("{secret}, name: US"), "peers.name: `US` is not a name"),
            ("secret: horse", "peers.secret: has 5 characters; use 16 or more"),
        ] {
            let found = read(bad).expect_err(bad);
            assert!(found.contains(part) && !found.contains("horse"), "{part}: {found}");
        }
        let control = "control: {url: 'http://127.0.0.1:1', name: us-2}";
        let found =
            Gateway::read(&format!("version: 1\npeers: {{{secret}, name: us-1}}\n{control}\n"));
        assert!(found.unwrap_err().to_string().contains("peers.name: differs from control.name"));
        let https = "control: {url: 'https://127.0.0.1:1', name: us-1}";
        let found = Gateway::read(&format!("version: 1\npeers: {{{secret}}}\n{https}\n"));
        assert!(found.unwrap_err().to_string().contains("control.tls: is missing"));
    }
}
