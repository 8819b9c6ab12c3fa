//! The store that the configuration chooses: a file, or etcd.

use meridian_base::Duration;

use crate::Error;
use crate::embedded::{Embedded, Reader};
#[cfg(feature = "etcd")]
use crate::etcd::{Etcd, EtcdWatch};
use crate::store::{
    Batch, Committed, Entry, Keys, Lease, LeaseId, Listing, Revision, Store, Txn, Watch,
};

/// One of the stores. Cheap to clone.
#[derive(Clone)]
pub enum Chosen {
    /// A file of this process.
    File(Embedded),
    /// An etcd that control planes share.
    #[cfg(feature = "etcd")]
    Etcd(Etcd),
}

/// A watch of one of the stores.
pub enum ChosenWatch {
    /// Of the file.
    File(Reader),
    /// Of etcd.
    #[cfg(feature = "etcd")]
    Etcd(EtcdWatch),
}

/// Calls the same method of the store that was chosen.
macro_rules! each {
    ($this:expr, $store:ident => $call:expr) => {
        match $this {
            Chosen::File($store) => $call,
            #[cfg(feature = "etcd")]
            Chosen::Etcd($store) => $call,
        }
    };
}

impl Store for Chosen {
    type Watch = ChosenWatch;

    fn is_shared(&self) -> bool {
        each!(self, store => store.is_shared())
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        each!(self, store => store.get(key).await)
    }

    async fn list(&self, prefix: &str) -> Result<Listing, Error> {
        each!(self, store => store.list(prefix).await)
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, Error> {
        each!(self, store => store.commit(txn).await)
    }

    async fn grant(&self, ttl: Duration) -> Result<Lease, Error> {
        each!(self, store => store.grant(ttl).await)
    }

    async fn keep_alive(&self, id: LeaseId) -> Result<Duration, Error> {
        each!(self, store => store.keep_alive(id).await)
    }

    async fn revoke(&self, id: LeaseId) -> Result<(), Error> {
        each!(self, store => store.revoke(id).await)
    }

    fn watch(&self, keys: &Keys, from: Revision) -> ChosenWatch {
        match self {
            Chosen::File(store) => ChosenWatch::File(store.watch(keys, from)),
            #[cfg(feature = "etcd")]
            Chosen::Etcd(store) => ChosenWatch::Etcd(store.watch(keys, from)),
        }
    }

    async fn compact(&self, through: Revision) -> Result<(), Error> {
        each!(self, store => store.compact(through).await)
    }
}

impl Watch for ChosenWatch {
    async fn next(&mut self) -> Result<Batch, Error> {
        match self {
            ChosenWatch::File(watch) => watch.next().await,
            #[cfg(feature = "etcd")]
            ChosenWatch::Etcd(watch) => watch.next().await,
        }
    }
}
