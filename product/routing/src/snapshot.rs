//! The peers' snapshot: a prefix index over the prompts that this region forwarded.
//!
//! SkyWalker section 3.2: besides the index of its own replicas a region keeps one of its peers,
//! filled with the prompts it forwarded to them. It does not know other regions' prompts there, and
//! shares little with them. For a policy that scores the peers' replicas one by one, those are tracked
//! as well: a forward is entered for the replica it was meant for, and for the one that served it
//! once the peer reports it. Peers and their replicas are targets of one index, so one look-up
//! matches both.

mod slots;

use meridian_base::{Digest, PeerId, ReplicaId};

use crate::index::{IndexSpec, Insert, PrefixIndex, Recalled};
use crate::peer::MOST;
use slots::{MOST_FOLLOWED, Slots};

#[derive(Debug)]
pub(crate) struct Snapshot {
    index: PrefixIndex,
    spec: IndexSpec,
    /// The slot of each of their replicas; `None` for policies that consider peers only.
    slots: Option<Slots>,
    /// One more than the highest target ever used.
    width: usize,
}

impl Snapshot {
    pub(crate) fn new(spec: IndexSpec, follows: bool) -> Snapshot {
        let targets = MOST + if follows { MOST_FOLLOWED } else { 0 };
        Snapshot {
            index: PrefixIndex::new(spec.total_blocks, targets, spec.evict).with_ttl(spec.ttl),
            spec,
            slots: follows.then(Slots::default),
            width: MOST,
        }
    }

    pub(crate) fn index(&mut self) -> &mut PrefixIndex {
        &mut self.index
    }

    /// Length of a buffer for [`Self::matches`].
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn matches(&self, blocks: &[u64], out: &mut [u32]) {
        self.index.matches(blocks, out);
    }

    /// As [`Self::matches`], for a prompt that is matched repeatedly.
    pub(crate) fn matches_again(&self, blocks: &[u64], out: &mut [u32], kept: &mut Recalled) {
        self.index.matches_again(blocks, out, kept);
    }

    pub(crate) fn slot(&self, peer: PeerId, replica: ReplicaId) -> Option<u16> {
        self.slots.as_ref()?.get(peer, replica)
    }

    /// Tracks the replicas listed in a digest, and removes those that are gone.
    pub(crate) fn digested(&mut self, peer: PeerId, digest: &Digest) {
        let tokens = |blocks: &IndexSpec, kv: u64| {
            let each = (blocks.block_bytes / 4).max(1) as u64;
            (kv / each).max(1) as usize
        };
        if digest.kv_tokens > 0 || self.spec.per_target_blocks.is_some() {
            let cap = self.spec.per_target_blocks;
            self.index.set_cap(peer.0, cap.unwrap_or(tokens(&self.spec, digest.kv_tokens)));
        }
        if self.slots.is_none() {
            return;
        }
        if digest.whole {
            // Both lists ascend, so one pass over both finds all that are gone.
            let mut listed = digest.replicas.iter().map(|r| r.id).peekable();
            self.forget(peer, |id| {
                while listed.next_if(|listed| *listed < id).is_some() {}
                listed.peek() != Some(&id)
            });
        }
        for replica in &digest.replicas {
            let Some(slot) = self.allot(peer, replica.id) else { return };
            if replica.kv_tokens > 0.0 {
                let cap = self.spec.per_target_blocks;
                let kv = tokens(&self.spec, replica.kv_tokens as u64);
                self.index.set_cap(slot, cap.unwrap_or(kv));
            }
        }
    }

    /// The slot of a peer's replica, a new one if it has none; `None` if all are taken.
    fn allot(&mut self, peer: PeerId, replica: ReplicaId) -> Option<u16> {
        let slots = self.slots.as_mut()?;
        let slot = slots.get(peer, replica).or_else(|| slots.take(peer, replica))?;
        self.width = self.width.max(usize::from(slot) + 1);
        Some(slot)
    }

    /// Removes the peer and all its replicas.
    pub(crate) fn left(&mut self, peer: PeerId) {
        self.index.remove_target(peer.0);
        self.forget(peer, |_| true);
    }

    fn forget(&mut self, peer: PeerId, gone: impl FnMut(ReplicaId) -> bool) {
        let Some(slots) = &mut self.slots else { return };
        slots.free(peer, gone, |slot| self.index.remove_target(slot));
    }

    /// Records a prompt forwarded to a peer, meant for one of its replicas.
    pub(crate) fn sent(&mut self, peer: PeerId, meant: Option<ReplicaId>, blocks: &[u64]) {
        if self.spec.insert == Insert::OnAnswer {
            return;
        }
        self.index.insert(peer.0, blocks);
        if let Some(slot) = meant.and_then(|r| self.slot(peer, r)) {
            self.index.insert(slot, blocks);
        }
    }

    /// Records a successful forward: `held` is the chain cached there now, prompt and reply if
    /// known.
    pub(crate) fn answered(&mut self, peer: PeerId, served: Option<ReplicaId>, held: &[u64]) {
        if self.spec.insert == Insert::OnDispatch {
            return;
        }
        self.index.insert(peer.0, held);
        if let Some(slot) = served.and_then(|r| self.allot(peer, r)) {
            self.index.insert(slot, held);
        }
    }

    /// Records a forward that may never have been prefilled there: keeps only the blocks that were
    /// there before.
    pub(crate) fn unsent(&mut self, peer: PeerId, blocks: &[u64], keep: u32) {
        self.index.truncate(peer.0, blocks, keep);
    }

    /// Records that the peer used another replica than expected.
    pub(crate) fn not_there(&mut self, peer: PeerId, meant: ReplicaId, blocks: &[u64], keep: u32) {
        if let Some(slot) = self.slot(peer, meant) {
            self.index.truncate(slot, blocks, keep);
        }
    }
}
