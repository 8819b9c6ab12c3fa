//! A sample of the candidates, for a decision among hundreds of them.
//!
//! The policy sees [`SAMPLE`] replicas at random, and every replica with a longer prefix match than
//! all of those: few replicas have the longest match, and the least loaded of 32 is nearly as good as
//! the least loaded of all (the power of two choices, Mitzenmacher 2001). Several gateways that share
//! replicas then choose different ones, where a full comparison sends all of them to the one that
//! looked best in the latest reports. notes/decisions/sampled-candidates.md has the measurements.
//!
//! The expected number of longer matches is at most one in [`SAMPLE`] of the candidates, so it needs
//! no bound of its own.

use alloc::vec::Vec;
use meridian_base::ReplicaId;

use super::{Scratch, Tables};
use crate::active::Active;
use crate::why::Ineligible;

/// Replicas drawn. With 16 to 64 the simulated TTFT is the same within 3 %, and with 32 a third of
/// them are of the request's own region if the replicas of three are compared.
const SAMPLE: usize = 32;
/// Up to this many candidates for each replica drawn are compared in full: some 300 take as long as
/// drawing 32.
const EACH: usize = 8;
/// Tag of the sample's random draws.
const TAG: u64 = 3;
/// Matches compared together.
const LANES: usize = 64;

/// Whether a sample of this many candidates takes less time than all of them.
pub(super) fn pays(candidates: usize) -> bool {
    candidates > SAMPLE * EACH
}

impl Tables<'_> {
    /// Sorts a sample of the candidates into eligible and full ones, in the ordinary case of
    /// [`Tables::scan`].
    pub(super) fn sample(&self, active: &Active, candidates: &[ReplicaId], scratch: &mut Scratch) {
        scratch.sampled = true;
        let Scratch { eligible, full, matched, block_tokens, prompt_tokens, growth, .. } = scratch;
        self.draw_some(active, candidates, matched, eligible);
        let rooms = self.rooms;
        let fits = |id: &ReplicaId| {
            let known = (matched[id.index()] as f32 * *block_tokens).min(*prompt_tokens);
            *prompt_tokens - known + *growth <= rooms[id.index()]
        };
        eligible.retain(|id| {
            let fits = fits(id);
            let is_open = matches!(self.fleet.row(*id).closed, None | Some(Ineligible::Full));
            if !fits && is_open {
                full.push(*id);
            }
            fits
        });
    }

    /// Draws a sample of the candidates, in ascending id.
    pub(super) fn draw_some(
        &self,
        active: &Active,
        candidates: &[ReplicaId],
        matched: &[u32],
        drawn: &mut Vec<ReplicaId>,
    ) {
        let mut draw = self.rule.draw(active).fork(TAG);
        let mut longest = 0;
        for _ in 0..SAMPLE {
            let id = candidates[draw.below(candidates.len())];
            longest = longest.max(matched[id.index()]);
            drawn.push(id);
        }
        // Ids ascend; those of another role often come before or after all of these.
        let start = candidates.first().map_or(0, |id| id.index());
        let end = candidates.last().map_or(0, |id| id.index() + 1);
        let mut first = start;
        for some in matched[first..end].chunks(LANES) {
            if some.iter().fold(false, |any, blocks| any | (*blocks > longest)) {
                let longer = (first..).zip(some).filter(|(_, blocks)| **blocks > longest);
                let ids = longer.map(|(at, _)| ReplicaId(at as u16));
                drawn.extend(ids.filter(|id| candidates.binary_search(id).is_ok()));
            }
            first += some.len();
        }
        drawn.sort_unstable();
        drawn.dedup();
    }
}
