//! A policy at work: its own state, and the index that it requires. The machine follows one; it may
//! have another one beside it, whose decisions are only recorded (`shadow.rs`).

use alloc::boxed::Box;
use meridian_base::{ReplicaId, Time};

use crate::admission::Admission;
use crate::index::{IndexSpec, Insert, PrefixIndex};
use crate::policy::{Params, Policy, Spec};
use crate::reuse::HitShare;

/// Tokens of a block if the policy has no index.
const BLOCK_TOKENS: u64 = 16;

pub(crate) struct PolicyState {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) admission: Admission,
    pub(crate) index: Option<PrefixIndex>,
    pub(crate) hits: HitShare,
    /// Mixed into the seed of its random draws; 0 for those of the policy that is followed.
    pub(crate) stream: u64,
    needs: Option<IndexSpec>,
}

/// The bounds of an index.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Most entries.
    pub(crate) entries: usize,
    /// One more than the highest replica's id.
    pub(crate) targets: usize,
}

impl PolicyState {
    /// A policy without any state, with an empty index.
    pub(crate) fn new(
        (policy, params): (&'static Spec, &Params),
        admission: Admission,
        bounds: Bounds,
    ) -> PolicyState {
        let needs = (policy.index)(params);
        let index = needs.map(|needs| {
            let entries = needs.total_blocks.min(bounds.entries);
            PrefixIndex::new(entries, bounds.targets, needs.evict).with_ttl(needs.ttl)
        });
        let hits = HitShare::default();
        PolicyState { policy: (policy.build)(params), admission, index, hits, stream: 0, needs }
    }

    /// Takes over the index and the share of hits of another rule if it requires the same index;
    /// false if not.
    pub(crate) fn inherit(&mut self, from: &mut PolicyState) -> bool {
        core::mem::swap(&mut self.hits, &mut from.hits);
        let is_same = self.needs == from.needs;
        if is_same {
            core::mem::swap(&mut self.index, &mut from.index);
        }
        is_same
    }

    /// When chains are inserted.
    pub(crate) fn insert(&self) -> Insert {
        self.needs.map_or(Insert::OnDispatch, |needs| needs.insert)
    }

    /// The time at which later operations use entries.
    pub(crate) fn set_now(&mut self, now: Time) {
        if let Some(index) = &mut self.index {
            index.set_now(now);
        }
    }

    /// Removes the entries of a replica that were unused for too long.
    pub(crate) fn expire(&mut self, now: Time, id: ReplicaId) {
        if let Some(index) = &mut self.index {
            index.set_now(now);
            index.expire(id.0);
        }
    }

    /// Bounds what a replica whose KV cache has this many tokens may hold.
    pub(crate) fn set_cap(&mut self, id: ReplicaId, kv_tokens: u64) {
        let Some(index) = &mut self.index else { return };
        // About 4 bytes a token: a block of B bytes stands for B / 4 tokens.
        let block_tokens = self.needs.map_or(BLOCK_TOKENS, |n| (n.block_bytes / 4).max(1) as u64);
        let by_kv = (kv_tokens / block_tokens).max(1) as usize;
        index.set_cap(id.0, self.needs.and_then(|n| n.per_target_blocks).unwrap_or(by_kv));
    }

    /// A replica has nothing cached any more.
    pub(crate) fn clear(&mut self, id: ReplicaId) {
        if let Some(index) = &mut self.index {
            index.remove_target(id.0);
        }
    }

    /// Adds a prompt to a replica's entries as it is sent there. Returns the sum over its blocks of
    /// the ms since their last use; `None` if the rule adds none at this time.
    pub(crate) fn sent(&mut self, to: ReplicaId, blocks: &[u64]) -> Option<f32> {
        let is_noted = self.insert() != Insert::OnAnswer;
        self.index.as_mut().filter(|_| is_noted).map(|index| index.reuse(to.0, blocks) as f32)
    }

    /// Adds what a replica holds after an answer.
    pub(crate) fn answered(&mut self, replica: ReplicaId, blocks: &[u64]) {
        let is_noted = self.insert() != Insert::OnDispatch;
        if let Some(index) = self.index.as_mut().filter(|_| is_noted) {
            index.insert(replica.0, blocks);
        }
    }

    /// Removes a prompt from a replica's entries behind the first `keep` blocks.
    pub(crate) fn forget(&mut self, replica: ReplicaId, blocks: &[u64], keep: u32) {
        if let Some(index) = &mut self.index {
            index.truncate(replica.0, blocks, keep);
        }
    }
}
