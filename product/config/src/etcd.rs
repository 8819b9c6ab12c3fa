//! The control plane's section `etcd`: the registry in etcd instead of a file.

use std::path::PathBuf;

use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::credentials::is_sendable;
use super::tls::named;
use super::{Secret, Span};

/// Most endpoints: etcd itself advises at most seven members.
const MOST_ENDPOINTS: usize = 16;
/// Longest prefix, in bytes.
const MOST_PREFIX: usize = 128;
/// Shortest history: a follower that lost its connection resumes within it.
const LEAST_HISTORY: Span = Span::secs(60);

/// An etcd cluster that keeps the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Etcd {
    /// Its members, as `http://host:port` or `https://host:port`, the nearest first.
    pub endpoints: Vec<String>,
    /// Start of every key that Meridian writes.
    #[serde(default = "prefix")]
    pub prefix: String,
    /// Certificates for https; those of the machine's trusted CAs if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<EtcdTls>,
    /// The user, if etcd has authentication on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The user's password.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::secret::given"
    )]
    pub password: Option<Secret>,
    /// Older history is compacted, in the whole etcd. 0s leaves it to etcd's own
    /// `--auto-compaction-retention`.
    #[serde(default = "history")]
    pub history: Span,
}

/// Certificates for etcd with https.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EtcdTls {
    /// Certificates of the CA of etcd's members, as PEM.
    pub ca: PathBuf,
    /// Certificate to show, if etcd asks clients for one, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

fn prefix() -> String {
    "meridian/".to_owned()
}

fn history() -> Span {
    const HISTORY: Span = Span::secs(600);
    assert!(HISTORY >= LEAST_HISTORY, "the default is within its limit");
    HISTORY
}

impl Etcd {
    pub(super) fn check(&self, check: &mut impl FnMut(bool, String)) {
        let Etcd { endpoints, prefix, tls, user, password, history } = self;
        check_endpoints(endpoints, check);
        let fits = prefix.ends_with('/')
            && prefix.len() <= MOST_PREFIX
            && prefix.bytes().all(|b| b.is_ascii_graphic());
        check(
            fits,
            format!(
                "etcd.prefix: `{prefix}` is not a prefix of keys; end it with `/`, as in `meridian/`, and use at most {MOST_PREFIX} printable characters"
            ),
        );
        let is_https = endpoints.iter().any(|one| one.starts_with("https://"));
        if let Some(tls) = tls {
            tls.check(check);
            check(
                is_https,
                "etcd.tls: is set, and no endpoint is https; write https:// there, or remove tls"
                    .to_owned(),
            );
        }
        check(
            user.is_some() == password.is_some(),
            "etcd.user: needs etcd.password, and the other way round; set both or none".to_owned(),
        );
        check(
            [user.as_deref(), password.as_ref().map(Secret::expose)]
                .into_iter()
                .flatten()
                .all(is_sendable),
            "etcd.password: it or etcd.user is empty or has spaces; use printable characters without spaces"
                .to_owned(),
        );
        check(
            history.0.is_zero() || *history >= LEAST_HISTORY,
            format!(
                "etcd.history: {} is too short for followers that reconnect; use at least 1m, or 0s to compact nothing",
                humantime::format_duration(history.0)
            ),
        );
    }
}

fn check_endpoints(endpoints: &[String], check: &mut impl FnMut(bool, String)) {
    check(
        (1..=MOST_ENDPOINTS).contains(&endpoints.len()),
        format!(
            "etcd.endpoints: has {} entries; name 1 to {MOST_ENDPOINTS} members, as in [https://10.0.0.1:2379]",
            endpoints.len()
        ),
    );
    let lower: Vec<String> = endpoints.iter().map(|one| one.to_lowercase()).collect();
    for (i, one) in endpoints.iter().enumerate() {
        check(
            is_endpoint(one),
            format!(
                "etcd.endpoints[{i}]: `{one}` is not an address; write it as https://10.0.0.1:2379"
            ),
        );
        check(
            !lower[..i].contains(&lower[i]),
            format!("etcd.endpoints[{i}]: `{one}` is there twice; name each member once"),
        );
        let scheme = |url: &str| url.split_once("://").map(|(scheme, _)| scheme.to_owned());
        check(
            !is_endpoint(one) || scheme(one) == scheme(&endpoints[0]),
            format!(
                "etcd.endpoints[{i}]: `{one}` and `{}` differ in http and https; use one of the two",
                endpoints[0]
            ),
        );
    }
}

/// Whether it is scheme, host and port, and nothing else.
fn is_endpoint(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.port_u16().is_some_and(|port| port > 0)
        && uri.path() == "/"
        && uri.query().is_none()
        && !text.ends_with('/')
        && !text.contains('@')
}

impl EtcdTls {
    fn check(&self, check: &mut impl FnMut(bool, String)) {
        let files = [("certificate", &self.certificate), ("key", &self.key)];
        let own = files.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?)));
        let files: Vec<_> = std::iter::once(("ca", &self.ca)).chain(own).collect();
        named("etcd.tls", &files, check);
        check(
            self.certificate.is_some() == self.key.is_some(),
            "etcd.tls.certificate: needs etcd.tls.key, and the other way round; set both or none"
                .to_owned(),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::Control;

    // The short form is enough; what is printed has no password and reads back.
    #[test]
    fn etcd_form() {
        let text = "version: 1\netcd:\n  endpoints: [http://127.0.0.1:2379]\n";
        let config = Control::read(text).unwrap();
        assert_eq!(config.etcd.as_ref().unwrap().prefix, "meridian/");
        let with = format!("{text}  user: m\n  password: open-sesame\n");
        let printed = Control::read(&with).unwrap().print().unwrap();
        assert!(printed.contains("(set)") && !printed.contains("sesame"), "{printed}");
        assert!(Control::is_in(text));
    }

    // Every problem has its field, value and remedy.
    #[test]
    fn etcd_problems() {
        let yaml = "version: 1\nstore: a.redb\netcd:\n  endpoints: [https://a:1, http://b:2, c, https://a:1]\n  \
            prefix: x\n  tls: {ca: ca.crt, key: k}\n  user: m\n  history: 3s\n";
        let found = Control::read(yaml).unwrap_err().problems;
        for part in [
            "store: is set, and etcd is, too",
            "etcd.endpoints[1]: `http://b:2` and `https://a:1` differ",
            "etcd.endpoints[2]: `c` is not an address",
            "etcd.endpoints[3]: `https://a:1` is there twice",
            "etcd.prefix: `x` is not a prefix",
            "etcd.tls.certificate: needs etcd.tls.key",
            "etcd.user: needs etcd.password",
            "etcd.history: 3s is too short",
        ] {
            assert!(found.iter().any(|p| p.text.contains(part)), "{part}: {found:#?}");
        }
        let none = Control::read("version: 1\n").unwrap_err().to_string();
        assert!(none.contains("store: is missing"), "{none}");
    }
}
