//! What a driver may read of the machine: its tables, its settings and the kept decisions.

use alloc::vec::Vec;
use meridian_base::residency::Residence;
use meridian_base::{RequestId, SiblingId};

use super::Routing;
use crate::config::Config;
use crate::explain::{CandidateRow, Decision};
use crate::index::PrefixIndex;
use crate::links::Links;
use crate::peer::Peers;
use crate::places::Places;
use crate::replicas::Replicas;
use crate::target::Target;
use meridian_base::ReplicaId;

impl Routing {
    /// The replica table.
    #[must_use]
    pub fn replicas(&self) -> &Replicas {
        self.fleet.replicas()
    }

    /// The peer table.
    #[must_use]
    pub fn peers(&self) -> &Peers {
        self.regions.peers()
    }

    /// The pace of KV between replicas.
    #[must_use]
    pub fn links(&self) -> &Links {
        self.fleet.links()
    }

    /// Requests held now.
    #[must_use]
    pub fn held_len(&self) -> u32 {
        self.queue.len()
    }

    /// Requests that a sibling holds since no replica has capacity, as it reported.
    #[must_use]
    pub fn held_at(&self, sibling: SiblingId) -> u32 {
        self.queue.held_elsewhere(sibling)
    }

    /// Sessions that the queue's turns know, and the largest one's share of the tokens that all of them were served.
    #[must_use]
    pub fn sessions(&self) -> (u32, f64) {
        self.queue.sessions()
    }

    /// Requests that have arrived and not ended.
    #[must_use]
    pub fn active_len(&self) -> usize {
        self.actives.len()
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The prefix index, if the policy uses one.
    #[must_use]
    pub fn index(&self) -> Option<&PrefixIndex> {
        self.rule.index()
    }

    /// The newest decision about a request, while it is kept.
    #[must_use]
    pub fn explain(&self, id: RequestId) -> Option<&Decision> {
        self.log.journal().find(id)
    }

    /// The kept decisions, newest first.
    pub fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.log.journal().newest()
    }

    /// Decisions recorded since the start, kept or not. The newest `n` of [`Routing::decisions`] are
    /// those after number `decided() - n`.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.log.journal().number()
    }

    /// The policy's terms of a candidate's score in a decision.
    #[must_use]
    pub fn terms(&self, candidate: &CandidateRow, of: &Decision) -> Vec<(&str, f64)> {
        self.rule.policy().terms(candidate, of)
    }

    /// Whether the rules still permit the decision.
    #[must_use]
    pub fn permits(&self, residence: &Residence, target: Target) -> bool {
        let places = match target {
            Target::Replica(id) => {
                self.replicas().spec(id).map(|spec| core::slice::from_ref(&spec.place))
            }
            Target::Peer(id) => Some(self.peers().places(id)),
        };
        residence.is_free()
            || places.is_some_and(|places| self.regions.permit_one(residence, places))
    }

    /// Whether a replica's place has a number. A replica without one serves only requests without
    /// rules.
    #[must_use]
    pub fn is_numbered(&self, id: ReplicaId) -> bool {
        self.fleet.get(id).is_none_or(|replica| Places::is_numbered(replica.place))
    }
}
