//! A replica's name in headers, logs, metrics and at the admin port.

use std::fmt;
use std::sync::Arc;

use meridian_base::ReplicaId;

/// A replica's name: the one that it was given, else its id; and how many replicas had that before, if
/// any. Ids are reused, since they number the rows of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaName {
    id: ReplicaId,
    given: Option<Arc<str>>,
    before: u32,
}

impl ReplicaName {
    /// The name of a replica with `id`, which `before` replicas had before.
    pub(crate) fn new(id: ReplicaId, before: u32) -> ReplicaName {
        ReplicaName { id, given: None, before }
    }

    /// A name that was given to a replica, which `before` others here have that are about to leave.
    pub(crate) fn given(id: ReplicaId, given: &str, before: u32) -> ReplicaName {
        ReplicaName { id, given: Some(given.into()), before }
    }

    /// The id in a name that was not given.
    pub(crate) fn id(name: &str) -> Option<ReplicaId> {
        let digits = name.strip_prefix('r')?;
        let id = digits.split_once('.').map_or(digits, |(id, _)| id);
        id.parse().ok().map(ReplicaId)
    }

    /// The whole name, if it was given.
    pub(crate) fn as_given(&self) -> Option<String> {
        self.given.as_ref().map(|_| self.to_string())
    }
}

impl fmt::Display for ReplicaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.given {
            Some(given) => f.write_str(given)?,
            None => write!(f, "{}", self.id)?,
        }
        match self.before {
            0 => Ok(()),
            n => write!(f, ".{}", n + 1),
        }
    }
}
