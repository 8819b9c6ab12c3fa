//! `meridian check`: validates the configuration and the files it names, without listening or
//! serving.
//!
//! Errors come from the same functions that a start calls ([`Parts::make`]). Doubts are problems
//! that a start logs and ignores, such as an expired certificate or a prefill replica without a decode
//! replica: the gateway still serves its own clients. An operator who asks sees both as problems.

mod live;
mod pools;

use std::sync::Arc;
use std::time::SystemTime;

use meridian_config::Gateway as Config;
use meridian_tls::Files;

use crate::admin::tls::{self as admin, AdminTls};
use crate::certificates::{self, ClientTls};
use crate::descriptors::check_descriptors;
use crate::error::Error;
use crate::inputs::oidc;
use crate::peers::all::Peers;
use crate::peers::tls as peers;
use crate::record;
use crate::registry::following::Following;
use crate::registry::secured as registry;
use crate::replicas::credentials::{self, Credentials};
use crate::sources;

pub use live::{Live, check_live};

/// Parts made from the files that a configuration names.
pub(crate) struct Parts {
    pub(crate) peers: Option<Arc<Peers>>,
    pub(crate) tls: Option<ClientTls>,
    pub(crate) admin_tls: Option<AdminTls>,
    pub(crate) registry: Option<Arc<Following>>,
    pub(crate) credentials: Arc<Credentials>,
}

impl Parts {
    /// Reads the files.
    ///
    /// # Errors
    /// All problems of the files.
    pub(crate) fn make(
        config: &Config,
        seed: u64,
        block_bytes: Option<usize>,
        policy: &str,
    ) -> Result<Parts, Error> {
        let mut wrong = Vec::new();
        let peers = match Peers::load(config, seed, block_bytes, policy) {
            Ok(peers) => peers.map(Arc::new),
            Err(error) => {
                wrong.push(Error::from(error));
                None
            }
        };
        let tls = match config.tls.as_ref().map(ClientTls::load).transpose() {
            Ok(tls) => tls,
            Err(error) => {
                wrong.push(Error::from(error));
                None
            }
        };
        let admin = config.admin_access.tls.as_ref();
        let admin_tls = match admin.map(AdminTls::load).transpose() {
            Ok(tls) => tls,
            Err(error) => {
                wrong.push(Error::from(error));
                None
            }
        };
        let registry = match Following::new(config, peers.as_ref().map(|peers| peers.own_name())) {
            Ok(registry) => registry.map(Arc::new),
            Err(error) => {
                wrong.push(Error::from(error));
                None
            }
        };
        let credentials = Credentials::load(config).unwrap_or_else(|errors| {
            wrong.extend(errors.into_iter().map(Error::from));
            Credentials::default()
        });
        let credentials = Arc::new(credentials);
        match wrong.len() {
            0 => Ok(Parts { peers, tls, admin_tls, registry, credentials }),
            1 => Err(wrong.swap_remove(0)),
            _ => Err(Error::Several(wrong)),
        }
    }
}

/// Every problem of `config` and of the files it names that keeps a gateway from starting or from
/// working. Only a start can tell whether its addresses are free.
#[must_use]
pub fn check(config: &Config) -> Vec<String> {
    let mut found = config.problems();
    if let Ok(routing) = config.routing() {
        match Parts::make(config, 0, None, routing.policy.name) {
            Ok(_) => {}
            Err(Error::Several(errors)) => found.extend(errors.iter().map(ToString::to_string)),
            Err(error) => found.push(error.to_string()),
        }
    }
    let missing = files(config).into_iter().flat_map(|files| files.missing());
    let missing = missing.map(|error| error.to_string());
    let further: Vec<_> = missing.filter(|missing| !found.contains(missing)).collect();
    found.extend(further);
    found.extend(doubts(config));
    found.extend(sources::problems(config));
    found.extend(record::problems(config));
    found.extend(oidc::problems(config));
    found.extend(check_descriptors(config).err().map(|e| e.to_string()));
    found
}

