//! The clairvoyant scheduler, for comparison with perfect information.
//!
//! It sees true caches, true reply lengths and the current state of every replica, and places
//! requests itself, with no gateway in between. It is greedy and no bound: the request that it serves
//! best may delay all others, and policies that know less are better in some runs. So its rule has
//! weights, and the experiments call the best over a grid of weights and over every policy's own
//! schedule the best known one.
//!
//! ```text
//! cost = RTT + t_p front + t_p (p - m) (1 + work) + balance * tokens to come there * t_d
//! ```
//! Requests wait here while no replica has free KV for them, the cheapest first.

use meridian_base::RequestId;

use crate::scenario::Objective;

/// The oracle's state.
pub(crate) struct Oracle {
    pub(crate) objective: Objective,
    pub(crate) waiting: Vec<RequestId>,
    /// Requests placed and not ended, by replica.
    pub(crate) placed: Vec<Vec<Placed>>,
}

/// A request at a replica, or on its way there.
pub(crate) struct Placed {
    pub(crate) id: RequestId,
    pub(crate) unmatched: f64,
    pub(crate) reply: f64,
    pub(crate) blocks: u32,
}

impl Oracle {
    pub(crate) fn new(objective: Objective) -> Oracle {
        Oracle { objective, waiting: Vec::new(), placed: Vec::new() }
    }

    pub(crate) fn weights(&self) -> (f64, f64) {
        match self.objective {
            Objective::Ttft { work } => (work, 0.0),
            Objective::Throughput { balance } => (4.0, balance),
        }
    }
}
