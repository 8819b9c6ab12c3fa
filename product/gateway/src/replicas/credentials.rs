//! Trust and keys for replicas, as the section `credentials` of the configuration has them.
//!
//! The section reloads with the configuration, and its files are read again when they change. New
//! connections use the new certificates, and the next request the new key. The machine's own CAs are
//! read when the first replica needs them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use meridian_config::{self as config, Gateway as Config, Secret};
use meridian_tls::{FileError, Files, Look, Reread, of_machine, open_client, open_client_as};
use rustls::ClientConfig;

use crate::lock::RwLock;

const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

/// All credentials of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    /// For replicas that name none.
    usual: Arc<Credential>,
    named: RwLock<BTreeMap<String, Arc<Credential>>>,
    /// Those that the file no longer has, while replicas have them.
    former: RwLock<BTreeMap<String, Arc<Credential>>>,
}

/// Trust and key for some replicas, which share them and see a change at once.
#[derive(Debug, Default)]
pub(crate) struct Credential(RwLock<Arc<Given>>);

/// Trust and key as a configuration has them.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// The key that the replicas expect, as a header value.
    pub(crate) key: Option<HeaderValue>,
    trust: Trust,
}

/// The CAs that their certificates may be from, and the certificate to show them.
enum Trust {
    Machine(OnceLock<Result<Arc<ClientConfig>, String>>),
    File(Reread<Arc<ClientConfig>>),
}

impl Default for Trust {
    fn default() -> Trust {
        Trust::Machine(OnceLock::new())
    }
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Trust::Machine(_) => "Machine",
            Trust::File(_) => "File",
        })
    }
}

impl Given {
    fn load(name: &str, one: &config::Credentials, usual: Option<&str>) -> Result<Self, FileError> {
        let trust = match (files(name, one), one.ca.clone()) {
            (None, None) => Trust::default(),
            (Some(files), _) => {
                let paths = files.paths().into_iter().map(ToOwned::to_owned).collect();
                Trust::File(Reread::new(paths, move || shown(&files))?)
            }
            (None, Some(ca)) => {
                let (section, paths) = (section(name), vec![ca.clone()]);
                let make = move || open_client(&section, &ca, PROTOCOLS).map(Arc::new);
                Trust::File(Reread::new(paths, make)?)
            }
        };
        let own = one.engine_key.as_ref().map(Secret::expose);
        Ok(Given { key: own.or(usual).map(bearer), trust })
    }

    /// The client's side of TLS.
    ///
    /// # Errors
    /// If the machine has no CAs, with the remedy.
    pub(crate) fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        match &self.trust {
            Trust::File(client) => Ok(Arc::clone(&client.now())),
            Trust::Machine(client) => {
                client.get_or_init(|| of_machine(PROTOCOLS).map(Arc::new)).clone()
            }
        }
    }
}

impl Credential {
    /// Whether replicas get a key of ours.
    pub(crate) fn has_key(&self) -> bool {
        self.0.read().key.is_some()
    }

    /// What is in force.
    pub(crate) fn now(&self) -> Arc<Given> {
        self.0.read().clone()
    }
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    /// For each file that can't be used.
    pub(crate) fn load(config: &Config) -> Result<Credentials, Vec<FileError>> {
        let usual = config.engine_key.as_ref().map(Secret::expose);
        let (mut named, mut wrong) = (BTreeMap::new(), Vec::new());
        for (name, one) in &config.credentials {
            match Given::load(name, one, usual) {
                Ok(one) => drop(named.insert(name.clone(), credential(one))),
                Err(error) => wrong.push(error),
            }
        }
        let usual = credential(Given { key: usual.map(bearer), trust: Trust::default() });
        if wrong.is_empty() {
            Ok(Credentials { usual, named: RwLock::new(named), former: RwLock::default() })
        } else {
            Err(wrong)
        }
    }

    /// Adopts those of another file. Replicas that name credentials which it no longer has keep
    /// them.
    pub(crate) fn adopt(&self, newer: &Credentials) {
        *self.usual.0.write() = newer.usual.now();
        let (mut named, mut former) = (self.named.write(), self.former.write());
        let mut known = std::mem::take(&mut *named);
        known.append(&mut former);
        for (name, one) in newer.named.read().iter() {
            let one = match known.remove(name) {
                Some(known) => {
                    *known.0.write() = one.now();
                    known
                }
                None => one.clone(),
            };
            named.insert(name.clone(), one);
        }
        known.retain(|_, one| Arc::strong_count(one) > 1);
        *former = known;
    }

    /// The credentials of that name, or the usual ones; none if there are none of that name.
    pub(crate) fn get(&self, name: Option<&str>) -> Option<Arc<Credential>> {
        match name {
            Some(name) => self.named.read().get(name).cloned(),
            None => Some(self.usual.clone()),
        }
    }

    /// Polls the files and reloads those that changed; with `now`, in any case.
    pub(crate) fn look(&self, now: bool) -> Vec<(String, Look)> {
        let mut named = self.named.read().clone();
        named.extend(self.former.read().clone());
        let look = |(name, one): (String, Arc<Credential>)| match &one.now().trust {
            Trust::Machine(_) => None,
            Trust::File(client) => Some((name, if now { client.reload() } else { client.look() })),
        };
        named.into_iter().filter_map(look).collect()
    }
}

fn credential(given: Given) -> Arc<Credential> {
    Arc::new(Credential(RwLock::new(Arc::new(given))))
}

/// The files of credentials with a certificate to show.
pub(crate) fn files(name: &str, one: &config::Credentials) -> Option<Files> {
    let (certificate, key) = one.own()?;
    let (certificate, key) = (certificate.clone(), key.clone());
    Some(Files { section: section(name).into(), ca: one.ca.clone(), crl: None, certificate, key })
}

fn section(name: &str) -> String {
    format!("credentials.{name}")
}

fn shown(files: &Files) -> Result<Arc<ClientConfig>, FileError> {
    let client = files.read().and_then(|read| open_client_as(files, read, PROTOCOLS));
    // The replicas' operator makes these files, not `meridian certs`.
    let remedy = "check the path, or get the file from the operator of the replicas";
    client.map(Arc::new).map_err(|error| FileError { remedy, ..error })
}

fn bearer(key: &str) -> HeaderValue {
    // The configuration was checked.
    let value = HeaderValue::from_str(&format!("Bearer {key}"));
    let mut value = value.expect("printable characters are a header value");
    value.set_sensitive(true);
    value
}
