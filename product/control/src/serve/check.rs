//! `meridian check`: validates a control plane's configuration and its files without opening the
//! store, which a running control plane has locked.

use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use meridian_config::Control as Config;

use super::ServeError;
use super::dns::Dns;
use super::route53::Route53;
use super::secured::{Secured, files};
#[cfg(feature = "etcd")]
use crate::limits::Limits;

/// Every problem of `config` and of the files it names that keeps a control plane from starting or
/// from working. Only a start can tell whether its address is free.
#[must_use]
pub fn check(config: &Config) -> Vec<String> {
    let mut found = config.problems();
    if let Some(Err(error)) = config.tls.as_ref().map(Secured::load) {
        found.push(error.to_string());
    }
    let missing = config.tls.as_ref().map(files).map(|files| files.missing()).unwrap_or_default();
    let missing = missing.iter().map(ToString::to_string);
    let further: Vec<_> = missing.filter(|missing| !found.contains(missing)).collect();
    found.extend(further);
    found.extend(doubts(config));
    found.extend(config.dns.as_ref().and_then(|dns| Dns::load(dns).err()).map(|e| e.to_string()));
    let route53 = config.route53.as_ref().and_then(|route53| Route53::load(route53).err());
    found.extend(route53.map(|error| error.to_string()));
    found.extend(
        match &config.etcd {
            Some(etcd) => shared(etcd),
            None => config.store.as_deref().and_then(|file| store(file).err()),
        }
        .map(|error| error.to_string()),
    );
    found
}

/// Checks the certificates for etcd. Only a start can tell whether etcd answers.
#[cfg(feature = "etcd")]
fn shared(etcd: &meridian_config::Etcd) -> Option<ServeError> {
    crate::etcd::Etcd::new(etcd, Limits::of_etcd()).err().map(ServeError::Tls)
}

#[cfg(not(feature = "etcd"))]
fn shared(_: &meridian_config::Etcd) -> Option<ServeError> {
    Some(ServeError::NoEtcd(super::open::NO_ETCD))
}

/// Problems of certificates that do not prevent a start.
pub(super) fn doubts(config: &Config) -> Vec<String> {
    #[expect(clippy::disallowed_methods, reason = "certificates hold from one date to another")]
    let now = SystemTime::now();
    let Some(files) = config.tls.as_ref().map(files) else { return Vec::new() };
    // An unreadable file is an error, and was reported before.
    let Ok(material) = files.read() else { return Vec::new() };
    let doubts = files.doubts(&material, now);
    doubts.iter().chain(&files.mismatch(&material)).map(ToString::to_string).collect()
}

/// Checks whether the store can be opened or created at `path`.
///
/// # Errors
/// If it can't.
pub(super) fn store(path: &Path) -> Result<(), ServeError> {
    let tried = if path.exists() {
        OpenOptions::new().read(true).write(true).open(path).map(drop)
    } else {
        beside(path)
    };
    tried.map_err(|source| ServeError::StoreFile { path: path.to_owned(), source })
}

/// Creates a file next to `path`, and removes it.
fn beside(path: &Path) -> io::Result<()> {
    let mut probe = path.as_os_str().to_owned();
    probe.push(".try");
    File::create(&probe).and_then(|_| remove_file(&probe))
}
