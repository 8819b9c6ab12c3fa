//! A decision beside two others that it could have been: the replica of its own region with the
//! earliest first token, and the mean of that region's eligible replicas, which is what round robin
//! gives on average.
//!
//! ```text
//! first token = RTT + t_p (front + p - m)
//! ```
//!
//! All figures are those of the decision itself: the load, the queues and the prefix matches of that
//! moment, and the replicas that its residency rules permit. So it is a comparison of one step. Under
//! another policy the caches and queues would have become different ones, which only a simulation
//! shows (docs/observability.md).

use meridian_base::{Pace, ReplicaId};

use crate::explain::{CandidateRow, Decision};
use crate::first_token::FirstToken;
use crate::target::Target;

/// A decision's placement and its two alternatives in the own region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternatives {
    /// The one that was picked.
    pub picked: FirstToken,
    /// The eligible replica of the own region with the earliest first token.
    pub best: FirstToken,
    /// The mean over the eligible replicas of the own region.
    pub mean: FirstToken,
}

impl CandidateRow {
    /// The first token if this replica serves the whole request.
    #[must_use]
    pub fn first_token(&self) -> FirstToken {
        let row = &self.row;
        let matched_tokens = self.matched_tokens * row.trust;
        let unmatched = (self.prompt_tokens as f32 - matched_tokens).max(0.0);
        let ms = row.rtt_ms + row.ms_per_token * (row.front_tokens + unmatched);
        FirstToken { ms, matched_tokens, ms_per_token: row.ms_per_token }
    }

    /// Whether a policy that keeps requests in their region could have picked it.
    fn is_alternative(&self) -> bool {
        self.ineligible.is_none() && self.row.pool.role.answers() && self.row.rtt_ms <= 0.0
    }
}

impl Decision {
    /// The first token that the pick promises; `None` without a pick, and for a peer whose replicas
    /// are not known.
    #[must_use]
    pub fn first_token_predicted(&self) -> Option<FirstToken> {
        let find = |id: ReplicaId| self.candidates.iter().find(|c| c.replica == id);
        let predicted = match (self.pick?.0, self.prefill) {
            (Target::Peer(_), _) => self.away?,
            (Target::Replica(id), None) => find(id)?.first_token(),
            (Target::Replica(id), Some(from)) => handed_over(find(from)?, find(id)?, self.pace),
        };
        predicted.is_finite().then_some(predicted)
    }

    /// The decision beside its alternatives; `None` if it picked nothing, or if no replica of the own
    /// region was eligible: nothing else could have been done then.
    #[must_use]
    pub fn alternatives(&self) -> Option<Alternatives> {
        let picked = self.first_token_predicted()?;
        let (mut best, mut sum, mut count) = (None::<FirstToken>, FirstToken::default(), 0_u32);
        let there = self.candidates.iter().filter(|c| c.is_alternative());
        for one in there.map(CandidateRow::first_token).filter(FirstToken::is_finite) {
            if best.is_none_or(|best| one.ms < best.ms) {
                best = Some(one);
            }
            sum.ms += one.ms;
            sum.matched_tokens += one.matched_tokens;
            sum.ms_per_token += one.ms_per_token;
            count += 1;
        }
        let count = count as f32;
        let mean = FirstToken {
            ms: sum.ms / count,
            matched_tokens: sum.matched_tokens / count,
            ms_per_token: sum.ms_per_token / count,
        };
        best.map(|best| Alternatives { picked, best, mean })
    }
}

/// The first token of a pair: the prompt at one replica, then the KV that the other lacks.
pub(crate) fn handed_over(from: &CandidateRow, to: &CandidateRow, pace: Pace) -> FirstToken {
    let prefill = from.first_token();
    let missing = (to.prompt_tokens as f32 - to.matched_tokens).max(0.0);
    FirstToken { ms: prefill.ms + pace.ms(missing), ..prefill }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::Row;
    use crate::why::{Ineligible, Why};
    use meridian_base::PeerId;

    /// A replica with 1 ms a token, so that ms and tokens are the same.
    fn row(id: u16, front: f32, matched: f32) -> CandidateRow {
        let row = Row { front_tokens: front, ms_per_token: 1.0, trust: 1.0, ..Row::default() };
        let (replica, prompt_tokens) = (ReplicaId(id), 100);
        CandidateRow {
            replica,
            ineligible: None,
            matched_tokens: matched,
            prompt_tokens,
            row,
            of_siblings: Default::default(),
            loading_ms: 0.0,
        }
    }

    fn sent(target: Target, candidates: vec::Vec<CandidateRow>) -> Decision {
        Decision { pick: Some((target, Why::Turn)), candidates, ..Decision::default() }
    }

    // The pick stands beside the best and the mean of those that were eligible: a replica that is
    // full or forbidden is no alternative.
    #[test]
    fn beside_the_eligible_ones() {
        let full = CandidateRow { ineligible: Some(Ineligible::Full), ..row(3, 0.0, 100.0) };
        let forbidden = CandidateRow { ineligible: Some(Ineligible::Forbidden), ..full };
        let all = vec![row(0, 10.0, 90.0), row(1, 0.0, 0.0), row(2, 0.0, 95.0), full, forbidden];
        let found = sent(Target::Replica(ReplicaId(0)), all).alternatives().unwrap();
        assert_eq!((found.picked.ms, found.best.ms), (20.0, 5.0));
        assert!((found.mean.ms - (20.0 + 100.0 + 5.0) / 3.0).abs() < 1e-4);
        assert_eq!(found.picked.prefill_saved_ms(&found.best), -5.0);
        assert!((found.picked.prefill_saved_ms(&found.mean) - (90.0 - 185.0 / 3.0)).abs() < 1e-4);
    }

    // A forward counts with its round trip. Without an eligible replica here there was no choice, and
    // a replica of another region is none of the own region.
    #[test]
    fn a_forward_beside_the_own_region() {
        let peer = Target::Peer(PeerId(0));
        let away = Some(FirstToken { ms: 92.0, matched_tokens: 100.0, ms_per_token: 1.0 });
        let forward = Decision { away, ..sent(peer, vec![row(0, 50.0, 0.0)]) };
        let found = forward.alternatives().unwrap();
        assert_eq!((found.picked.ms, found.best.ms, found.mean.ms), (92.0, 150.0, 150.0));
        assert_eq!(found.picked.prefill_saved_ms(&found.best), 100.0);
        let mut far = row(0, 0.0, 0.0);
        far.row.rtt_ms = 80.0;
        assert_eq!(Decision { away, ..sent(peer, vec![far]) }.alternatives(), None);
        assert_eq!(sent(peer, vec![row(0, 0.0, 0.0)]).alternatives(), None, "not predicted");
        assert_eq!(Decision::default().alternatives(), None, "nothing was picked");
    }

    // Figures that are not numbers lead to no comparison.
    #[test]
    fn no_number_no_comparison() {
        let mut odd = row(0, f32::NAN, 0.0);
        assert_eq!(sent(Target::Replica(ReplicaId(0)), vec![odd]).alternatives(), None);
        odd.row.front_tokens = f32::INFINITY;
        assert_eq!(sent(Target::Replica(ReplicaId(0)), vec![odd]).alternatives(), None);
    }
}
