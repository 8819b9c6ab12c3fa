//! Addresses of this gateway: each port once, and none of them where requests are sent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::uri::Authority;

use super::Gateway;
use meridian_protocol::address::base_url;

impl Gateway {
    /// Its own ports, by the field that sets each.
    fn ports(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let peers = self.peers.as_ref().map(|peers| ("peers.listen", peers.listen));
        [("listen", self.listen), ("admin", self.admin)].into_iter().chain(peers)
    }

    pub(super) fn check_ports(&self, check: &mut impl FnMut(bool, String)) {
        let ports: Vec<_> = self.ports().collect();
        for (i, (field, address)) in ports.iter().enumerate() {
            for (other, theirs) in &ports[..i] {
                check(
                    !conflict(*address, *theirs),
                    format!("{field}: {address} is the address of `{other}`; use another port"),
                );
            }
        }
        for (i, replica) in self.replicas.iter().enumerate() {
            let at = format!("replicas[{i}].url");
            self.check_own(&at, &replica.url, "the engine", check);
        }
        for (i, url) in self.control.iter().flat_map(|control| control.url.all().iter().enumerate())
        {
            let at = self.control.as_ref().map(|control| control.url.field(i)).unwrap_or_default();
            self.check_own(&at, url, "the control plane", check);
        }
        for (i, peer) in self.peers.iter().flat_map(|peers| peers.gateways.iter().enumerate()) {
            let at = format!("peers.gateways[{i}].address");
            self.check_own(&at, &format!("https://{}", peer.address), "the other gateway", check);
        }
    }

    /// Checks that an address is not this gateway's own, where a request would come back.
    fn check_own(&self, at: &str, url: &str, whose: &str, check: &mut impl FnMut(bool, String)) {
        let Ok(url) = base_url(url) else { return };
        let own = self.ports().find(|(_, own)| is_at(&url, *own));
        if let Some((field, _)) = own {
            let shown = url.authority().map_or("", Authority::as_str);
            check(
                false,
                format!(
                    "{at}: `{shown}` is this gateway's own `{field}`; write the address of {whose}"
                ),
            );
        }
    }
}

/// Whether one process cannot listen on both.
pub(super) fn conflict(a: SocketAddr, b: SocketAddr) -> bool {
    // `[::]` takes IPv4, too.
    let covers =
        |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let (one, other) = (a.ip(), b.ip());
    a.port() == b.port()
        && a.port() > 0
        && (one == other || covers(one, other) || covers(other, one))
}

/// Whether a URL leads to a port of this machine.
fn is_at(url: &http::Uri, own: SocketAddr) -> bool {
    let usual = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let ip = match host {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => host.parse::<IpAddr>().ok(),
    };
    let is_here = |ip: IpAddr| {
        let any = own.ip().is_unspecified() && (ip.is_loopback() || ip.is_unspecified());
        ip == own.ip() || any || host == "localhost" && own.ip().is_loopback()
    };
    own.port() > 0 && url.port_u16().unwrap_or(usual) == own.port() && ip.is_some_and(is_here)
}

/// What identifies a replica at an address: its host and port, however they are written; none if it is
/// not an address.
#[must_use]
pub fn identity(url: &str) -> Option<String> {
    let url = base_url(url).ok()?;
    let usual = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let host = url.host()?.to_ascii_lowercase();
    Some(format!("{host}:{}", url.port_u16().unwrap_or(usual)))
}
