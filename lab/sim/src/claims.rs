//! Compares the gateways' cache predictions with the engines' actual hits: no index may err beyond
//! its trust.
//!
//! A gateway predicts how much of a prompt a replica has cached, weighted by its trust in the
//! replica. It may be wrong: engines evict on their own, restart, and serve other gateways. But
//! each answer reports the actual hit, and the trust must follow it. With weight g for an answer,
//! trust t and the share s of the prediction that was found, t moves by g (s - t), so over any
//! answers in a row
//!
//! ```text
//! sum of (t - s) = (first t - last t) / g <= 1 / g
//! ```
//! If a replica's claims exceed that, its gateway overestimates it more, or for longer, than the
//! answers justify: the answers do not reach the trust, or the judged prediction is not the one
//! that was made. Shares count, not tokens: the trust is one number for long and short prompts.

use meridian_base::ReplicaId;

/// The most that a trust which follows the answers allows. The routing machine's weight of an
/// answer is 0.05; one more for rounding.
pub(crate) const MOST: f64 = 1.0 / 0.05 + 1.0;

/// By how much a gateway overestimated each of its replicas, in answers: the maximum over all
/// sequences of answers up to the newest.
#[derive(Debug, Default)]
pub(crate) struct Claims(Vec<f64>);

impl Claims {
    /// A replica joins under this number.
    pub(crate) fn begin(&mut self, id: ReplicaId) {
        if self.0.len() <= id.index() {
            self.0.resize(id.index() + 1, 0.0);
        }
        self.0[id.index()] = 0.0;
    }

    /// Records an answer that `found` this much in the cache, where `trust` was predicted of the
    /// whole; returns the overestimate so far.
    pub(crate) fn weigh(&mut self, id: ReplicaId, trust: f64, found: f64) -> f64 {
        assert!((0.0..=1.0).contains(&found), "{id}: {found} is no share of a prediction");
        assert!(trust >= 0.0, "{id}: {trust} is no trust");
        let Some(excess) = self.0.get_mut(id.index()) else { return 0.0 };
        *excess = (*excess + trust - found).max(0.0);
        *excess
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Trust that follows stays within the bound for any hits, in the worst order as well; trust
    // that stays constant or follows half as fast exceeds it.
    #[test]
    fn the_bound_is_what_following_gives() {
        let worst = |gain: f64, found: &dyn Fn(u32) -> f64| {
            let (mut claims, mut trust, mut most) = (Claims::default(), 1.0_f64, 0.0_f64);
            claims.begin(ReplicaId(0));
            for answer in 0..2000 {
                most = most.max(claims.weigh(ReplicaId(0), trust, found(answer)));
                trust += gain * (found(answer) - trust);
            }
            most
        };
        let never = |_| 0.0;
        let seldom = |answer: u32| f64::from(u8::from(answer.is_multiple_of(7)));
        let in_turns = |answer: u32| f64::from(u8::from((answer / 300).is_multiple_of(2)));
        for found in [&never as &dyn Fn(u32) -> f64, &seldom, &in_turns] {
            assert!(worst(0.05, found) <= MOST);
            assert!(worst(0.0, found) > MOST);
        }
        assert!(worst(0.025, &never) > MOST);
    }

    // A replica that joins again starts without claims, and an unknown one has none.
    #[test]
    fn claims_start_again() {
        let mut claims = Claims::default();
        assert_eq!(claims.weigh(ReplicaId(3), 1.0, 0.0), 0.0);
        claims.begin(ReplicaId(3));
        assert_eq!(claims.weigh(ReplicaId(3), 1.0, 0.25), 0.75);
        claims.begin(ReplicaId(3));
        assert_eq!(claims.weigh(ReplicaId(3), 0.0, 1.0), 0.0);
    }
}
