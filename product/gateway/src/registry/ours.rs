//! A replica of this gateway about which the registry decides.

use std::sync::Arc;

use crate::replicas::member::Member;

/// A replica here about which the registry decides.
pub(super) struct Ours {
    /// Its name in the registry.
    pub(super) name: String,
    pub(super) member: Arc<Member>,
    /// Its owner region, if that is another one.
    pub(super) adopted: Option<String>,
    /// The store that contains its record.
    pub(super) store: String,
}
