//! What a store can answer instead of doing what it was asked.

use crate::store::{LeaseId, Revision};

/// Why a store did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The history that was asked for is no longer kept.
    #[error(
        "revision {asked} is compacted, the oldest kept is {oldest}; list the prefix again and \
         watch from the revision of that list on"
    )]
    Compacted {
        /// The first revision that was asked for.
        asked: Revision,
        /// The first one that can be had.
        oldest: Revision,
    },
    /// A revision that nothing has been written at yet.
    #[error("revision {asked} is in the future, the newest is {newest}; compact at most up to it")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// The newest there is.
        newest: Revision,
    },
    /// The lease ran out, was given back or never was.
    #[error("lease {0} is not there: it ran out or was given back; ask for a new one")]
    NoLease(LeaseId),
    /// Something of a request is beyond its bound.
    #[error("{what} is {is}, the limit is {limit}; {remedy}")]
    Beyond {
        /// What it is.
        what: &'static str,
        /// Its size.
        is: usize,
        /// The bound.
        limit: usize,
        /// What to do about it.
        remedy: &'static str,
    },
    /// One transaction changes a key twice, so that its result would depend on their order.
    #[error("key {0:?} is changed twice in one transaction; change it once")]
    Twice(String),
    /// Another process has the file.
    #[error("{0} is open in another process; stop that one, or give this one a file of its own")]
    Locked(String),
    /// The file is not one that this program wrote in one piece.
    #[error("{path} is damaged: {why}; restore it from a copy, or remove it to begin anew")]
    Damaged {
        /// Which file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file is of a later version of this program.
    #[error("{path} has format {format}, this program reads {known}; start the newer program")]
    Format {
        /// Which file.
        path: String,
        /// What the file says.
        format: u64,
        /// What is known here.
        known: u64,
    },
    /// Reading or writing failed. Whether the change was made is not known.
    #[error("the store failed: {0}; look at the disk, then start again and read what is there")]
    Failed(String),
}

impl Error {
    /// Whether asking the same again may help.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        matches!(self, Error::Locked(_))
    }
}
