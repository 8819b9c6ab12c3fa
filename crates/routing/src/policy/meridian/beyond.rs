//! The default policy's second layer: the same score for a peer's replicas, and credits.
//!
//! ```text
//! score = 1.5 RTT + t_p * (front + own) + t_p * (p - m) * (1 + 0.05 * running)
//!       + 10 ms * running * t_p / mean t_p
//! ```
//!
//! `front`, `running` and t_p are from the peer's digest, `own` is what we forwarded to that
//! replica and the digest can't know, and m is what we sent there before or the peer says is there. A request leaves early,
//! when a peer's best score is lower, and not only when everything here is full.
//!
//! Digests are old, and every region sees the same idle replica: so between two digests a peer gets
//! at most its credit, half a request for every 1,000 KV tokens free at its replicas with room.

use meridian_base::{PeerId, ReplicaId, Rng};

use super::Meridian;
use crate::forward::Forward;
use crate::peer::{PeerRow, RemoteRow};
use crate::policy::{Params, Pick, View};
use crate::why::Why;

/// KV tokens that a replica is taken to have free when neither it nor its size tells.
const FREE_UNKNOWN: f32 = 64_000.0;
/// Tokens of growth reserved for a forward, as for a dispatch.
const GROWTH_TOKENS: f32 = 128.0;

/// Which of a peer's replicas grant credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grants {
    /// Those with room and no prefill in front.
    Idle,
    /// Those with room.
    Eligible,
}

/// The terms of the second layer, each of which can be switched off.
pub(super) struct Reach {
    early: bool,
    margin_ms: f32,
    credits: bool,
    grants: Grants,
    credit_share: f32,
    credit_tokens: f32,
    count_own: bool,
    pub(super) shared: bool,
}

impl Reach {
    pub(super) fn of(p: &Params) -> Reach {
        Reach {
            early: p.is("forward_early", "on"),
            margin_ms: p.f32("forward_margin_ms"),
            credits: p.is("credits", "on"),
            grants: if p.is("credit_of", "idle") { Grants::Idle } else { Grants::Eligible },
            credit_share: p.f32("credit_share"),
            credit_tokens: p.f32("credit_tokens"),
            count_own: p.is("count_own", "on"),
            shared: p.is("shared_prefixes", "on"),
        }
    }

    pub(super) fn credit(&self, peer: &PeerRow) -> Option<f32> {
        if !self.credits {
            return None;
        }
        let free = |r: &RemoteRow| {
            let grants = match self.grants {
                Grants::Idle => r.told.eligible && r.told.front_tokens <= 0.0,
                Grants::Eligible => r.told.eligible,
            };
            let free = match (r.told.kv_free.is_finite(), r.told.kv_tokens > 0.0) {
                (true, _) => r.told.kv_free.max(0.0),
                (false, true) => r.told.kv_tokens,
                (false, false) => FREE_UNKNOWN,
            };
            if grants { free } else { 0.0 }
        };
        let free: f32 = peer.remotes.iter().map(free).sum();
        Some(self.credit_share * free / self.credit_tokens)
    }

    /// Whether a peer's credit lets it get something.
    pub(super) fn grants_to(&self, peer: &PeerRow) -> bool {
        !self.credit(peer).is_some_and(|credit| peer.since as f32 >= credit)
    }
}

impl Meridian {
    /// Whether some peer could beat the local choice if it held the whole prompt and did nothing
    /// else: then only its round trip counts.
    pub(super) fn may_beat(&self, view: &View<'_>, local: Option<&Pick>) -> bool {
        let bound = match local {
            Some(Pick::Replica(_, why)) => self.bound_of(*why),
            Some(Pick::Wait) | None => Some(f32::INFINITY),
        };
        let beats = |id: &PeerId, bound: f32| {
            view.peers.row(*id).is_some_and(|p| self.rtt_weight * p.rtt_ms < bound)
        };
        bound.is_some_and(|bound| view.available.iter().any(|id| beats(id, bound)))
    }

    /// What a peer must score below to get what would be dispatched here.
    fn bound_of(&self, why: Why) -> Option<f32> {
        match why {
            Why::LowestScore(score) if self.reach.early => {
                Some(score as f32 - self.reach.margin_ms)
            }
            _ => None,
        }
    }

    /// The forward that beats the local choice, if one does.
    pub(super) fn beat(
        &self,
        view: &View<'_>,
        local: Option<&Pick>,
        rng: &mut Rng,
    ) -> Option<Forward> {
        let bound = match local {
            Some(Pick::Replica(_, why)) => self.bound_of(*why)?,
            Some(Pick::Wait) | None => self.bound_waiting(view, rng),
        };
        let (score, peer, meant) = self.best_remote(view)?;
        let why = Why::LowestScore(f64::from(score));
        (score < bound).then_some(Forward { peer, why, meant: Some(meant) })
    }

    /// What a peer must score below to get what would be held here: the best that is eligible, and
    /// what a full one would be waited for. Ties don't matter: only the score is used.
    fn bound_waiting(&self, view: &View<'_>, rng: &mut Rng) -> f32 {
        let mut least = |ids| self.least(view, ids, rng).map_or(f32::INFINITY, |l| l.0);
        let open = least(view.eligible);
        match self.waits(view) {
            true => open.min(least(view.full) + self.wait_gain_ms),
            false => open,
        }
    }

    /// The least score among the replicas of the peers that may get a request.
    fn best_remote(&self, view: &View<'_>) -> Option<(f32, PeerId, ReplicaId)> {
        let mut best: Option<(f32, PeerId, ReplicaId)> = None;
        for &id in view.available {
            let Some(peer) = view.peers.row(id) else { continue };
            if !self.reach.grants_to(peer) {
                continue;
            }
            for remote in peer.remotes.iter().filter(|r| r.told.eligible) {
                let Some(score) = self.score_remote(view, (id, peer), remote) else { continue };
                // The first of equals: the peer with the lowest id, and its lowest replica.
                if best.is_none_or(|(least, ..)| score < least) {
                    best = Some((score, id, remote.told.id));
                }
            }
        }
        best
    }

    /// The score of a peer's replica; `None` when the prompt does not fit there.
    fn score_remote(
        &self,
        view: &View<'_>,
        (id, peer): (PeerId, &PeerRow),
        remote: &RemoteRow,
    ) -> Option<f32> {
        let told = &remote.told;
        let prompt = view.request.prompt_tokens as f32;
        let sent = remote.slot.map_or(0.0, |slot| view.peer_tokens(slot));
        let matched = sent.max(view.shared_tokens(id, told.id)) * told.trust;
        let (own, own_tokens) = match self.reach.count_own {
            true => (remote.own, remote.own_tokens),
            false => (0, 0.0),
        };
        let room = match own {
            0 => told.room,
            n => told.room.min(told.kv_free) - own_tokens - GROWTH_TOKENS * n as f32,
        };
        let unmatched = prompt - matched;
        if unmatched > room {
            return None;
        }
        // What is idle there may be so no more, so its prefill counts whole.
        let delays = 1.0 + self.delay_weight * told.running as f32;
        let work = told.front_tokens + own_tokens + unmatched * delays;
        // The mean of our own replicas: both sides of the comparison have one measure.
        let each = self.running(view.replicas.columns().mean_ms_per_token()).at(told.ms_per_token);
        let running = each * told.running as f32;
        Some(self.rtt_weight * peer.rtt_ms + told.ms_per_token * work + running)
    }
}
