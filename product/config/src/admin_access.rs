//! Access to a gateway's admin port.
//!
//! On a loopback address the port is open to every process of the machine, but to no web page. On
//! any other address any client that reaches it could take over the gateway, so it needs a token or
//! certificates of the fleet.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KeyHash;
use super::tls::named;
use super::twice::twice;

/// Limits on the number of names of an admin port and on their length.
const MOST_HOSTS: usize = 64;
const MOST_NAME: usize = 253;
/// Most tokens: each request's token is compared with all of them.
const MOST_TOKENS: usize = 16;

/// Credentials that a request to the admin port needs, and the names of the port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdminAccess {
    /// Tokens, as `meridian tenant-key` prints them; several during a rotation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<KeyHash>,
    /// TLS on the port; plain HTTP if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<AdminTls>,
    /// Names of the port, besides IP addresses and localhost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// Certificates of the admin port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdminTls {
    /// Certificates of the fleet's CA. The port admits operators with a certificate of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Revocation lists of that CA, as PEM; if absent, no certificate counts as revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crl: Option<PathBuf>,
    /// The certificate that the port shows, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
}

impl AdminAccess {
    /// Whether no setting is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == AdminAccess::default()
    }

    /// Whether a request needs a token or a certificate.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        !self.tokens.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.ca.is_some())
    }

    pub(super) fn check(&self, admin: std::net::SocketAddr, check: &mut impl FnMut(bool, String)) {
        check(
            admin.ip().is_loopback() || self.is_closed(),
            format!(
                "admin: {admin} accepts connections from other machines, and admin_access has neither tokens nor tls.ca; set one (`meridian tenant-key --new` makes a token), or use 127.0.0.1"
            ),
        );
        let count = self.tokens.len();
        check(
            count <= MOST_TOKENS,
            format!("admin_access.tokens: {count} tokens; use at most {MOST_TOKENS}"),
        );
        check(
            self.tokens.iter().all(|token| token.0.is_some()),
            "admin_access.tokens: one is not the hash of a token; copy the hash that `meridian tenant-key` prints, sha256: and 64 hex digits".to_owned(),
        );
        twice("admin_access.tokens", &self.tokens, check);
        if let Some(tls) = &self.tls {
            let mut files = vec![("certificate", &tls.certificate), ("key", &tls.key)];
            files.extend(tls.ca.iter().map(|ca| ("ca", ca)));
            files.extend(tls.crl.iter().map(|crl| ("crl", crl)));
            named("admin_access.tls", &files, check);
        }
        check_hosts("admin_access.hosts", &self.hosts, check);
    }
}

/// Checks the names of a port.
pub(super) fn check_hosts(at: &str, hosts: &[String], check: &mut impl FnMut(bool, String)) {
    check(
        hosts.len() <= MOST_HOSTS,
        format!("{at}: {} names; use at most {MOST_HOSTS}", hosts.len()),
    );
    twice(at, hosts, check);
    for (i, host) in hosts.iter().enumerate() {
        let authority = host.parse::<http::uri::Authority>();
        let fits = host.len() <= MOST_NAME
            && authority.is_ok_and(|a| !a.host().is_empty() && !host.contains(['@', '*']));
        let shown: String = host.chars().take(MOST_NAME).collect();
        check(
            fits,
            format!(
                "{at}[{i}]: `{shown}` is not a host name; write one, as in meridian.example.org"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::{Control, Gateway};

    fn gateway(lines: &str) -> Result<Gateway, String> {
        Gateway::read(&format!("version: 1\n{lines}\n")).map_err(|error| error.to_string())
    }

    // Names of the admin port are host names, in both configuration files. The error about any
    // other text names its place.
    #[test]
    fn hosts_are_names() {
        let hosts = |hosts: &str| gateway(&format!("admin_access: {{hosts: {hosts}}}"));
        let good = hosts("[gw.example.org, 'gw:8081']").expect("are names");
        assert_eq!(Gateway::read(&good.print().expect("prints")).expect("reads back"), good);
        for bad in ["", "http://x", "*.example.org", "a b"] {
            let error = hosts(&format!("['{bad}']")).expect_err(bad);
            let part = format!("admin_access.hosts[0]: `{bad}` is not a host name");
            assert!(error.starts_with(&part), "{error}");
            let yaml = format!("version: 1\nstore: a\nadmin_hosts: ['{bad}']\n");
            let error = Control::read(&yaml).expect_err(bad).to_string();
            assert!(error.starts_with("admin_hosts[0]: "), "{error}");
        }
    }

    // Beyond this machine the port needs tokens or the fleet's certificates. A server certificate
    // alone does not authenticate clients.
    #[test]
    fn a_port_beyond_this_machine_is_closed() {
        let token = format!("sha256:{}", "0a".repeat(32));
        let closed = format!("admin_access: {{tokens: ['{token}']}}");
        let server = "admin_access: {tls: {certificate: a, key: b}}";
        let fleet = "admin_access: {tls: {ca: c, certificate: a, key: b}}";
        let at = |admin: &str, more: &str| gateway(&format!("admin: {admin}:8081\n{more}"));
        for admin in ["0.0.0.0", "10.0.0.7", "'[::]'"] {
            let admin = admin.trim_matches('\'');
            let quoted = |more: &str| gateway(&format!("admin: '{admin}:8081'\n{more}"));
            for open in ["", server, "admin_access: {hosts: [a]}"] {
                let error = quoted(open).expect_err(open);
                assert!(error.contains("admin_access has neither tokens nor tls.ca"), "{error}");
                assert!(error.contains(&format!("admin: {admin}:8081")), "{error}");
            }
            for good in [closed.as_str(), fleet] {
                let read = quoted(good).expect(good);
                assert_eq!(Gateway::read(&read.print().expect("prints")).expect("reads"), read);
            }
        }
        for open in ["", server] {
            assert!(at("127.0.0.1", open).is_ok(), "{open}");
        }
        let error = at("127.0.0.1", "admin_access: {tokens: [my-secret]}").expect_err("no hash");
        assert!(error.contains("one is not the hash") && !error.contains("my-secret"), "{error}");
    }
}
