//! The buffers of a decision: what it writes instead of the tables. They are used again for the next
//! one, so a decision allocates nothing.

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::{PeerId, ReplicaId, Time};

use crate::active::{Active, RequestStage};
use crate::recall::Recall;

/// Buffers of a decision.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) eligible: Vec<ReplicaId>,
    pub(super) full: Vec<ReplicaId>,
    /// Prefill replicas for a pair with one of the eligible, and those that pair with the picked.
    pub(super) prefills: Vec<ReplicaId>,
    pub(super) partners: Vec<ReplicaId>,
    pub(super) matched: Vec<u32>,
    /// The time until the request's adapter is loaded, ms, by replica; empty for other models.
    pub(super) loading: Vec<f32>,
    pub(super) block_tokens: f32,
    pub(super) prompt_tokens: f32,
    pub(super) growth: f32,
    /// Replicas with a shorter context do not get the request.
    pub(super) least_context: u32,
    /// The time of the decision, if the request's model has failed at some replica.
    pub(super) failing_at: Option<Time>,
    /// Whether the eligible and the full replicas are a sample.
    pub(super) sampled: bool,
    /// Whether the request waits for other sessions' prompts, although it would fit.
    pub(crate) gives_way: bool,
    /// Whether the request waits although it would fit.
    pub(crate) by_choice: bool,
    /// Whether capacity that it could have is left to a sibling whose turn it is.
    pub(crate) is_left: bool,
    pub(super) beyond: Beyond,
    /// The earlier matches of a held request.
    pub(super) recall: Option<Box<Recall>>,
}

impl Scratch {
    /// Whether nothing of the request's model depends on the replica.
    pub(super) fn needs_no_look(&self) -> bool {
        self.least_context == 0 && self.failing_at.is_none()
    }

    /// Prepares the buffers for a decision about a request, and takes over its earlier matches. A
    /// held request keeps them if it `recalls`.
    pub(crate) fn start(&mut self, active: &mut Active, recalls: bool) {
        self.beyond.clear();
        self.recall = active.recall.take();
        if active.stage == RequestStage::Held && self.recall.is_none() && recalls {
            self.recall = Some(Box::default());
        }
    }

    /// Gives the matches back.
    pub(crate) fn end(&mut self) -> Option<Box<Recall>> {
        self.recall.take()
    }

    /// Prepares the buffers for a decision without earlier matches.
    pub(crate) fn start_afresh(&mut self) {
        self.beyond.clear();
    }

    /// Prompt blocks that the newest decision matched with what was forwarded to a target of the
    /// snapshot.
    pub(crate) fn blocks_away(&self, target: usize) -> u32 {
        self.beyond.matched.get(target).copied().unwrap_or(0)
    }

    /// Makes the full replicas that `takes` accepts the eligible ones; false if there are none.
    pub(crate) fn offer_full(&mut self, takes: impl Fn(&ReplicaId) -> bool) -> bool {
        self.eligible.extend(self.full.drain(..).filter(takes));
        !self.eligible.is_empty()
    }

    /// Prompt tokens matched at `replica` in the newest decision.
    pub(crate) fn matched_tokens(&self, replica: ReplicaId) -> f32 {
        self.tokens(self.matched.get(replica.index()).copied().unwrap_or(0))
    }

    /// Prompt tokens in this many leading blocks.
    pub(crate) fn tokens(&self, blocks: u32) -> f32 {
        (blocks as f32 * self.block_tokens).min(self.prompt_tokens)
    }
}

/// Buffers of a decision that looks beyond the region.
#[derive(Debug, Default)]
pub(super) struct Beyond {
    /// Peers that may receive the request and were heard from recently, ascending.
    pub(super) reachable: Vec<PeerId>,
    /// Of those, the peers with free capacity (SkyWalker's rule).
    pub(super) available: Vec<PeerId>,
    /// Matched prompt blocks by target of the snapshot.
    pub(super) matched: Vec<u32>,
}

impl Beyond {
    /// Forgets the previous decision's lists and matches.
    pub(super) fn clear(&mut self) {
        self.reachable.clear();
        self.available.clear();
        self.matched.fill(0);
    }
}
