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
use meridian_engine::{BLOCK_TOKENS, blocks_for};

use crate::scenario::Objective;

/// How many of the waiting requests are examined when capacity frees up.
const LOOK: usize = 128;
/// Seconds for which a reply token counts in the balance.
const REPLY_SECONDS: f64 = 1e-4;

/// The oracle's state.
#[derive(Debug)]
pub(crate) struct Oracle {
    objective: Objective,
    waiting: Vec<RequestId>,
    /// Requests placed and not ended, by replica.
    placed: Vec<Vec<Placed>>,
}

/// A request at a replica, or on its way there.
#[derive(Clone, Copy, Debug)]
struct Placed {
    id: RequestId,
    unmatched: f64,
    reply: f64,
    blocks: u32,
}

/// A request that may be placed at a replica, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    pub(crate) prompt: u32,
    pub(crate) reply: u32,
    /// Blocks of it that are cached there.
    pub(crate) matched: u32,
}

/// A replica at which it may be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) replica: usize,
    /// Seconds to there and back.
    pub(crate) rtt: f64,
    /// Seconds that one token of prefill takes.
    pub(crate) per_token: f64,
}

impl Oracle {
    /// Nothing waits, and no replica is known.
    pub(crate) fn new(objective: Objective) -> Oracle {
        Oracle { objective, waiting: Vec::new(), placed: Vec::new() }
    }

    fn weights(&self) -> (f64, f64) {
        match self.objective {
            Objective::Ttft { work } => (work, 0.0),
            Objective::Throughput { balance } => (4.0, balance),
        }
    }

    /// There are this many replicas now.
    pub(crate) fn grow(&mut self, replicas: usize) {
        assert!(replicas >= self.placed.len(), "{replicas} replicas, fewer than before");
        self.placed.resize_with(replicas, Vec::new);
    }

    /// A request waits for capacity.
    pub(crate) fn wait(&mut self, id: RequestId) {
        self.waiting.push(id);
    }

    /// The waiting requests that are examined, in order of arrival.
    pub(crate) fn examined(&self) -> &[RequestId] {
        &self.waiting[..self.waiting.len().min(LOOK)]
    }

    /// Takes the n-th waiting request, to place it.
    pub(crate) fn take(&mut self, nth: usize) -> RequestId {
        self.waiting.remove(nth)
    }

    /// Whether a replica of `kv_blocks` has KV for a request; an empty one always has.
    pub(crate) fn fits(&self, fit: Fit, replica: usize, kv_blocks: u32) -> bool {
        let placed = &self.placed[replica];
        let promised: u32 = placed.iter().map(|p| p.blocks).sum();
        let needs = blocks_for(fit.prompt + fit.reply) - fit.matched;
        promised + needs <= kv_blocks || placed.is_empty()
    }

    /// The cost in seconds of serving a request at a replica where it fits.
    pub(crate) fn cost(&self, fit: Fit, room: Room) -> f64 {
        let placed = &self.placed[room.replica];
        let (work, balance) = self.weights();
        let unmatched = f64::from(fit.prompt) - f64::from(fit.matched * BLOCK_TOKENS);
        let front: f64 = placed.iter().map(|p| p.unmatched).sum();
        let to_come: f64 = placed.iter().map(|p| p.reply).sum();
        room.rtt
            + room.per_token * (front + unmatched * (1.0 + work))
            + balance * REPLY_SECONDS * to_come
    }

    /// Places a request at a replica.
    pub(crate) fn place(&mut self, id: RequestId, replica: usize, fit: Fit) {
        self.placed[replica].push(Placed {
            id,
            unmatched: f64::from(fit.prompt.saturating_sub(fit.matched * BLOCK_TOKENS)),
            reply: f64::from(fit.reply),
            blocks: blocks_for(fit.prompt + fit.reply).saturating_sub(fit.matched),
        });
    }

    /// The prefill of a placed request has ended.
    pub(crate) fn prefilled(&mut self, id: RequestId, replica: usize) {
        if let Some(placed) = self.placed[replica].iter_mut().find(|p| p.id == id) {
            placed.unmatched = 0.0;
        }
    }

    /// A placed request has left its replica.
    pub(crate) fn ended(&mut self, id: RequestId, replica: usize) {
        let before = self.placed[replica].len();
        self.placed[replica].retain(|p| p.id != id);
        let left = before - self.placed[replica].len();
        assert!(left <= 1, "{id} was placed {left} times at replica {replica}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIT: Fit = Fit { prompt: 64, reply: 16, matched: 1 };

    const ROOM: Room = Room { replica: 0, rtt: 0.5, per_token: 0.01 };

    fn oracle(objective: Objective) -> Oracle {
        let mut oracle = Oracle::new(objective);
        oracle.grow(1);
        oracle
    }

    // The RTT, the prefill of other requests, and the request's own prefill, which costs others too.
    #[test]
    fn the_cost_of_a_place() {
        let mut oracle = oracle(Objective::Ttft { work: 1.0 });
        let cost = |oracle: &Oracle| oracle.cost(FIT, ROOM);
        assert!((cost(&oracle) - (0.5 + 0.01 * 48.0 * 2.0)).abs() < 1e-12);
        oracle.place(RequestId(1), 0, FIT);
        assert!((cost(&oracle) - (0.5 + 0.01 * (48.0 + 48.0 * 2.0))).abs() < 1e-12);
        oracle.prefilled(RequestId(1), 0);
        assert!((cost(&oracle) - (0.5 + 0.01 * 48.0 * 2.0)).abs() < 1e-12);
    }

    // A request waits for KV, unless the replica is empty; an end frees it.
    #[test]
    fn places_end() {
        let mut oracle = oracle(Objective::Throughput { balance: 1.0 });
        assert!(oracle.fits(FIT, 0, 1));
        oracle.place(RequestId(1), 0, FIT);
        assert!(!oracle.fits(FIT, 0, 7));
        assert!(oracle.fits(FIT, 0, 8));
        oracle.ended(RequestId(1), 0);
        assert!(oracle.fits(FIT, 0, 1));
    }

    // Requests are examined in the order in which they came, not all of them.
    #[test]
    fn some_are_examined() {
        let mut oracle = oracle(Objective::Ttft { work: 0.0 });
        (0..200).for_each(|id| oracle.wait(RequestId(id)));
        assert_eq!(oracle.take(1), RequestId(1));
        assert_eq!(oracle.examined().len(), LOOK);
        assert_eq!(oracle.examined()[..2], [RequestId(0), RequestId(2)]);
    }
}
