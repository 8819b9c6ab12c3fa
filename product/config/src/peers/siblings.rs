//! How a gateway finds the other gateways of its region, besides those that its file lists.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sources::name_and_port;

/// Where the other gateways of this region are: at the addresses of a name, in the registry, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SiblingDiscovery {
    /// `name:port`, such as a headless Service of Kubernetes: one gateway per address of the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    /// The name server to query; the system's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<SocketAddr>,
    /// Whether they are those that the control plane knows in this region.
    pub registry: bool,
}

impl SiblingDiscovery {
    pub(super) fn check(&self, has_control: bool, check: &mut impl FnMut(bool, String)) {
        check(
            self.dns.is_some() || self.registry,
            "peers.siblings: names no source; write {dns: \"gateways:8082\"} or {registry: true}, or remove the line"
                .to_owned(),
        );
        if let Some(name) = &self.dns {
            check(
                name_and_port(name).is_some(),
                format!(
                    "peers.siblings.dns: `{name}` is not a name with a port; write name:port, as in gateways.prod.svc:8082"
                ),
            );
        }
        check(
            !self.registry || has_control,
            "peers.siblings.registry: is true, and there is no registry; add `control`, or use dns"
                .to_owned(),
        );
        check(
            self.server.is_none_or(|server| server.port() > 0),
            "peers.siblings.server: 0 is not a port; name servers have 53".to_owned(),
        );
        check(
            self.server.is_none() || self.dns.is_some(),
            "peers.siblings.server: is for dns, which is missing; remove it, or add dns".to_owned(),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::Gateway;

    // One of the two ways, or both. Each mistake is reported with its field, its value and the remedy.
    #[test]
    fn problems() {
        let read = |siblings: &str, more: &str| {
            Gateway::read(&format!(
                "version: 1\n{more}\npeers: {{ca: a, certificate: b, key: c, siblings: {siblings}}}\n"
            ))
        };
        let control = "control: {url: 'http://127.0.0.1:1'}";
        for (good, more) in [
            ("{dns: 'gateways.prod.svc:8082'}", ""),
            ("{dns: 'gateways:8082', server: '10.0.0.10:53'}", ""),
            ("{registry: true}", control),
            ("{registry: true, dns: 'gateways:8082'}", control),
        ] {
            let config = read(good, more).expect(good);
            assert_eq!(Gateway::read(&config.print().unwrap()).unwrap(), config);
            assert!(config.peers.unwrap().has_siblings("us"));
        }
        for (bad, more, part) in [
            ("{}", "", "peers.siblings: names no source"),
            ("{dns: gateways}", "", "peers.siblings.dns: `gateways` is not a name with a port"),
            ("{registry: true}", "", "peers.siblings.registry: is true, and there is no registry"),
            ("{dns: 'a:1', server: '1.1.1.1:0'}", "", "peers.siblings.server: 0 is not a port"),
            ("{registry: true, server: '1.1.1.1:53'}", control, "is for dns, which is missing"),
        ] {
            let found = read(bad, more).expect_err(bad).to_string();
            assert!(found.contains(part), "{part} is missing in {found}");
        }
    }
}
