//! What the control plane asks of a store, and what every store promises.
//!
//! The model is etcd's, cut down to what is used: a flat map from keys to values; one revision for
//! the whole store, raised by one with each transaction that changes something; transactions that
//! are refused when a guard does not hold; leases that take their keys with them; watches that
//! begin at a revision. Where etcd's behaviour leaves room, the promise here is the weaker one, so
//! that whoever keeps to this page can be moved from the embedded store to etcd:
//!
//! - What was acknowledged is durable, and is seen by every later read. A call that failed may have
//!   been carried out all the same ([`Error::Failed`]); guards make it safe to try again.
//! - A watch shows every change after its start once, in order, and all changes of one revision in
//!   one [`Batch`]. It may lag behind reads without bound.
//! - A lease lasts at least its time to live from the last grant or keep-alive that was
//!   acknowledged, and may last longer: a store that was restarted begins every lease anew.
//! - A time to live has whole seconds.
//!
//! Ranges of keys, reads of the past, nested transactions and authentication, which etcd has too,
//! are not here.

use core::fmt;
use std::future::Future;

use meridian_base::Duration;

use crate::Error;

/// Counts the transactions that changed something, from a number of the store's own (the embedded
/// one's is 0, etcd's 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a lease for ever: a store never gives a number out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A lease as it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its name.
    pub id: LeaseId,
    /// How long it lasts without a keep-alive: what was asked for or more.
    pub ttl: Duration,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// When the key came to be.
    pub created: Revision,
    /// When it was last put.
    pub modified: Revision,
    /// Puts since it came to be, from 1.
    pub version: u64,
    /// The lease it goes with.
    pub lease: Option<LeaseId>,
}

/// What must hold for a transaction to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The key is not there.
    Absent(String),
    /// The key is there, last put at this revision.
    At(String, Revision),
}

impl Guard {
    /// The key it is about.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Guard::Absent(key) | Guard::At(key, _) => key,
        }
    }
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the value, and the lease: a put without one takes the key off the lease it had.
    Put {
        /// The key.
        key: String,
        /// Its new value.
        value: Vec<u8>,
        /// The lease it goes with from now on.
        lease: Option<LeaseId>,
    },
    /// Removes the key; nothing happens where it is not there.
    Delete(String),
}

impl Change {
    /// A put that goes with no lease.
    #[must_use]
    pub fn put(key: impl Into<String>, value: impl Into<Vec<u8>>) -> Change {
        Change::Put { key: key.into(), value: value.into(), lease: None }
    }

    /// The key that it changes.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Change::Put { key, .. } | Change::Delete(key) => key,
        }
    }
}

/// Changes that are made together, at one revision, if all guards hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// What must hold.
    pub guards: Vec<Guard>,
    /// What is then done. No key twice.
    pub changes: Vec<Change>,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// Done, at this revision; the present one when nothing needed changing.
    Yes(Revision),
    /// A guard does not hold; nothing was changed. What is at the guarded keys, in their order.
    No(Vec<Option<Entry>>),
}

/// The keys of a prefix at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The store's revision. A watch from the one after it misses nothing.
    pub revision: Revision,
    /// In order of their keys.
    pub entries: Vec<Entry>,
}

/// A change as a watch shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The key was put; the entry as it then was.
    Put(Entry),
    /// The key was deleted, or its lease ran out.
    Deleted(String),
}

/// All changes that one transaction made under a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its revision.
    pub revision: Revision,
    /// At least one.
    pub events: Vec<Event>,
}

/// Keeps the registry.
pub trait Store: Send + Sync + 'static {
    /// What [`Store::watch`] gives.
    type Watch: Watch;

    /// The entry at a key.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<Entry>, Error>> + Send;

    /// The entries whose keys begin with `prefix`.
    fn list(&self, prefix: &str) -> impl Future<Output = Result<Listing, Error>> + Send;

    /// Makes changes, if the guards hold.
    fn commit(&self, txn: Txn) -> impl Future<Output = Result<Committed, Error>> + Send;

    /// A new lease of at least `ttl`.
    fn grant(&self, ttl: Duration) -> impl Future<Output = Result<Lease, Error>> + Send;

    /// Begins a lease anew; its time to live counts from when the store was reached, so an owner
    /// counts from when it asked.
    fn keep_alive(&self, id: LeaseId) -> impl Future<Output = Result<Duration, Error>> + Send;

    /// Ends a lease; its keys are deleted at one revision.
    fn revoke(&self, id: LeaseId) -> impl Future<Output = Result<(), Error>> + Send;

    /// Shows the changes under `prefix` from revision `from` on; that may lie in the future.
    /// [`Error::Compacted`] comes from the watch itself.
    fn watch(&self, prefix: &str, from: Revision) -> Self::Watch;

    /// Lets the store forget the history up to and including `through`; entries stay.
    fn compact(&self, through: Revision) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Changes as they come.
pub trait Watch: Send {
    /// The next one. May be dropped while it waits: nothing is lost. After an error the watch is
    /// over.
    fn next(&mut self) -> impl Future<Output = Result<Batch, Error>> + Send;
}
