//! The control plane's section `dns`: one name for all regions. The name server checks the names and
//! the map itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;
use super::twice::twice;

/// Most addresses to listen on.
const MOST_SOCKETS: usize = 16;

/// The name server of a zone that clients use for all regions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// Addresses for queries over UDP and TCP. On a machine with several addresses, list each.
    pub listen: Vec<SocketAddr>,
    /// The zone, such as `llm.example.org`.
    pub zone: String,
    /// The zone's name servers with their addresses; a name without a dot is inside the zone.
    pub nameservers: BTreeMap<String, Vec<IpAddr>>,
    /// How long resolvers keep the gateways' addresses, in whole seconds.
    #[serde(default = "ttl")]
    pub ttl: Span,
    /// How long resolvers keep the answer that a name or a type does not exist, in whole seconds.
    #[serde(default = "negative_ttl")]
    pub negative_ttl: Span,
    /// Mail address of the people who run the zone; `hostmaster` at the zone if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// Region of clients that no prefix contains; such clients get the gateways of all regions if it
    /// is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Prefixes of the clients of each region.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients: BTreeMap<String, Vec<String>>,
    /// File with a line `PREFIX REGION` for each further prefix. It is read again when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients_file: Option<PathBuf>,
}

fn ttl() -> Span {
    Span::secs(10)
}

fn negative_ttl() -> Span {
    Span::secs(5)
}

impl Dns {
    pub(super) fn check(&self, check: &mut impl FnMut(bool, String)) {
        check(
            (1..=MOST_SOCKETS).contains(&self.listen.len()),
            format!(
                "dns.listen: has {} addresses; list 1 to {MOST_SOCKETS}, as in [0.0.0.0:53]",
                self.listen.len()
            ),
        );
        for (i, address) in self.listen.iter().enumerate() {
            check(
                !self.listen[..i].contains(address),
                format!("dns.listen[{i}]: {address} is there twice; list each address once"),
            );
        }
        for (region, prefixes) in &self.clients {
            check(
                !prefixes.is_empty(),
                format!(
                    "dns.clients.{region}: is empty, so no client is led there by it; list prefixes, as in [10.1.0.0/16], or remove it"
                ),
            );
            twice(&format!("dns.clients.{region}"), prefixes, check);
        }
        check(
            self.clients_file.as_ref().is_none_or(|file| file.file_name().is_some()),
            "dns.clients_file: is not a file name; name a file with a line PREFIX REGION for each"
                .to_owned(),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::Control;

    // The short form has the defaults, and reads back.
    #[test]
    fn dns_form() {
        let yaml = "version: 1\nstore: a.redb\ndns:\n  listen: ['127.0.0.1:5353']\n  \
            zone: llm.example.org\n  nameservers: {ns1: [192.0.2.1]}\n  clients: {eu: [10.1.0.0/16]}\n";
        let config = Control::read(yaml).unwrap();
        let dns = config.dns.as_ref().unwrap();
        assert_eq!((dns.ttl.0.as_secs(), dns.negative_ttl.0.as_secs()), (10, 5));
        assert_eq!(Control::read(&config.print().unwrap()).unwrap(), config);
        let none = yaml.replace("['127.0.0.1:5353']", "[]");
        let error = Control::read(&none).unwrap_err().to_string();
        assert!(error.contains("dns.listen: has 0 addresses"), "{error}");
    }
}
