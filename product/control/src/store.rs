//! The interface of a store, and the guarantees of every store.
//!
//! The model is etcd's, reduced to the parts in use: a flat map from keys to values; one revision
//! for the whole store, which each changing transaction increments by one; transactions that are
//! refused if a guard does not hold; leases with keys that end with them; watches that start at a
//! revision. If etcd's behaviour leaves a choice, the guarantee here is the weaker one, so code
//! that relies only on this page can move from the embedded store to etcd:
//!
//! - Acknowledged changes are durable, and every later read sees them. A call that failed may still
//!   have been carried out ([`Error::Failed`]); guards make a retry safe.
//! - A watch shows every change after its start once, in order, and all changes of one revision in
//!   one [`Batch`]. It may lag behind reads without bound.
//! - A lease lasts at least its duration from the last acknowledged grant or keep-alive, and may
//!   last longer: a restarted store restarts every lease.
//! - A lease's duration is in whole seconds.
//!
//! - Revisions may have gaps.
//!
//! etcd's reads of the past and nested transactions are not here.

use core::fmt;
use std::future::Future;

use meridian_base::Duration;

use crate::Error;

/// Number of the changing transactions so far, starting at a number of the store (the embedded
/// one's is 0, etcd's 1). etcd also counts those of other prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The next revision. No store reaches the largest number, but a client may send it.
    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A unique name of a lease: a store never reuses a number.
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
    /// Its id.
    pub id: LeaseId,
    /// Its duration without a keep-alive: at least the requested one.
    pub ttl: Duration,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// Revision at which the key was created.
    pub created: Revision,
    /// Revision of the last put.
    pub modified: Revision,
    /// Number of puts since the key was created, from 1.
    pub version: u64,
    /// The lease it is bound to.
    pub lease: Option<LeaseId>,
}

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The key does not exist.
    Absent(String),
    /// The key exists, and was last put at this revision.
    At(String, Revision),
}

impl Guard {
    /// The key it refers to.
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
    /// Sets the value and the lease: a put without a lease removes the key's previous one.
    Put {
        /// The key.
        key: String,
        /// Its new value.
        value: Vec<u8>,
        /// The lease it is now bound to.
        lease: Option<LeaseId>,
    },
    /// Removes the key, if it exists.
    Delete(String),
}

impl Change {
    /// A put without a lease.
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
    /// The conditions.
    pub guards: Vec<Guard>,
    /// The changes. No key twice.
    pub changes: Vec<Change>,
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// Committed at this revision; the current one if nothing had to change.
    Yes(Revision),
    /// A guard does not hold and nothing was changed. The entries at the guarded keys, in their
    /// order.
    No(Vec<Option<Entry>>),
}

/// The keys of a prefix at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The store's revision. A watch from the next one misses nothing.
    pub revision: Revision,
    /// In order of their keys.
    pub entries: Vec<Entry>,
}

/// A change as seen by a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The key was put; the entry after it.
    Put(Entry),
    /// The key was deleted, or its lease ran out.
    Deleted(String),
}

/// All changes of one transaction under a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its revision.
    pub revision: Revision,
    /// At least one.
    pub events: Vec<Event>,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    from: String,
    /// The first key behind it; none if it has no end.
    end: Option<String>,
}

impl Keys {
    /// The keys that start with an ASCII `prefix`; all if it is empty.
    ///
    /// # Panics
    /// If the prefix ends with another character.
    #[must_use]
    pub fn prefix(prefix: &str) -> Keys {
        let mut end = prefix.as_bytes().to_vec();
        // The next character has one byte, too; otherwise the range would have no end.
        let has_next = end.last().is_none_or(|last| *last < 0x7f);
        assert!(has_next, "a prefix of keys ends with an ASCII character");
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let end = String::from_utf8(end).ok().filter(|end| !end.is_empty());
        Keys { from: prefix.to_owned(), end }
    }

    /// From the first prefix through the last key of the second.
    ///
    /// # Panics
    /// If the second comes before the first.
    #[must_use]
    pub fn through(first: &str, last: &str) -> Keys {
        assert!(first <= last, "a range of keys is not empty");
        Keys { from: first.to_owned(), ..Keys::prefix(last) }
    }

    /// Whether a key is in it.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        *key >= *self.from && self.end.as_ref().is_none_or(|end| *key < **end)
    }

    /// Its first key, and the first one behind it, in a store where each key starts with `root`.
    #[must_use]
    pub fn range(&self, root: &str) -> (String, String) {
        let end = self.end.as_ref().map(|end| format!("{root}{end}"));
        let end = end.or(Keys::prefix(root).end).unwrap_or_else(|| "\0".to_owned());
        (format!("{root}{}", self.from), end)
    }
}

/// Keeps the registry.
pub trait Store: Send + Sync + 'static {
    /// The type of [`Store::watch`]'s result.
    type Watch: Watch;

    /// Whether other processes write to it, too.
    fn is_shared(&self) -> bool;

    /// The entry at a key.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<Entry>, Error>> + Send;

    /// The entries whose keys start with `prefix`.
    fn list(&self, prefix: &str) -> impl Future<Output = Result<Listing, Error>> + Send;

    /// Makes changes if the guards hold.
    fn commit(&self, txn: Txn) -> impl Future<Output = Result<Committed, Error>> + Send;

    /// A new lease of at least `ttl`.
    fn grant(&self, ttl: Duration) -> impl Future<Output = Result<Lease, Error>> + Send;

    /// Renews a lease. Its duration counts from when the request reached the store, so an owner
    /// counts from when it sent the request.
    fn keep_alive(&self, id: LeaseId) -> impl Future<Output = Result<Duration, Error>> + Send;

    /// Ends a lease; its keys are deleted at one revision.
    fn revoke(&self, id: LeaseId) -> impl Future<Output = Result<(), Error>> + Send;

    /// Watches the changes of `keys` from revision `from` on, which may lie in the future. The watch
    /// itself returns [`Error::Compacted`].
    fn watch(&self, keys: &Keys, from: Revision) -> Self::Watch;

    /// Deletes the history up to and including `through`; entries stay.
    fn compact(&self, through: Revision) -> impl Future<Output = Result<(), Error>> + Send;
}

/// A stream of changes.
pub trait Watch: Send {
    /// The next batch. May be dropped while it waits: nothing is lost. After an error the watch has
    /// ended.
    fn next(&mut self) -> impl Future<Output = Result<Batch, Error>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    // A range has its keys and no others, and is the same range behind the prefix of a shared store.
    #[test]
    fn ranges() {
        let all = Keys::prefix("");
        assert!(all.has("") && all.has("z"));
        assert_eq!(all.range("m/"), ("m/".to_owned(), "m0".to_owned()));
        let some = Keys::through("desired/", "observed/gateway/");
        let has = ["desired/region/eu", "desired/replica/a", "observed/gateway/g"];
        assert!(has.iter().all(|key| some.has(key)));
        let others = ["control/leader", "observed/load/g", "observed/replica/a/g", "store/name"];
        assert!(others.iter().all(|key| !some.has(key)));
        assert_eq!(some.range("m/"), ("m/desired/".to_owned(), "m/observed/gateway0".to_owned()));
    }
}
