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

mod place;

use meridian_base::RequestId;

use crate::scenario::Objective;

/// The oracle's state.
pub(crate) struct Oracle {
    objective: Objective,
    waiting: Vec<RequestId>,
    /// Requests placed and not ended, by replica.
    placed: Vec<Vec<Placed>>,
}

/// A request at a replica, or on its way there.
struct Placed {
    id: RequestId,
    unmatched: f64,
    reply: f64,
    blocks: u32,
}

impl Oracle {
    pub(crate) fn new(objective: Objective) -> Oracle {
        Oracle { objective, waiting: Vec::new(), placed: Vec::new() }
    }

    fn weights(&self) -> (f64, f64) {
        match self.objective {
            Objective::Ttft { work } => (work, 0.0),
            Objective::Throughput { balance } => (4.0, balance),
        }
    }
}
