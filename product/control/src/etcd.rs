//! The store in etcd, for several control planes at once.
//!
//! Every key starts with the prefix of the configuration, so that one etcd may keep several fleets.
//! Revisions are etcd's own: they also count changes of other prefixes, so they have gaps.
//!
//! A call goes to the member in use and, if that one fails, to the next (`members.rs`). A member may
//! have carried out a call whose answer is lost, so a repeated transaction recognizes its own changes
//! (`txn.rs`). Watches resume on another member after the last revision that they showed
//! (`watch.rs`).
//!
//! Leases end by etcd's own clock. etcd checks them twice a second and restarts them when its leader
//! changes, so a lease may last longer than its duration, never shorter.

mod convert;
mod members;
mod txn;
mod version;
mod watch;

use std::sync::Arc;

use etcd_client::GetOptions;
use meridian_base::Duration;
use meridian_config as config;

use self::convert::{entry, lease_id, revision, ttl};
use self::members::Members;
pub use self::watch::EtcdWatch;
use crate::Error;
use crate::limits::Limits;
use crate::store::{Committed, Entry, Keys, Lease, LeaseId, Listing, Revision, Store, Txn};

/// Largest answer, bytes: the registry of a hundred thousand replicas.
const MOST_ANSWER: usize = 256 << 20;

/// The store in etcd. Cheap to clone.
#[derive(Clone)]
pub struct Etcd {
    shared: Arc<Shared>,
}

struct Shared {
    members: Members,
    prefix: String,
    limits: Limits,
}

impl Etcd {
    /// Connects to no member yet; the first call does.
    ///
    /// # Errors
    /// If a certificate file is unusable.
    pub fn new(config: &config::Etcd, limits: Limits) -> Result<Etcd, meridian_tls::FileError> {
        let members = Members::new(config)?;
        let prefix = config.prefix.clone();
        Ok(Etcd { shared: Arc::new(Shared { members, prefix, limits }) })
    }

    /// Reads the certificate files again if they changed, or if `now`.
    pub fn look(&self, now: bool) -> meridian_tls::Look {
        self.shared.members.look(now)
    }

    /// The member in use.
    #[must_use]
    pub fn member(&self) -> &str {
        self.shared.members.in_use()
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.shared.prefix)
    }
}

impl Store for Etcd {
    type Watch = EtcdWatch;

    fn is_shared(&self) -> bool {
        true
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let full = self.key(key);
        let called = self.shared.members.call(|client| {
            let mut kv = client.kv_client().max_decoding_message_size(MOST_ANSWER);
            let full = full.clone();
            async move { kv.get(full, None).await }
        });
        let found = called.await?.answer;
        found.kvs().first().map(|kv| entry(&self.shared.prefix, kv)).transpose()
    }

    async fn list(&self, prefix: &str) -> Result<Listing, Error> {
        let full = self.key(prefix);
        let called = self.shared.members.call(|client| {
            let mut kv = client.kv_client().max_decoding_message_size(MOST_ANSWER);
            let (full, options) = (full.clone(), Some(GetOptions::new().with_prefix()));
            async move { kv.get(full, options).await }
        });
        let found = called.await?.answer;
        let entries = found.kvs().iter().map(|kv| entry(&self.shared.prefix, kv));
        let entries = entries.collect::<Result<_, _>>()?;
        Ok(Listing { revision: revision(found.header())?, entries })
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, Error> {
        self.shared.limits.admit(&txn)?;
        let request = txn::request(&self.shared.prefix, &txn);
        let called = self.shared.members.call(|client| {
            let mut kv = client.kv_client().max_decoding_message_size(MOST_ANSWER);
            let request = request.clone();
            async move { kv.txn(request).await }
        });
        let called = called.await.map_err(|failed| txn::error(&txn, failed))?;
        txn::committed(&self.shared.prefix, &txn, &called)
    }

    async fn grant(&self, asked: Duration) -> Result<Lease, Error> {
        let seconds = self.shared.limits.grant(asked)?.as_secs();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        // One that is granted twice, because an answer was lost, runs out by itself.
        let called = self
            .shared
            .members
            .call(|mut client| async move { client.lease_grant(seconds, None).await });
        let answer = called.await?.answer;
        Ok(Lease { id: lease_id(answer.id()), ttl: ttl(answer.ttl()) })
    }

    async fn keep_alive(&self, id: LeaseId) -> Result<Duration, Error> {
        let called = self.shared.members.call(|mut client| async move {
            let (mut keeper, mut answers) = client.lease_keep_alive(convert::raw(id)).await?;
            // The client keeps the first answer to itself.
            keeper.keep_alive().await?;
            let closed =
                || etcd_client::Error::WatchError("the member closed the stream".to_owned());
            answers.message().await?.ok_or_else(closed)
        });
        let answer = called.await.map_err(|failed| failed.of_lease(id).0)?.answer;
        if answer.ttl() > 0 { Ok(ttl(answer.ttl())) } else { Err(Error::NoLease(id)) }
    }

    async fn revoke(&self, id: LeaseId) -> Result<(), Error> {
        let called = self
            .shared
            .members
            .call(|mut client| async move { client.lease_revoke(convert::raw(id)).await });
        match called.await.map_err(|failed| failed.of_lease(id)) {
            // An earlier attempt ended it.
            Ok(_) | Err((Error::NoLease(_), true)) => Ok(()),
            Err((error, _)) => Err(error),
        }
    }

    fn watch(&self, keys: &Keys, from: Revision) -> EtcdWatch {
        EtcdWatch::new(self.shared.clone(), keys, from)
    }

    async fn compact(&self, through: Revision) -> Result<(), Error> {
        let at = i64::try_from(through.0).unwrap_or(i64::MAX);
        let called =
            self.shared.members.call(|mut client| async move { client.compact(at, None).await });
        called.await.map(drop).map_err(|failed| failed.of_revision(through))
    }
}
