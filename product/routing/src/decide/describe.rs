//! The record of a decision for explain: the state of every candidate and of every peer when it was
//! made.

use meridian_base::{PeerId, ReplicaId, Time};

use super::{Scratch, Tables};
use crate::active::Active;
use crate::explain::{CandidateRow, Decision, PeerCandidate};
use crate::first_token::FirstToken;
use crate::row::SiblingShare;
use crate::target::Target;
use crate::why::Ineligible;

impl Tables<'_> {
    /// Adds the other replica of a pair, and the pace of the link between the two.
    pub(crate) fn describe_pair(&self, decision: &mut Decision, prefill: Option<ReplicaId>) {
        decision.prefill = prefill;
        let end = |id: ReplicaId| (id, self.fleet.row(id).pool);
        decision.pace = match (prefill, decision.pick) {
            (Some(from), Some((Target::Replica(to), _))) => {
                self.fleet.links().pace(end(from), end(to))
            }
            _ => self.fleet.links().mean(),
        };
    }

    /// Adds the candidates of the newest decision, up to a limit, and the picked one.
    pub(crate) fn describe(
        &self,
        active: &Active,
        scratch: &Scratch,
        most: usize,
        decision: &mut Decision,
    ) {
        decision.common = self.common(decision.at, active);
        let rows = &mut decision.candidates;
        let prefills = self.fleet.prefilling(active.request.model).filter(|_| active.may_split());
        for ids in [self.fleet.serving(active.request.model), prefills].into_iter().flatten() {
            rows.extend(ids.iter().take(most).map(|id| self.candidate(active, scratch, *id)));
        }
        let picked = match decision.pick {
            Some((Target::Replica(id), _)) => Some(id),
            _ => None,
        };
        for id in picked.into_iter().chain(decision.prefill) {
            if !rows.iter().any(|r| r.replica == id) {
                rows.push(self.candidate(active, scratch, id));
            }
        }
        decision.away = match decision.pick {
            Some((Target::Peer(id), _)) => self.first_token_away(active, scratch, id),
            _ => None,
        };
        let each = self.regions.ids().iter();
        let at = decision.at;
        decision.peers.extend(each.filter_map(|id| self.peer_candidate(at, active, scratch, *id)));
    }

    fn peer_candidate(
        &self,
        now: Time,
        active: &Active,
        scratch: &Scratch,
        id: PeerId,
    ) -> Option<PeerCandidate> {
        let peer = self.regions.get(id)?;
        let row = peer.row();
        let blocks = scratch.beyond.matched.get(id.index()).copied().unwrap_or(0);
        Some(PeerCandidate {
            peer: id,
            unavailable: self.peer_standing(now, active, id, peer),
            matched_tokens: scratch.tokens(blocks),
            rtt_ms: row.rtt_ms,
            held: row.held,
            eligible: row.eligible,
            since: row.since,
        })
    }

    /// The earliest first token among a peer's eligible replicas, before this forward counts there.
    fn first_token_away(
        &self,
        active: &Active,
        scratch: &Scratch,
        id: PeerId,
    ) -> Option<FirstToken> {
        let (row, of) = (self.regions.get(id)?.row(), active.request.prompt_tokens);
        let matched = |slot: Option<u16>| {
            let blocks = slot.and_then(|slot| scratch.beyond.matched.get(usize::from(slot)));
            blocks.map_or(0.0, |blocks| scratch.tokens(*blocks))
        };
        let eligible = row.replicas.iter().filter(|replica| replica.told.eligible);
        let each = eligible.map(|replica| {
            let (own, matched) = (replica.own_tokens, matched(replica.slot));
            FirstToken::at_peer(row.rtt_ms, &replica.told, own, matched, of)
        });
        each.min_by(|a, b| a.ms.total_cmp(&b.ms))
    }

    fn candidate(&self, active: &Active, scratch: &Scratch, id: ReplicaId) -> CandidateRow {
        let left_out = || {
            let seen = scratch.eligible.contains(&id)
                || scratch.full.contains(&id)
                || scratch.prefills.contains(&id)
                || !self.fleet.row(id).pool.role.answers();
            (scratch.sampled && !seen).then_some(Ineligible::Unsampled)
        };
        CandidateRow {
            replica: id,
            ineligible: self.standing(active, id, scratch).or_else(left_out),
            matched_tokens: scratch.matched_tokens(id),
            prompt_tokens: active.request.prompt_tokens,
            row: *self.fleet.row(id),
            of_siblings: SiblingShare::default(),
            loading_ms: scratch.loading.get(id.index()).copied().unwrap_or(0.0),
        }
    }
}