/// The certificate files of each section.
fn files(config: &Config) -> Vec<Files> {
    let mut files: Vec<Files> = Vec::new();
    files.extend(config.tls.as_ref().map(certificates::files));
    files.extend(config.admin_access.tls.as_ref().map(admin::files));
    files.extend(config.peers.as_ref().and_then(peers::files));
    let control = config.control.as_ref().and_then(|control| control.tls.as_ref());
    files.extend(control.map(registry::files));
    let credentials = config.credentials.iter();
    files.extend(credentials.filter_map(|(name, one)| credentials::files(name, one)));
    files
}

/// Problems of certificates, pools and addresses that do not prevent a start.
pub(crate) fn doubts(config: &Config) -> Vec<String> {
    #[expect(clippy::disallowed_methods, reason = "certificates hold from one date to another")]
    let now = SystemTime::now();
    let mut found = pools::doubts(config);
    for files in &files(config) {
        // An unreadable file is an error, and was reported before.
        let Ok(material) = files.read() else { continue };
        found.extend(files.doubts(&material, now).iter().map(ToString::to_string));
        // Clients and operators may trust other CAs than the fleet's.
        if ["peers", "control.tls"].contains(&&*files.section) {
            found.extend(files.mismatch(&material).map(|error| error.to_string()));
        }
        if files.section == "control.tls" {
            let name = config.control.as_ref().and_then(|control| control.name.as_deref());
            let party = meridian_tls::party(material.certificate()).ok();
            let wrong = party
                .zip(name)
                .and_then(|(party, name)| registry::misnamed(files, &party, &config.region, name));
            found.extend(wrong.map(|error| error.to_string()));
        }
    }
    found.extend(loopback(config));
    found.extend(config.unknown_places());
    if let Some(peers) = &config.peers
        && peers.gateways.is_empty()
        && peers.accept.is_empty()
        && peers.siblings.is_none()
        && config.control.is_none()
    {
        found.push(
            "peers: no gateway is listed, so none may connect; list some in peers.gateways or peers.accept, find those of this region by peers.siblings, or follow a control plane"
                .to_owned(),
        );
    }
    found
}

/// Public addresses that only clients of this machine reach, unless the gateway serves no others.
fn loopback(config: &Config) -> Vec<String> {
    let public = config.control.iter().flat_map(|control| &control.public).enumerate();
    let is_open = !config.listen.ip().is_loopback();
    let wrong = public.filter(|(_, address)| is_open && address.is_loopback());
    let text = |(i, address)| {
        format!(
            "control.public[{i}]: {address} is reached from this machine only; use an address that clients reach"
        )
    };
    wrong.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // A secret whose file is missing is a problem of the file, as it is when a check runs far from where the secret
    // is mounted. The check goes on without it.
    #[test]
    fn a_secret_that_is_not_there() {
        let peers = "{secret: {file: /nowhere/peers}, siblings: {dns: 'gateways:8082'}}";
        let yaml = format!("version: 1\npeers: {peers}\nlisten: 127.0.0.1:0\n");
        let error = Config::examine(&yaml, check).expect_err("there is no such file").to_string();
        assert!(error.contains("peers.secret: there is no file /nowhere/peers"), "{error}");
    }

    // A public address of this machine is a doubt, unless the gateway only listens there.
    #[test]
    fn public_loopback() {
        let of = |listen: &str| {
            let control = "{url: 'http://127.0.0.1:1', name: us-1, public: [203.0.113.7, '::1']}";
            let yaml = format!("version: 1\nlisten: {listen}\ncontrol: {control}\n");
            loopback(&Config::read(&yaml).expect("is valid"))
        };
        assert_eq!(of("127.0.0.1:8080"), Vec::<String>::new());
        let found = of("0.0.0.0:8080");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("control.public[1]: ::1 is reached from this"), "{found:?}");
    }
}
