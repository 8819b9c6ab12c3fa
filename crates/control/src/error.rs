//! Errors of a store.

use crate::store::{LeaseId, Revision};

/// Why a store refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The requested history is no longer kept.
    #[error(
        "revision {asked} is compacted, the oldest kept is {oldest}; list the prefix again and \
         watch from the revision of that list on"
    )]
    Compacted {
        /// The first requested revision.
        asked: Revision,
        /// The first available revision.
        oldest: Revision,
    },
    /// A revision that has not been written yet.
    #[error("revision {asked} is in the future, the newest is {newest}; compact at most up to it")]
    Future {
        /// The requested revision.
        asked: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// The lease ran out, was revoked or never existed.
    #[error("lease {0} is not there: it ran out or was given back; ask for a new one")]
    NoLease(LeaseId),
    /// A part of a request exceeds a limit.
    #[error("{what} is {is}, the limit is {limit}; {remedy}")]
    Beyond {
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
    #[error("{0} is open in another process; stop that one, or give this one a file of its own")]
    Locked(String),
    /// The file is damaged, or was not written by this program.
    #[error("{path} is damaged: {why}; restore it from a copy, or remove it to begin anew")]
    Damaged {
        /// The file's path.
        path: String,
        /// The damage.
        why: String,
    },
    /// The file is of a later version of this program.
    #[error("{path} has format {format}, this program reads {known}; start the newer program")]
    Format {
        /// The file's path.
        path: String,
        /// Version of the file.
        format: u64,
        /// Version of this program.
        known: u64,
    },
    /// Reading or writing failed. Whether the change was made is unknown.
    #[error("the store failed: {0}; look at the disk, then start again and read what is there")]
    Failed(String),
}

impl Error {
    /// Whether a retry may help.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        matches!(self, Error::Locked(_))
    }
}
