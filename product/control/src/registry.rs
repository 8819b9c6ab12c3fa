//! The registry: the desired and the observed state of the fleet, as records in a store.
//!
//! Operators write desired records. Gateways write observed ones, each under a lease, so records
//! that are no longer renewed disappear. Every change of a record names the revision at which it
//! was read, so two operators who change it at once can't silently overwrite each other. A follower
//! of the registry reads a [`View`] and keeps it up to date with a watch.
//!
//! The assignment of replicas to gateways is not stored: it follows from the view, and every
//! gateway computes the same one (`meridian_base::assign`).

mod import;
mod living;
mod name;
mod view;

use meridian_protocol::policy::Policy;
use meridian_protocol::registry::{Region, Replica, Wanted};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use living::Announced;
pub use name::{Key, Kind, followed};
pub use view::{Kept, View};

use crate::Error;
use crate::store::{Change, Committed, Entry, Guard, Revision, Store, Txn};

/// Key of the store's name.
const IDENTITY: &str = "store/name";
/// Attempts of a change that conflicts with other changes.
const ATTEMPTS: usize = 10;

/// Why the registry did not change a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The store failed or refused.
    #[error(transparent)]
    Store(#[from] Error),
    /// A name that can't be part of a key.
    #[error("{what} {name:?} is not a name; use 1 to 63 of a-z, 0-9, `.`, `_` and `-`")]
    Name {
        /// The kind of record.
        what: &'static str,
        /// The name given.
        name: String,
    },
    /// A region name that no certificate can contain and no gateway can send to its peers.
    #[error(
        "region {0:?} is not a name; use lower-case letters, digits and hyphens, a letter first, at most 63 characters"
    )]
    Region(String),
    /// A record of that name exists already.
    #[error("{what} `{name}` exists already; change it, or use another name")]
    There {
        /// The kind of record.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// There is no record of that name.
    #[error("there is no {what} `{name}`; list them for the known names")]
    Unknown {
        /// The kind of record.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A stored record that can't be read.
    #[error("{what} {name} can't be read: {why}; write it again")]
    Unreadable {
        /// The kind of record.
        what: &'static str,
        /// Its name.
        name: String,
        /// The cause.
        why: String,
    },
    /// An invalid policy, or one of its weights.
    #[error("{0}")]
    Policy(String),
    /// An invalid record: every reason with its field, value and remedy.
    #[error("{0}")]
    Record(String),
    /// The record has changed since the caller read it.
    #[error("{what} {name} was changed at revision {now}; read it again, then retry the change")]
    Changed {
        /// The kind of record.
        what: &'static str,
        /// Its name.
        name: String,
        /// Its current revision.
        now: Revision,
    },
    /// The record kept changing during all attempts.
    #[error("{what} {name} is changed by other clients at the same time; retry")]
    Busy {
        /// The kind of record.
        what: &'static str,
        /// Its name.
        name: String,
    },
}

/// The registry in a store.
#[derive(Clone, Debug)]
pub struct Registry<S> {
    store: S,
}

impl<S: Store> Registry<S> {
    /// The registry that `store` holds.
    pub fn new(store: S) -> Registry<S> {
        Registry { store }
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The whole registry at one revision. A watch of the prefix "" from the next revision on keeps
    /// it up to date.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn view(&self) -> Result<View, Refused> {
        Ok(View::of(self.store.list("").await?))
    }

    /// Adds a replica, or adds a removed one again.
    ///
    /// # Errors
    /// If the name is taken or invalid, or the record is invalid.
    pub async fn add_replica(&self, name: &str, replica: &Replica) -> Result<Revision, Refused> {
        let key = Key::replica(name)?;
        good_replica(replica)?;
        self.change(&key, |before: Option<Replica>| match before {
            Some(there) if there.wanted != Wanted::Removed => {
                Err(Refused::There { what: key.what(), name: name.to_owned() })
            }
            _ => Ok(replica.clone()),
        })
        .await
    }

    /// Refuses a replica with the address of another one. Two that are added at the same moment are
    /// not detected; a gateway then leaves out the second by name, and reports it.
    ///
    /// # Errors
    /// If another replica has the address.
    pub async fn free_url(&self, name: &str, replica: &Replica) -> Result<(), Refused> {
        let view = self.view().await?;
        let url = replica.spec.url.trim_end_matches('/');
        let same = |(other, kept): &(&String, &Kept<Replica>)| {
            let there = &kept.record;
            *other != name && there.is_there() && there.spec.url.trim_end_matches('/') == url
        };
        match view.replicas.iter().find(same) {
            Some((other, _)) => Err(Refused::Record(format!(
                "spec.url: `{url}` is the address of replica `{other}`; remove that replica first"
            ))),
            None => Ok(()),
        }
    }

    /// Creates a region's record if there is none.
    ///
    /// # Errors
    /// If the name is invalid.
    pub async fn found_region(&self, name: &str) -> Result<(), Refused> {
        match self.set_region(name, &Region::default(), None).await {
            Ok(_) | Err(Refused::There { .. }) => Ok(()),
            Err(refused) => Err(refused),
        }
    }

    /// Sets the desired state of a replica.
    ///
    /// # Errors
    /// If it is unknown.
    pub async fn want_replica(&self, name: &str, wanted: Wanted) -> Result<Revision, Refused> {
        let key = Key::replica(name)?;
        self.alter(&key, |there: Replica| Replica { wanted, ..there }).await
    }

    /// Adds a region, or changes its record; `at` is the revision at which it was read, if it was.
    ///
    /// # Errors
    /// If it has changed since, or the policy is invalid.
    pub async fn set_region(
        &self,
        name: &str,
        region: &Region,
        at: Option<Revision>,
    ) -> Result<Revision, Refused> {
        region_name(name)?;
        let key = Key::region(name)?;
        good_region(region)?;
        let guard = match at {
            Some(revision) => Guard::At(key.to_string(), revision),
            None => Guard::Absent(key.to_string()),
        };
        match self.put(&key, region, guard).await? {
            Committed::Yes(revision) => Ok(revision),
            Committed::No(found) => Err(match found.into_iter().next().flatten() {
                Some(entry) if at.is_some() => {
                    let (what, name) = (key.what(), name.to_owned());
                    Refused::Changed { what, name, now: entry.modified }
                }
                Some(_) => Refused::There { what: key.what(), name: name.to_owned() },
                None => key.unknown(),
            }),
        }
    }

    /// Changes a region's policy and weights; `None` leaves them to the gateways' own files.
    ///
    /// # Errors
    /// If the region is unknown, or the policy is invalid.
    pub async fn set_policy(
        &self,
        region: &str,
        policy: Option<&Policy>,
    ) -> Result<Revision, Refused> {
        policy.map_or(Ok(()), sound)?;
        let key = Key::region(region)?;
        self.alter(&key, |there: Region| Region { policy: policy.cloned(), ..there }).await
    }

    /// Sets the desired state of a region.
    ///
    /// # Errors
    /// If it is unknown.
    pub async fn want_region(&self, name: &str, wanted: Wanted) -> Result<Revision, Refused> {
        let key = Key::region(name)?;
        self.alter(&key, |there: Region| Region { wanted, ..there }).await
    }

    /// Deletes the record of a removed replica, or of a region, as it was in the view at this
    /// revision: it may have come back since.
    ///
    /// # Errors
    /// If it is unknown, or has changed since.
    pub async fn forget(&self, key: &Key, viewed: Revision) -> Result<Revision, Refused> {
        let text = key.to_string();
        let Some(there) = self.store.get(&text).await? else {
            return Err(key.unknown());
        };
        if there.modified > viewed {
            return Err(key.busy());
        }
        let guards = vec![Guard::At(text.clone(), there.modified)];
        let txn = Txn { guards, changes: vec![Change::Delete(text)] };
        match self.store.commit(txn).await? {
            Committed::Yes(revision) => Ok(revision),
            Committed::No(_) => Err(key.busy()),
        }
    }

    /// The store's own name, set once while it is empty; `fresh` is unique among stores.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn identity(&self, fresh: &str) -> Result<String, Refused> {
        self.name(Guard::Absent(IDENTITY.to_owned()), fresh).await
    }

    /// Gives the store another name, unless another control plane has since `named`: its history is not the
    /// one that followers know.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn rename(&self, named: Option<&Entry>, fresh: &str) -> Result<String, Refused> {
        let key = IDENTITY.to_owned();
        let guard = match named {
            Some(entry) => Guard::At(key, entry.modified),
            None => Guard::Absent(key),
        };
        self.name(guard, fresh).await
    }

    async fn name(&self, guard: Guard, fresh: &str) -> Result<String, Refused> {
        let txn = Txn { guards: vec![guard], changes: vec![Change::put(IDENTITY, fresh)] };
        Ok(match self.store.commit(txn).await? {
            Committed::Yes(_) => fresh.to_owned(),
            Committed::No(found) => {
                let there = found.into_iter().next().flatten().map(|entry| entry.value);
                String::from_utf8_lossy(&there.unwrap_or_default()).into_owned()
            }
        })
    }

    /// The newest revision, and the store's name.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn head(&self) -> Result<(Revision, Option<Entry>), Refused> {
        let found = self.store.list(IDENTITY).await?;
        Ok((found.revision, found.entries.into_iter().next()))
    }

    /// Changes an existing record.
    async fn alter<R: Serialize + DeserializeOwned>(
        &self,
        key: &Key,
        act: impl Fn(R) -> R,
    ) -> Result<Revision, Refused> {
        self.change(key, |before: Option<R>| before.map(&act).ok_or_else(|| key.unknown())).await
    }

    /// Reads a record, changes it and writes it back unless it has changed in between.
    async fn change<R: Serialize + DeserializeOwned>(
        &self,
        key: &Key,
        act: impl Fn(Option<R>) -> Result<R, Refused>,
    ) -> Result<Revision, Refused> {
        let text = key.to_string();
        let mut there: Option<Entry> = self.store.get(&text).await?;
        for _ in 0..ATTEMPTS {
            let before: Option<R> =
                there.as_ref().map(|entry| read(key, &entry.value)).transpose()?;
            let after = act(before)?;
            let guard = match &there {
                Some(entry) => Guard::At(text.clone(), entry.modified),
                None => Guard::Absent(text.clone()),
            };
            match self.put(key, &after, guard).await? {
                Committed::Yes(revision) => return Ok(revision),
                Committed::No(found) => there = found.into_iter().next().flatten(),
            }
        }
        Err(key.busy())
    }

    async fn put(
        &self,
        key: &Key,
        record: &impl Serialize,
        guard: Guard,
    ) -> Result<Committed, Refused> {
        let text = key.to_string();
        assert_eq!(guard.key(), text, "a record is guarded by its own key");
        let changes = vec![Change::put(text, json(record))];
        Ok(self.store.commit(Txn { guards: vec![guard], changes }).await?)
    }
}

