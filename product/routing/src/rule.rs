//! The rule table: a policy at work, with its own state, the index that it requires, the admission
//! mode and the seed of its random draws.
//!
//! The machine follows one; it may have another one beside it, whose decisions are only recorded
//! (`machine/shadow.rs`). Decisions read it and cannot write it: only what is reported here, which are
//! events and no questions, changes it.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use meridian_base::{Branch, ReplicaId, Rng, Time, mix};

use crate::active::{Active, Actives, RequestStage};
use crate::admission::Admission;
use crate::index::{IndexSpec, Insert, PrefixIndex};
use crate::policy::{Dispatched, Features, Forwarding, Params, Policy, PolicyEvent, Spec};
use crate::replicas::Replicas;
use crate::reuse::HitShare;

/// Tokens of a block if the policy has no index.
const BLOCK_TOKENS: u64 = 16;

pub(crate) struct PolicyState {
    policy: Box<dyn Policy>,
    features: Features,
    admission: Admission,
    index: Option<PrefixIndex>,
    hits: HitShare,
    /// The seed of its random draws.
    seed: u64,
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
        seed: u64,
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
        let policy = (policy.build)(params);
        let features = policy.features();
        PolicyState { policy, features, admission, index, hits, seed, needs }
    }

    #[inline]
    pub(crate) fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// What the machine must know of the policy.
    #[inline]
    pub(crate) fn features(&self) -> &Features {
        &self.features
    }

    /// When and to which peers the policy forwards.
    #[inline]
    pub(crate) fn forwarding(&self) -> &Forwarding {
        &self.features.forwarding
    }

    #[inline]
    pub(crate) fn admission(&self) -> Admission {
        self.admission
    }

    #[inline]
    pub(crate) fn index(&self) -> Option<&PrefixIndex> {
        self.index.as_ref()
    }

    /// Share of the region's tokens that are used again.
    pub(crate) fn reused(&self) -> f32 {
        self.hits.share()
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The random stream of one decision, separate for each attempt of a request. It does not
    /// depend on other requests, on how often the queue is examined, or on the client's choice of
    /// id.
    pub(crate) fn draw(&self, active: &Active) -> Rng {
        Rng::new(mix(mix(self.seed, active.number), u64::from(active.attempt)))
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

    /// Counts tokens of a prompt that were matched, of all that it needs.
    pub(crate) fn count_hits(&mut self, matched: f32, all: f32) {
        self.hits.add(matched, all);
    }

    /// Allows replicas with ids below this in the index.
    pub(crate) fn allow_targets(&mut self, targets: usize) {
        if let Some(index) = &mut self.index {
            index.allow_targets(targets);
        }
    }

    /// Adds what another gateway knows about a replica's cache.
    pub(crate) fn learn_holdings(&mut self, id: ReplicaId, branches: &[Branch]) {
        if let Some(index) = &mut self.index {
            index.inherit(id.0, branches);
        }
    }
}

/// Invariants.
impl PolicyState {
    /// Checks the invariants between events.
    ///
    /// # Panics
    ///
    /// When one does not hold.
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.index.is_some(), self.needs.is_some(), "a policy has the index it needs");
        assert!((0.0..=1.0).contains(&self.reused()), "the tokens used again are a share of all");
    }
}

/// Events for the policy.
impl PolicyState {
    /// Reports an event to the policy.
    pub(crate) fn report(&mut self, event: PolicyEvent<'_>) {
        self.policy.update(event);
    }

    /// Reports the requests at replicas to a new policy, in the order of their dispatch. Their ends
    /// are reported too, so the policy may count them.
    pub(crate) fn replay(&mut self, actives: &Actives, replicas: &Replicas) {
        for active in actives.dispatched() {
            let mut say = |replica, unmatched_tokens| {
                let prefill_ms = unmatched_tokens * replicas.row(replica).ms_per_token;
                let (at, request) = (active.dispatched, &active.request);
                let sent = Dispatched { at, request, replica, unmatched_tokens, prefill_ms };
                self.policy.update(PolicyEvent::Dispatched(sent));
            };
            match (active.stage, active.fetch) {
                (RequestStage::Prefilling(to), Some(fetch)) => {
                    say(fetch.from, fetch.unmatched);
                    say(to, 0.0);
                }
                (RequestStage::At(replica), _) => say(replica, active.unmatched),
                _ => {}
            }
        }
    }
}
