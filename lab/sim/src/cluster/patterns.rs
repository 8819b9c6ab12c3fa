//! The exchanges of a layer: which there are, and when they start.
//!
//! Each reading of parallelism is one row here; the batch, its plan and its objective follow it.

use super::setup::{Parallel, Pool};

/// The transfers of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// To the experts.
    Dispatch,
    /// Back from them.
    Combine,
    /// Around the ring.
    Ring,
    /// Sums all ranks' parts, on all ranks.
    AllReduce,
}

/// The exchanges of each layer, by the time at which they start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchanges {
    pub(crate) beside_attention: Option<Pattern>,
    pub(crate) after_attention: Option<Pattern>,
    pub(crate) after_rest: Option<Pattern>,
}

impl Exchanges {
    pub(crate) fn all(self) -> impl Iterator<Item = Pattern> + Clone {
        [self.beside_attention, self.after_attention, self.after_rest].into_iter().flatten()
    }
}

impl Pool {
    /// What each layer exchanges: nothing with one rank.
    pub(crate) fn exchanges(&self) -> Exchanges {
        let [beside_attention, after_attention, after_rest] = match self.parallel {
            _ if self.ranks == 1 => [None; 3],
            Parallel::Experts => [None, Some(Pattern::Dispatch), Some(Pattern::Combine)],
            Parallel::Tensor => [None, Some(Pattern::AllReduce), Some(Pattern::AllReduce)],
            Parallel::Sequence => [Some(Pattern::Ring), None, None],
        };
        Exchanges { beside_attention, after_attention, after_rest }
    }
}
