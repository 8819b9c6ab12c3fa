//! What has changed of a region's replicas, and its bytes, which are the same for all followers.
//!
//! Nearly all bytes of a digest tell of replicas, and most followers were told the same digest
//! before. So what has changed is worked out once and written once, and the message to each
//! follower is a few numbers of its own with these bytes behind them.

use std::sync::OnceLock;

use meridian_base::ReplicaId;
use meridian_routing::{Digest, Remote};
use prost::Message;

use super::proto;

/// Which replicas are to be told of; both lists in the order of ids.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    changed: Vec<Remote>,
    gone: Vec<ReplicaId>,
    bytes: OnceLock<Vec<u8>>,
}

impl PartialEq for Changes {
    /// Whether or not they were written before.
    fn eq(&self, other: &Changes) -> bool {
        (&self.changed, &self.gone) == (&other.changed, &other.gone)
    }
}

impl Changes {
    /// Changes in any order.
    #[must_use]
    pub fn new(mut changed: Vec<Remote>, mut gone: Vec<ReplicaId>) -> Changes {
        changed.sort_by_key(|remote| remote.id);
        gone.sort_unstable();
        Changes { changed, gone, bytes: OnceLock::new() }
    }

    /// What leads from one digest to another.
    pub(super) fn between(old: &Digest, new: &Digest) -> Changes {
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

    /// Replicas that are new or have changed.
    #[must_use]
    pub fn changed(&self) -> &[Remote] {
        &self.changed
    }

    /// Replicas that are not told of any longer.
    #[must_use]
    pub fn gone(&self) -> &[ReplicaId] {
        &self.gone
    }

    /// Whether nothing is to be told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty()
    }

    /// The fields of the protocol's `News` that tell them.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get_or_init(|| {
            let changed = self.changed.iter().map(proto::Replica::from).collect();
            let gone = self.gone.iter().map(|id| id.0.into()).collect();
            proto::News { changed, gone, ..proto::News::default() }.encode_to_vec()
        })
    }
}
