//! What gateways claim of caches, held against what engines find: no index lies beyond its trust.
//!
//! A gateway predicts how much of a prompt a replica holds, and weighs that by its trust in the
//! replica. It may be wrong: engines evict by themselves, restart, and are used by other gateways.
//! But each answer tells what was found, and the trust must follow. With weight g for an answer,
//! trust t and the share s of the prediction that was found, t moves by g (s - t), so over any
//! answers in a row
//!
//! ```text
//! sum of (t - s) = (first t - last t) / g <= 1 / g
//! ```
//! A replica whose claims exceed that is claimed more of, for longer, than its gateway was told:
//! the answers do not reach the trust, or the prediction that is judged is not the one that was
//! made. Shares count, not tokens: the trust is one number, for long prompts and short ones.

mod weigh;

use meridian_base::ReplicaId;

/// How much more a gateway claimed of each of its replicas than was found, in answers: the most
/// over all rows of answers up to the newest.
#[derive(Debug, Default)]
pub(crate) struct Claims(Vec<f64>);

impl Claims {
    /// A replica is known anew, under this number.
    pub(crate) fn begin(&mut self, id: ReplicaId) {
        if self.0.len() <= id.index() {
            self.0.resize(id.index() + 1, 0.0);
        }
        self.0[id.index()] = 0.0;
    }

    /// An answer was `found` in the cache by so much, where `trust` stood for the whole; returns
    /// how much is claimed too much by now.
    fn weigh(&mut self, id: ReplicaId, trust: f64, found: f64) -> f64 {
        let Some(excess) = self.0.get_mut(id.index()) else { return 0.0 };
        *excess = (*excess + trust - found).max(0.0);
        *excess
    }
}
