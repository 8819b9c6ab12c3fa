//! Opens the store that the configuration names.

use std::path::Path;
use std::sync::Arc;

use meridian_config::Control as Config;
use tokio::time::Instant;

use super::{ServeError, check, since};
use crate::chosen::Chosen;
use crate::embedded::Embedded;
use crate::limits::Limits;

/// Why a build has no etcd.
#[cfg(not(feature = "etcd"))]
pub(super) const NO_ETCD: &str =
    "etcd: this build cannot use it; use a release of Meridian, or build with `--features etcd`";

/// Opens the file, or prepares connections to etcd.
pub(super) fn store(config: &Config, start: Instant) -> Result<Chosen, ServeError> {
    if let Some(etcd) = &config.etcd {
        return shared(etcd);
    }
    let file = file(config);
    check::store(file)?;
    let clock = Arc::new(move || since(start));
    Ok(Chosen::File(Embedded::open(file, Limits::default(), clock)?))
}

#[cfg(feature = "etcd")]
fn shared(etcd: &meridian_config::Etcd) -> Result<Chosen, ServeError> {
    Ok(Chosen::Etcd(crate::etcd::Etcd::new(etcd, Limits::of_etcd())?))
}

#[cfg(not(feature = "etcd"))]
fn shared(_: &meridian_config::Etcd) -> Result<Chosen, ServeError> {
    Err(ServeError::NoEtcd(NO_ETCD))
}

/// Where the store is, for people.
pub(super) fn place(config: &Config, store: &Chosen) -> String {
    match store {
        Chosen::File(_) => config.place(),
        #[cfg(feature = "etcd")]
        Chosen::Etcd(etcd) => format!("etcd at {}", etcd.member()),
    }
}

/// The configured file; a checked configuration without etcd has one.
fn file(config: &Config) -> &Path {
    config.store.as_deref().unwrap_or(Path::new(""))
}
