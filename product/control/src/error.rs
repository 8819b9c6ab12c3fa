//! Errors of a store.

use crate::store::{LeaseId, Revision};

/// Why a store refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The requested history is no longer kept.
    #[error(
        "revision {asked} is compacted, and the oldest available one is {oldest}; list the prefix again \
         and watch from the revision of that list"
    )]
    Compacted {
        /// The first requested revision.
        asked: Revision,
        /// The first available revision.
        oldest: Revision,
    },
    /// A revision that has not been written yet.
    #[error(
        "revision {asked} does not exist yet, and the newest is {newest}; compact up to that one"
    )]
    Future {
        /// The requested revision.
        asked: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// The lease ran out, was revoked or never existed.
    #[error("lease {0} does not exist: it expired or was released; request a new one")]
    NoLease(LeaseId),
    /// A part of a request exceeds a limit.
    #[error("{what} is {is}, the limit is {limit}; {remedy}")]
    OverLimit {
        /// The part.
        what: &'static str,
        /// Its size.
        is: usize,
        /// The limit.
        limit: usize,
        /// The remedy.
        remedy: &'static str,
    },
    /// A transaction changes a key twice, so its result would depend on the order.
    #[error("key {0:?} is changed twice in one transaction; change it once")]
    Twice(String),
    /// Another process has opened the file.
    #[error("{0} is open in another process; stop that process, or use another file here")]
    Locked(String),
    /// The file is damaged, or was not written by this program.
    #[error(
        "{path} is damaged: {why}; restore it from a backup, or remove it to start with an empty one"
    )]
    Damaged {
        /// The file's path.
        path: String,
        /// The damage.
        why: String,
    },
    /// The file is of a later version of this program.
    #[error("{path} has format {format}, and this version reads {known}; use a newer version")]
    Format {
        /// The file's path.
        path: String,
        /// Version of the file.
        format: u64,
        /// Version of this program.
        known: u64,
    },
    /// No member of etcd answers. Whether a change was made is unknown.
    #[error(
        "etcd does not answer: {0}; a change may have been made. Check its members and the network, read the record, then retry"
    )]
    Unavailable(String),
    /// etcd accepts no changes.
    #[error(
        "etcd has no space left: {0}; compact and defragment it or raise --quota-backend-bytes, then run \
         `etcdctl alarm disarm`"
    )]
    Full(String),
    /// etcd refuses the user.
    #[error("etcd refuses: {0}; check etcd.user, its password and the permissions of its roles")]
    Denied(String),
    /// Reading or writing failed. Whether the change was made is unknown.
    #[error("the store failed: {0}; check the disk, then restart the control plane")]
    Failed(String),
}

impl Error {
    /// Whether a retry may help.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        matches!(self, Error::Locked(_) | Error::Unavailable(_))
    }
}
