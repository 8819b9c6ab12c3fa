//! Credentials for replicas: the CA of their certificates, and the key that they expect.
//!
//! Replicas refer to them by name, so that no key and no path of this machine is in a list of replicas,
//! in the registry or in an answer of the admin port.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tls::named;
use crate::peer::label;

/// What a gateway needs to reach some replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// Certificates of the CAs that replicas with https may have theirs from, as PEM; the machine's
    /// trusted CAs if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Key that the gateway sends as `Authorization: Bearer ...`; `engine_key` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
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

pub(super) fn check_all(
    all: &BTreeMap<String, Credentials>,
    check: &mut impl FnMut(bool, String),
) {
    for (name, one) in all {
        if let Err(error) = label("credentials", name) {
            check(false, error.to_string());
        }
        let at = format!("credentials.{name}");
        let ca = one.ca.as_ref().map(|ca| ("ca", ca));
        named(&at, ca.as_slice(), check);
        check(
            one.key.as_deref().is_none_or(is_sendable),
            format!("{at}.key: is empty or has spaces; use printable characters without spaces"),
        );
        check(
            one.ca.is_some() || one.key.is_some(),
            format!("{at}: has neither `ca` nor `key`; set one of them, or remove it"),
        );
    }
}
