//! The default policy's second layer: the same score for a peer's replicas, and credits.
//!
//! ```text
//! score = 1.5 RTT + t_p * (front + own) + t_p * (p - m) * (1 + 0.05 * running)
//!       + 10 ms * running * t_p / mean t_p
//! ```
//!
//! `front`, `running` and t_p come from the peer's digest. `own` counts our forwards to that
//! replica that the digest does not include, and m is the prefix match with prompts we sent there
//! before. A request is forwarded as soon as a peer's best score is lower, not only when every
//! replica here is full.
//!
//! Digests are old, and every region sees the same idle replica. To prevent herding, a peer gets at
//! most its credit between two digests: requests that need half of the KV tokens free at its
//! replicas with free capacity.

use meridian_base::{PeerId, ReplicaId, Rng};

use super::Meridian;
use crate::peer::{PeerRow, RemoteRow};
use crate::policy::{Chosen, Forward, Forwarding, Params, Pick, View};

/// KV tokens assumed free at a replica that reports neither its free KV nor its size.
const FREE_UNKNOWN: f32 = 64_000.0;

/// The terms of the second layer, each of which can be switched off.
pub(super) struct Reach {
    early: bool,
    margin_ms: f32,
    credits: bool,
    credit_share: f32,
    count_own: bool,
}

impl Reach {
    pub(super) fn of(p: &Params) -> Reach {
        Reach {
            early: p.is("forward_early", "on"),
            margin_ms: p.f32("forward_margin_ms"),
            credits: p.is("credits", "on"),
            credit_share: p.f32("credit_share"),
            count_own: p.is("count_own", "on"),
        }
    }

    fn credit(&self, peer: &PeerRow) -> Option<f32> {
        if !self.credits {
            return None;
        }
        let free = |r: &RemoteRow| match (r.told.kv_free.is_finite(), r.told.kv_tokens > 0.0) {
            (true, _) => r.told.kv_free.max(0.0),
            (false, true) => r.told.kv_tokens,
            (false, false) => FREE_UNKNOWN,
        };
        let with_room = peer.remotes.iter().filter(|r| r.told.eligible);
        Some(with_room.map(free).sum::<f32>() * self.credit_share)
    }

    /// Whether a peer has credit left, and a slot.
    fn grants_to(&self, peer: &PeerRow) -> bool {
        let with_room = peer.remotes.iter().filter(|r| r.told.eligible);
        let slots = with_room.fold(0_u32, |sum, r| sum.saturating_add(r.told.free_slots));
        self.credit(peer).is_none_or(|credit| peer.since_tokens < credit && peer.since < slots)
    }
}

impl Forwarding for Meridian {
    // Whether a peer could beat the local choice if it were idle with the whole prompt cached: then
    // only its round trip counts.
    fn looks_beyond(&self, view: &View<'_>, local: Option<&Pick>) -> bool {
        let bound = match local {
            Some(Pick::Replica(chosen)) => self.bound_of(chosen),
            Some(Pick::Wait) | None => Some(f32::INFINITY),
        };
        let beats = |id: &PeerId, bound: f32| {
            view.peers.row(*id).is_some_and(|p| self.rtt_weight * p.rtt_ms < bound)
        };
        bound.is_some_and(|bound| view.available.iter().any(|id| beats(id, bound)))
    }

    fn forward(&self, view: &View<'_>, local: Option<&Pick>, draw: &mut Rng) -> Option<Forward> {
        let bound = match local {
            Some(Pick::Replica(chosen)) => self.bound_of(chosen)?,
            Some(Pick::Wait) | None => self.bound_waiting(view, draw),
        };
        let (score, peer, meant) = self.best_remote(view)?;
        (score < bound).then(|| Forward::scored(peer, f64::from(score), Some(meant)))
    }

    fn may_forward(&self, peer: &PeerRow, has_room: bool) -> bool {
        has_room && self.reach.grants_to(peer)
    }

    fn follows_remotes(&self) -> bool {
        true
    }

    fn credit(&self, peer: &PeerRow) -> Option<f32> {
        self.reach.credit(peer)
    }

    // A request that fits nowhere goes back: the peer that sent it may know of another region.
    fn holds_forwards(&self) -> bool {
        false
    }
}

impl Meridian {
    /// The score below which a peer gets a request that would otherwise be dispatched here.
    fn bound_of(&self, local: &Chosen) -> Option<f32> {
        let score = local.score.filter(|_| self.reach.early)?;
        Some(score as f32 - self.reach.margin_ms)
    }

    /// The score below which a peer gets a request that would otherwise be held here: the lower of
    /// the best eligible score and the score of a full replica worth waiting for. Ties don't
    /// matter: only the score is used.
    fn bound_waiting(&self, view: &View<'_>, draw: &mut Rng) -> f32 {
        let mut least = |ids| self.least(view, ids, draw).map_or(f32::INFINITY, |l| l.0);
        let open = least(view.eligible);
        match self.waits(view) {
            true => open.min(least(view.full) + self.wait_gain_ms),
            false => open,
        }
    }

    /// The least score among the replicas of the peers that may receive a request.
    fn best_remote(&self, view: &View<'_>) -> Option<(f32, PeerId, ReplicaId)> {
        let mut best: Option<(f32, PeerId, ReplicaId)> = None;
        for &id in view.available {
            let Some(peer) = view.peers.row(id) else { continue };
            if !self.reach.grants_to(peer) {
                continue;
            }
            for remote in peer.remotes.iter().filter(|r| r.told.eligible) {
                let Some(score) = self.score_remote(view, peer, remote) else { continue };
                // On a tie, the peer with the lowest id, and its lowest replica.
                if best.is_none_or(|(least, ..)| score < least) {
                    best = Some((score, id, remote.told.id));
                }
            }
        }
        best
    }

    /// The score of a peer's replica; `None` if the prompt does not fit there.
    fn score_remote(&self, view: &View<'_>, peer: &PeerRow, remote: &RemoteRow) -> Option<f32> {
        let told = &remote.told;
        let prompt = view.request.prompt_tokens as f32;
        let matched = remote.slot.map_or(0.0, |slot| view.peer_tokens(slot)) * told.trust;
        let (own, own_tokens, own_need) = match self.reach.count_own {
            true => (remote.own, remote.own_tokens, remote.own_need),
            false => (0, 0.0, 0.0),
        };
        let room = match own {
            0 => told.room,
            n if n >= told.free_slots => return None,
            _ => told.room.min(told.kv_free) - own_need,
        };
        let unmatched = prompt - matched;
        if unmatched > room {
            return None;
        }
        // A remote replica that looks idle may no longer be, so its prefill counts in full.
        let delays = 1.0 + self.delay_weight * told.running as f32;
        let work = told.front_tokens + own_tokens + unmatched * delays;
        // The mean of our own replicas, so that both sides of the comparison use one measure.
        let each = self.running(view.replicas.columns().mean_ms_per_token()).at(told.ms_per_token);
        let running = each * told.running as f32;
        Some(self.rtt_weight * peer.rtt_ms + told.ms_per_token * work + running)
    }
}
