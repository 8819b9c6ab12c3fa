//! A digest as all followers are told it: what has changed since the one before is worked out once for
//! those that were told that one.

use std::sync::Arc;

use meridian_base::ReplicaId;
use meridian_routing::{Digest, Remote};

use super::bounds::MOST_REPLICAS;

/// A digest, and what has changed.
#[derive(Clone, Debug, Default)]
pub struct Page {
    digest: Arc<Digest>,
    before: Option<Arc<Digest>>,
    changes: Changes,
}

/// Both lists are in the order of ids.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Replicas that are new or have changed.
    pub(super) changed: Vec<Remote>,
    /// Replicas that are there no longer.
    pub(super) gone: Vec<ReplicaId>,
}

impl From<Digest> for Page {
    /// A page with none before it.
    fn from(mut digest: Digest) -> Page {
        digest.whole &= digest.replicas.len() <= MOST_REPLICAS;
        digest.replicas.truncate(MOST_REPLICAS);
        Page { digest: Arc::new(digest), ..Page::default() }
    }
}

impl Page {
    /// The page that comes after this one.
    #[must_use]
    pub fn next(&self, digest: Digest) -> Page {
        let page = Page::from(digest);
        let changes = Changes::between(&self.digest, &page.digest);
        Page { before: Some(self.digest.clone()), changes, ..page }
    }

    /// What it says.
    #[must_use]
    pub fn digest(&self) -> &Arc<Digest> {
        &self.digest
    }

    /// What is new to somebody who was told `before`.
    pub(super) fn since(&self, before: Option<&Arc<Digest>>) -> Changes {
        match (before, &self.before) {
            (Some(told), Some(before)) if Arc::ptr_eq(told, before) => self.changes.clone(),
            (Some(told), _) => Changes::between(told, &self.digest),
            (None, _) => Changes::between(&Digest::default(), &self.digest),
        }
    }
}

impl Changes {
    fn between(old: &Digest, new: &Digest) -> Changes {
        let mut changes = Changes::default();
        let mut old = old.replicas.iter().peekable();
        for remote in &new.replicas {
            while let Some(before) = old.next_if(|before| before.id < remote.id) {
                changes.gone.push(before.id);
            }
            if old.next_if(|before| before.id == remote.id) != Some(remote) {
                changes.changed.push(*remote);
            }
        }
        changes.gone.extend(old.map(|before| before.id));
        changes
    }
}
