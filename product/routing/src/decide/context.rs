//! Which replicas have a context that is long enough for a request.
//!
//! Replicas of one model may be started with contexts of different lengths, and an engine refuses what
//! does not fit into its own. The length of a prompt is an estimate, so there are two bounds: from one
//! on a request surely fits, and below the other it surely does not. If a replica where it surely fits
//! takes requests, it goes to one of those. Otherwise it may try those where it perhaps fits. If it
//! fits nowhere, it goes to the longest, and the engine decides.
//!
//! An engine counts the reply that a request asks for, too. llama.cpp does not, and cuts the reply: a
//! longer context serves that request better as well.

use meridian_base::ReplicaId;

use super::Tables;
use crate::active::Active;
use crate::why::Ineligible;

/// By how much an estimate may be too low, and too high, as a share of it. The gateway learns tokens per
/// byte from the engines' counts, and prompts of one model differ by about this much.
const TOO_LOW: f32 = 0.25;
const TOO_HIGH: f32 = 0.25;

/// Whether a request is so long that it may not fit everywhere.
pub(super) fn may_be_short(active: &Active, shortest: u32) -> bool {
    need(active, 1.0 + TOO_LOW) > shortest
}

fn need(active: &Active, factor: f32) -> u32 {
    let prompt = active.request.prompt_tokens as f32 * factor;
    (prompt as u32).saturating_add(active.request.max_tokens.unwrap_or(0))
}

impl Tables<'_> {
    /// The least context of a replica that may get the request; 0 if any may.
    pub(crate) fn least_context(&self, active: &Active, candidates: &[ReplicaId]) -> u32 {
        let model = active.request.model;
        let Some(shortest) = self.fleet.shortest_context(model) else { return 0 };
        if active.request.pinned.is_some() || !may_be_short(active, shortest) {
            return 0;
        }
        let (mut longest, mut longest_open) = (0, 0);
        for id in candidates.iter().copied() {
            let closed = self.fleet.row(id).closed;
            let is_permitted = !self.fleet.is_forbidden(active.permitted.places, id);
            // It is about to leave.
            if !is_permitted || closed == Some(Ineligible::Draining) {
                continue;
            }
            let context = self.fleet.context(model, id);
            longest = longest.max(context);
            if matches!(closed, None | Some(Ineligible::Full)) && !active.tried.contains(&id) {
                longest_open = longest_open.max(context);
            }
        }
        let surely = need(active, 1.0 + TOO_LOW);
        match surely <= longest_open {
            true => surely,
            false => need(active, 1.0 - TOO_HIGH).min(longest),
        }
    }
}
