//! The prefill replicas of a decision: candidates for a pair with the replica that answers.
//!
//! A policy that prices pairs gets all of them. For the others, the answer's replica is picked
//! first, and then the policy picks once more, among the prefill replicas that can hand it KV, as
//! routers with a policy for each role do (smg, vllm-router). Its rule may then leave the prompt to
//! the first (llm-d, Dynamo).

use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng};

use super::{Scratch, Tables};
use crate::active::Active;
use crate::policy::{Chosen, Pick, View};

impl Tables<'_> {
    /// Lists the prefill replicas that have capacity for the request's prompt.
    pub(super) fn find_prefills(&self, active: &Active, scratch: &mut Scratch) {
        if !active.may_split() {
            return;
        }
        let Some(all) = self.fleet.prefilling(active.request.model) else { return };
        let mut prefills = core::mem::take(&mut scratch.prefills);
        match super::sample::pays(all.len()) && self.rule.features().may_sample {
            true => self.draw_some(active, all, &scratch.matched, &mut prefills),
            false => prefills.extend_from_slice(all),
        }
        // In the ordinary case nothing but the capacity matters, as in `Tables::scan`.
        let is_plain = active.tried.is_empty() && scratch.needs_no_look();
        if is_plain && active.permitted.places == u64::MAX {
            let rooms = self.rooms;
            let unmatched = |id| scratch.prompt_tokens - scratch.matched_tokens(id);
            prefills.retain(|id| unmatched(*id) <= rooms[id.index()]);
        } else {
            prefills.retain(|id| self.standing(active, *id, scratch).is_none());
        }
        scratch.prefills = prefills;
    }

    /// Adds a prefill replica to the pick of a policy that does not price pairs.
    pub(super) fn with_prefill(
        &self,
        to: Chosen,
        view: &View<'_>,
        draw: &mut Rng,
        partners: &mut Vec<ReplicaId>,
    ) -> Chosen {
        let partner = self.fleet.row(to.replica).pool.partner;
        let pairs = |id: &ReplicaId| {
            self.fleet.row(*id).pool.partner == partner
                && !self.fleet.links().is_cut(view.now, *id, to.replica)
        };
        partners.clear();
        partners.extend(view.prefills.iter().copied().filter(|id| pairs(id)));
        if partners.is_empty() || !self.fleet.row(to.replica).pool.pairs() {
            return to;
        }
        let view = View { eligible: partners, full: &[], prefills: &[], may_wait: false, ..*view };
        match self.rule.policy().pick(&view, draw) {
            Pick::Replica(from) if self.rule.policy().splits(&view, from.replica, to.replica) => {
                Chosen { prefill: Some(from.replica), ..to }
            }
            _ => to,
        }
    }
}
