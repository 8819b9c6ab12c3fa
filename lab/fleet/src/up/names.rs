//! The name that stands for all gateways of a run with several control planes: each of those is a name
//! server of its zone.
//!
//! An address in an answer stands for a gateway. Clients reach it over the emulated WAN, so it is no
//! address of this machine.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The zone, whose own name clients use.
pub(super) const ZONE: &str = "llm.test";

/// The public address of the `at`th region's gateway (RFC 5737).
pub(super) fn gateway(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, at as u8 + 1)
}

/// A client of the `at`th region.
pub(super) fn client(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, at as u8 + 1, 0, 9)
}

/// The section of a control plane.
pub(super) fn section(listen: SocketAddr, regions: &[String]) -> String {
    let mut yaml = format!(
        "dns:\n  listen: ['{listen}']\n  zone: {ZONE}\n  nameservers: {{ns1: [{}]}}\n  ttl: 1s\n  \
         negative_ttl: 1s\n  clients:\n",
        IpAddr::from(Ipv4Addr::LOCALHOST)
    );
    for (at, region) in regions.iter().enumerate() {
        let _ = writeln!(yaml, "    {region}: [10.{}.0.0/16]", at + 1);
    }
    yaml
}
