//! Changes of a region's replicas, encoded once for all followers.
//!
//! Nearly all bytes of a digest describe replicas, and most followers have received the same
//! previous digest. So the changes are computed once and encoded once, and the message to each
//! follower is a few numbers of its own followed by these bytes.

use std::sync::OnceLock;

use meridian_base::ReplicaId;
use meridian_base::{Digest, PeerReplica};
use prost::Message;

use super::bounds::MOST_REPLICAS;
use super::proto;

/// The replicas to report; both lists are ordered by id.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    changed: Vec<PeerReplica>,
    gone: Vec<ReplicaId>,
    bytes: OnceLock<Vec<u8>>,
}

impl PartialEq for Changes {
    /// Ignores whether the changes were already encoded.
    fn eq(&self, other: &Changes) -> bool {
        (&self.changed, &self.gone) == (&other.changed, &other.gone)
    }
}

impl Changes {
    /// Changes from unordered lists.
    #[must_use]
    pub fn new(mut changed: Vec<PeerReplica>, mut gone: Vec<ReplicaId>) -> Changes {
        changed.sort_by_key(|remote| remote.id);
        gone.sort_unstable();
        Changes { changed, gone, bytes: OnceLock::new() }
    }

    /// The changes from one digest to another.
    pub(super) fn between(old: &Digest, new: &Digest) -> Changes {
        let mut changes = Changes::default();
        let mut old = old.replicas.iter().peekable();
        let mut least = 0;
        for replica in &new.replicas {
            let id = u32::from(replica.id.0);
            assert!(id >= least, "the replicas of a digest are ordered by id, each once");
            least = id + 1;
            while let Some(before) = old.next_if(|before| before.id < replica.id) {
                changes.gone.push(before.id);
            }
            if old.next_if(|before| before.id == replica.id) != Some(replica) {
                changes.changed.push(*replica);
            }
        }
        changes.gone.extend(old.map(|before| before.id));
        changes
    }

    /// Replicas that are new or changed.
    #[must_use]
    pub fn changed(&self) -> &[PeerReplica] {
        &self.changed
    }

    /// Replicas that are no longer reported.
    #[must_use]
    pub fn gone(&self) -> &[ReplicaId] {
        &self.gone
    }

    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty()
    }

    /// The encoded fields of the protocol's `News`.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get_or_init(|| {
            let most = self.changed.len().max(self.gone.len());
            assert!(most <= MOST_REPLICAS, "a peer would refuse so many replicas");
            let changed = self.changed.iter().map(proto::Replica::from).collect();
            let gone = self.gone.iter().map(|id| id.0.into()).collect();
            proto::News { changed, gone, ..proto::News::default() }.encode_to_vec()
        })
    }
}
