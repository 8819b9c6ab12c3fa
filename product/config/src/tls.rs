//! Paths of certificates.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The server certificate for clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate followed by its intermediates, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
}

/// Certificates for mutual TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MutualTls {
    /// Certificates of the fleet's CA, as PEM.
    pub ca: PathBuf,
    /// Revocation lists of that CA, as PEM; if absent, no certificate counts as revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crl: Option<PathBuf>,
    /// This process's certificate, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
}

impl MutualTls {
    pub(super) fn check(&self, at: &str, check: &mut impl FnMut(bool, String)) {
        let files = [("ca", &self.ca), ("certificate", &self.certificate), ("key", &self.key)];
        named(at, &files, check);
        let lists = self.crl.as_ref().map(|crl| ("crl", crl));
        named(at, lists.as_slice(), check);
    }
}

impl Tls {
    pub(super) fn check(&self, at: &str, check: &mut impl FnMut(bool, String)) {
        named(at, &[("certificate", &self.certificate), ("key", &self.key)], check);
    }
}

/// Checks that each configured path is not empty.
pub(super) fn named(at: &str, files: &[(&str, &PathBuf)], check: &mut impl FnMut(bool, String)) {
    for (name, path) in files {
        check(
            !path.as_os_str().is_empty(),
            format!("{at}.{name}: is empty; name a PEM file, such as `meridian certs` makes"),
        );
    }
}
