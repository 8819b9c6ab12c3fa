//! The default policy's second layer: the same price for a peer's replicas, and credits.
//!
//! ```text
//! price = 1.5 RTT + t_p (front + own) + t_p (p - m) (1 + q + r + w n) + w N s n
//! ```
//!
//! `front`, n, s and t_p come from the peer's digest, and q from its queue. `own` counts our
//! forwards to that replica that the digest does not include, and m is the prefix match with prompts
//! we sent there before. r is the share of tokens used again here: a forward displaces as many tokens
//! there as it makes copies of. A request is forwarded as soon as a peer's best price is lower, not only
//! when every replica here is full.
//!
//! Digests are old, and every region sees the same idle replica. To prevent herding, a peer gets at
//! most its credit between two digests: requests that need a tenth of the KV tokens free at its
//! replicas with free capacity.

use meridian_base::{PeerId, PeerReplica, ReplicaId, Rng};

use super::{Common, Meridian};
use crate::peer::{PeerReplicaRow, PeerRow};
use crate::policy::{Forward, Forwarding, Looks, Pick, View};

impl Meridian {
    /// When and to which peers it forwards.
    pub(super) fn forwarding(&self) -> Forwarding {
        Forwarding {
            looks: Looks::Cheaper { rtt_weight: self.rtt_weight },
            to_full: false,
            follows_replicas: true,
            credit_share: self.credit_share,
            // A request that fits nowhere goes back: the peer that sent it may know of another
            // region.
            holds_forwards: false,
            steals_above: None,
        }
    }

    /// The peer whose best replica is cheaper than the best choice here.
    pub(super) fn forward_cheaper(
        &self,
        view: &View<'_>,
        local: Option<&Pick>,
        draw: &mut Rng,
    ) -> Option<Forward> {
        let bound = match local {
            Some(Pick::Replica(chosen)) => chosen.score? as f32,
            Some(Pick::Wait) | None => self.bound_waiting(view, draw),
        };
        let (price, peer, meant) = self.best_replica(view, bound)?;
        (price < bound).then(|| Forward::scored(peer, f64::from(price), Some(meant)))
    }

    /// The price below which a peer gets a request that would otherwise be held here. Ties don't
    /// matter: only the price is used.
    fn bound_waiting(&self, view: &View<'_>, draw: &mut Rng) -> f32 {
        let open = self.least(view, view.eligible, draw).map_or(f32::INFINITY, |least| least.0);
        let pair = self.best_pair(view, draw).map_or(f32::INFINITY, |pair| pair.0);
        open.min(pair).min(self.worth_waiting(view, draw))
    }

    /// The least price among the replicas of the peers that may receive a request, of those whose
    /// round trip alone costs less than `bound`.
    fn best_replica(&self, view: &View<'_>, bound: f32) -> Option<(f32, PeerId, ReplicaId)> {
        let mut best: Option<(f32, PeerId, ReplicaId)> = None;
        let forwarding = self.forwarding();
        for &id in view.available {
            let Some(peer) = view.peers.row(id) else { continue };
            // No other term is negative, so the replicas of a far peer need not be priced.
            let least = self.rtt_weight * peer.rtt_ms;
            if least >= bound || best.is_some_and(|(price, ..)| least >= price) {
                continue;
            }
            if !forwarding.grants_to(peer) {
                continue;
            }
            let prefill = self.best_prefill(view, id, peer);
            for replica in peer.replicas.iter().filter(|r| r.told.eligible) {
                let Some(price) = self.price_replica(view, peer, replica, prefill) else {
                    continue;
                };
                // On a tie, the peer with the lowest id, and its lowest replica.
                if best.is_none_or(|(least, ..)| price < least) {
                    best = Some((price, id, replica.told.id));
                }
            }
        }
        best
    }

    /// The price of a peer's replica; `None` if the prompt does not fit there.
    fn price_replica(
        &self,
        view: &View<'_>,
        peer: &PeerRow,
        replica: &PeerReplicaRow,
        prefill: Option<(f32, u32)>,
    ) -> Option<f32> {
        let told = &replica.told;
        let matched = replica.slot.map_or(0.0, |slot| view.peer_tokens(slot)) * told.trust;
        let room = match replica.own {
            0 => told.room,
            n if n >= told.free_slots => return None,
            _ => told.room.min(told.kv_free) - replica.own_need,
        };
        let unmatched = view.request.prompt_tokens as f32 - matched;
        if unmatched > room {
            return None;
        }
        let queued = peer.held as f32 / peer.replicas.len().max(1) as f32;
        let price = self.price(&Common { queued, ..view.common });
        // A peer's replica that looks idle may no longer be, so its prefill counts in full.
        let weight = price.busy + price.delay * told.running as f32;
        let is_whole_in_pool = prefill.is_some() && told.pool.pairs();
        let stall =
            if is_whole_in_pool { price.stall(told.running as f32, unmatched) } else { 0.0 };
        let front = told.front_tokens + replica.own_tokens;
        let alone = told.ms_per_token * (front + unmatched * weight + stall);
        let pair = match (prefill, peer.pace) {
            (Some((prefill, partner)), Some(pace))
                if told.pool.pairs() && told.pool.partner == partner =>
            {
                (prefill + pace.ms(unmatched)).max(told.ms_per_token * told.front_tokens)
            }
            _ => f32::INFINITY,
        };
        let steps = price.reply * told.step_slope_ms * told.running as f32;
        Some(self.rtt_weight * peer.rtt_ms + alone.min(pair) + steps)
    }

    /// The least price of the prompt at a peer's prefill replicas, and that replica's partner. The
    /// peer knows which of them has cached it; here it counts as cached if it was sent there before.
    fn best_prefill(&self, view: &View<'_>, id: PeerId, peer: &PeerRow) -> Option<(f32, u32)> {
        if !view.request.splits {
            return None;
        }
        let queued = peer.held as f32 / peer.replicas.len().max(1) as f32;
        let price = self.price(&Common { queued, ..view.common });
        let cost = |told: &PeerReplica| {
            let unmatched = view.request.prompt_tokens as f32 - view.peer_tokens(id.0) * told.trust;
            let work = told.front_tokens + unmatched * price.busy;
            (told.eligible && unmatched <= told.room)
                .then_some((told.ms_per_token * work, told.pool.partner))
        };
        peer.prefills.iter().filter_map(cost).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}
