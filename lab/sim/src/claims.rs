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
        let Some(excess) = self.0.get_mut(id.index()) else { return 0.0 };
        *excess = (*excess + trust - found).max(0.0);
        *excess
    }
}
