//! A replica of this gateway that the registry decides about.

use std::sync::Arc;

use crate::replicas::fleet::Member;

/// A replica here that the registry decides about.
pub(super) struct Ours {
    /// Its name in the registry.
    pub(super) name: String,
    pub(super) member: Arc<Member>,
    /// Whose it is, where it is another region's.
    pub(super) adopted: Option<String>,
    /// The store whose record it is.
    pub(super) store: String,
    pub(super) standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Serves,
    /// Stays, and takes nothing new.
    Drains,
    /// Drains, then leaves.
    Leaves,
}
