//! A policy's relation to peers, as data: when to look beyond the region, and which peers may get
//! requests. The policy chooses among them ([`Policy::forward`](super::Policy::forward)).
//!
//! In most publications (SkyWalker section 3.1), a request is forwarded only when no replica of the
//! region is eligible, and only to a peer with free capacity. That is the default.

use meridian_base::PeerId;

use super::pick::Pick;
use super::view::View;
use crate::peer::PeerRow;

/// When and to which peers a policy forwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forwarding {
    /// When a peer may be the better choice.
    pub looks: Looks,
    /// Whether peers without free capacity may be chosen, too.
    pub to_full: bool,
    /// Whether it compares the peers' replicas one by one and needs their matches.
    pub follows_replicas: bool,
    /// Share of the KV tokens free at a peer's replicas that forwards may need between two of its
    /// digests; `None` without a bound.
    pub credit_share: Option<f32>,
    /// Whether a forwarded request that fits nowhere is queued here; if not, it goes back.
    pub holds_forwards: bool,
    /// An idle region asks a peer for work when the peer holds more requests than this; `None` for
    /// never.
    pub steals_above: Option<u32>,
}

/// When a peer may be the better choice, before the prompt is matched against prompts sent there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Looks {
    /// If no replica here is eligible, and a peer has free capacity.
    NoneFits,
    /// If the request would be queued here.
    Queued,
    /// If a peer could beat the local choice were it idle with the whole prompt cached: then only its
    /// round trip counts, with this weight.
    Cheaper {
        /// Score of a ms of the round trip.
        rtt_weight: f32,
    },
}

impl Default for Forwarding {
    fn default() -> Forwarding {
        Forwarding {
            looks: Looks::NoneFits,
            to_full: false,
            follows_replicas: false,
            credit_share: None,
            holds_forwards: true,
            steals_above: None,
        }
    }
}

impl Forwarding {
    /// Whether a peer may be the better choice. `local` is the policy's pick; `None` if no replica
    /// here is eligible.
    #[must_use]
    pub fn looks_beyond(&self, view: &View<'_>, local: Option<&Pick>) -> bool {
        match self.looks {
            Looks::NoneFits => local.is_none() && !view.available.is_empty(),
            Looks::Queued => !matches!(local, Some(Pick::Replica(_))),
            Looks::Cheaper { rtt_weight } => {
                let bound = match local {
                    Some(Pick::Replica(chosen)) => chosen.score.map(|price| price as f32),
                    Some(Pick::Wait) | None => Some(f32::INFINITY),
                };
                let beats = |id: &PeerId, bound: f32| {
                    view.peers.row(*id).is_some_and(|p| rtt_weight * p.rtt_ms < bound)
                };
                bound.is_some_and(|bound| view.available.iter().any(|id| beats(id, bound)))
            }
        }
    }

    /// Whether this peer may be chosen for any request that fits nowhere here; `has_room`: it would
    /// be in `view.available`. False saves deciding about every queued request for a peer that would
    /// not get it.
    #[must_use]
    pub fn may_forward(&self, peer: &PeerRow, has_room: bool) -> bool {
        (has_room || self.to_full) && self.grants_to(peer)
    }

    /// KV tokens that forwards to a peer may need between two of its digests; `None` without a bound.
    #[must_use]
    pub fn credit(&self, peer: &PeerRow) -> Option<f32> {
        Some(peer.free_tokens * self.credit_share?)
    }

    /// Whether a peer has credit left, and a slot.
    #[must_use]
    pub fn grants_to(&self, peer: &PeerRow) -> bool {
        self.credit(peer)
            .is_none_or(|credit| peer.since_tokens < credit && peer.since < peer.free_slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A peer gets requests while it has capacity, credit and a slot.
    #[test]
    fn a_peer_gets_its_credit() {
        let plain = Forwarding::default();
        let peer = PeerRow { free_tokens: 1000.0, free_slots: 3, since: 2, ..PeerRow::default() };
        assert!(plain.may_forward(&peer, true) && !plain.may_forward(&peer, false));
        assert!(Forwarding { to_full: true, ..plain }.may_forward(&peer, false));
        let credits = Forwarding { credit_share: Some(0.1), ..plain };
        assert_eq!((plain.credit(&peer), credits.credit(&peer)), (None, Some(100.0)));
        let sent = |since, since_tokens| PeerRow { since, since_tokens, ..peer.clone() };
        assert!(credits.may_forward(&sent(2, 99.0), true));
        assert!(!credits.may_forward(&sent(2, 100.0), true), "no credit is left");
        assert!(!credits.may_forward(&sent(3, 0.0), true), "no slot is left");
        assert!(plain.may_forward(&sent(3, 1e9), true), "nothing bounds it");
    }
}