/// Refuses a region name that gateways could not send to each other. Records that earlier versions
/// stored under such a name stay readable, and can be removed.
///
/// # Errors
/// If it is not a DNS label in lower case.
pub fn region_name(name: &str) -> Result<(), Refused> {
    let shown = || name.chars().take(64).collect();
    meridian_protocol::peer::label("region", name).map_err(|_| Refused::Region(shown()))
}

fn good_replica(replica: &Replica) -> Result<(), Refused> {
    region_name(&replica.region)?;
    works(replica.problems())
}

fn good_region(region: &Region) -> Result<(), Refused> {
    works(region.problems())?;
    for other in region.rtt_ms.keys().chain(region.adopters.iter().flatten()) {
        region_name(other)?;
    }
    region.policy.as_ref().map_or(Ok(()), sound)
}

fn works(problems: Vec<String>) -> Result<(), Refused> {
    if problems.is_empty() { Ok(()) } else { Err(Refused::Record(problems.join("; "))) }
}

fn sound(policy: &Policy) -> Result<(), Refused> {
    meridian_config::resolve(policy)
        .map(|_| ())
        .map_err(|errors| Refused::Policy(errors.join("; ")))
}

fn json(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("records have only string keys and finite numbers")
}

fn read<R: DeserializeOwned>(key: &Key, value: &[u8]) -> Result<R, Refused> {
    serde_json::from_slice(value).map_err(|error| key.unreadable(&error))
}
