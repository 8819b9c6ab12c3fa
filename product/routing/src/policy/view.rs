//! The policy's view: the state of the region and the request that a pick may read.

use meridian_base::{PeerId, ReplicaId, Time};

use crate::common::Common;
use crate::index::PrefixIndex;
use crate::links::Links;
use crate::peer::Peers;
use crate::replicas::Replicas;
use crate::request::Request;

/// The input of a policy's pick.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The time of the decision.
    pub now: Time,
    /// The request.
    pub request: &'a Request,
    /// The figures that are the same for every candidate.
    pub common: Common,
    /// Whether it may be queued although a replica is eligible: there is time left.
    pub may_wait: bool,
    /// The candidates: eligible replicas in ascending id. Never empty in
    /// [`Policy::pick`](super::Policy::pick).
    pub eligible: &'a [ReplicaId],
    /// Replicas that could serve it but are full by the admission mode, in ascending id.
    pub full: &'a [ReplicaId],
    /// Prefill replicas that have capacity for the prompt, in ascending id, if the request may be
    /// split. Each pairs with the eligible replicas that have the same partner.
    pub prefills: &'a [ReplicaId],
    /// How fast KV moves between replicas, and the pairs that cannot.
    pub links: &'a Links,
    /// Every replica of the region, by id.
    pub replicas: &'a Replicas,
    /// Matched prompt blocks by replica id (whole table, zero where nothing matches). All zero
    /// for policies without an index.
    pub matched: &'a [u32],
    /// The time until the request's LoRA adapter is loaded, ms, by replica id; empty if the request
    /// names none.
    pub loading: &'a [f32],
    /// The prefix index itself, for policies that weigh how much a replica holds.
    pub index: Option<&'a PrefixIndex>,
    /// Requests held here.
    pub held: u32,
    /// Every peer.
    pub peers: &'a Peers,
    /// Peers that may receive the request and have free capacity, in ascending id. The lists of
    /// peers are for [`Policy::forward`](super::Policy::forward) and empty in
    /// [`Policy::pick`](super::Policy::pick).
    pub available: &'a [PeerId],
    /// Peers that may receive the request, with or without free capacity, in ascending id.
    pub reachable: &'a [PeerId],
    /// Prompt blocks matched by requests forwarded earlier, by peer id and by
    /// [`PeerReplicaRow::slot`](crate::PeerReplicaRow::slot).
    pub peer_matched: &'a [u32],
}

impl View<'_> {
    /// Prompt tokens already cached at `replica`, never more than the prompt has.
    #[must_use]
    #[inline]
    pub fn matched_tokens(&self, replica: ReplicaId) -> f32 {
        let tokens = self.matched[replica.index()] as f32 * self.request.block_tokens;
        tokens.min(self.request.prompt_tokens as f32)
    }

    /// Share of the prompt already cached at `replica`, 0 to 1; 0 for an empty prompt.
    #[must_use]
    #[inline]
    pub fn match_ratio(&self, replica: ReplicaId) -> f32 {
        self.matched_tokens(replica) / (self.request.prompt_tokens as f32).max(1.0)
    }

    /// Prompt tokens matched by requests forwarded to a peer, or meant for one of its replicas (the
    /// target is the peer's id or the replica's slot).
    #[must_use]
    pub fn peer_tokens(&self, target: u16) -> f32 {
        let blocks = self.peer_matched.get(usize::from(target)).copied().unwrap_or(0);
        let tokens = blocks as f32 * self.request.block_tokens;
        tokens.min(self.request.prompt_tokens as f32)
    }

    /// Whether `replica` is a candidate.
    #[must_use]
    #[inline]
    pub fn is_eligible(&self, replica: ReplicaId) -> bool {
        self.eligible.binary_search(&replica).is_ok()
    }
}
