//! Credentials for replicas: the CA of their certificates, the certificate to show them, and the API
//! key that they expect.
//!
//! Replicas refer to them by name, so that no key and no path of this machine is in a list of replicas,
//! in the registry or in an answer of the admin port.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Secret;
use super::tls::named;
use meridian_protocol::peer::label;

/// What a gateway needs to reach some replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// Certificates of the CAs that replicas with https may have theirs from, as PEM; the machine's
    /// trusted CAs if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Certificate to show to replicas that ask for one, followed by its intermediates, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// API key that the gateway sends as `Authorization: Bearer ...`; the gateway's `engine_key` if
    /// absent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::secret::given"
    )]
    pub engine_key: Option<Secret>,
}

impl Credentials {
    /// The certificate to show, and its key.
    #[must_use]
    pub fn own(&self) -> Option<(&PathBuf, &PathBuf)> {
        self.certificate.as_ref().zip(self.key.as_ref())
    }

    fn check(&self, at: &str, check: &mut impl FnMut(bool, String)) {
        let Credentials { ca, certificate, key, engine_key } = self;
        let files = [("ca", ca), ("certificate", certificate), ("key", key)];
        let files: Vec<(&str, &PathBuf)> =
            files.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?))).collect();
        named(at, &files, check);
        let missing = match (certificate, key) {
            (Some(_), None) => Some(("certificate", "key")),
            (None, Some(_)) => Some(("key", "certificate")),
            _ => None,
        };
        if let Some((has, misses)) = missing {
            check(
                false,
                format!(
                    "{at}.{has}: is a file without `{misses}`; set both, and write an API key as `engine_key`"
                ),
            );
        }
        check(
            engine_key.as_ref().is_none_or(|key| is_sendable(key.expose())),
            format!(
                "{at}.engine_key: has spaces or special characters; use printable characters without spaces"
            ),
        );
        check(
            !files.is_empty() || engine_key.is_some(),
            format!(
                "{at}: is empty; set `ca`, `certificate` and `key`, or `engine_key`, or remove it"
            ),
        );
    }
}

/// Whether a key can be sent in a header.
pub(super) fn is_sendable(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic())
}

/// The problem of a replica that refers to credentials that are not there, and its remedy.
#[must_use]
pub fn unknown_credentials(name: &str, all: &BTreeMap<String, Credentials>) -> Option<String> {
    (!all.contains_key(name)).then(|| {
        let known: Vec<&str> = all.keys().map(String::as_str).collect();
        let remedy = match known.is_empty() {
            true => "add a section `credentials` with that name to the gateway's file".to_owned(),
            false => format!("use {}, or add it there", known.join(" or ")),
        };
        format!("credentials: `{name}` is not in the section `credentials`; {remedy}")
    })
}

pub(super) fn check_all(all: &BTreeMap<String, Credentials>, check: &mut impl FnMut(bool, String)) {
    for (name, one) in all {
        if let Err(error) = label("credentials", name) {
            check(false, error.to_string());
        }
        one.check(&format!("credentials.{name}"), check);
    }
}
