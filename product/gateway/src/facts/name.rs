//! A replica's name in headers, logs, metrics and at the admin port.

use std::fmt;

use meridian_base::ReplicaId;

/// A replica's name: its id, and how many replicas had that id before, if any. Ids are reused,
/// since they number the rows of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplicaName {
    id: ReplicaId,
    before: u32,
}

impl ReplicaName {
    /// The name of a replica with `id`, which `before` replicas had before.
    pub(crate) fn new(id: ReplicaId, before: u32) -> ReplicaName {
        ReplicaName { id, before }
    }

    /// The id in a name.
    pub(crate) fn id(name: &str) -> Option<ReplicaId> {
        let digits = name.strip_prefix('r')?;
        let id = digits.split_once('.').map_or(digits, |(id, _)| id);
        id.parse().ok().map(ReplicaId)
    }
}

impl fmt::Display for ReplicaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.before {
            0 => write!(f, "{}", self.id),
            n => write!(f, "{}.{}", self.id, n + 1),
        }
    }
}
