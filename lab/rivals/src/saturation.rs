//! The saturation bound of `prefix_aware`: fixed, off, or tuned by observed latency.
//!
//! llm-cache-router ships 8, sets 4 by hand for its cloud runs, and suggests tuning the bound by
//! each replica's observed p95 to remove the knob. The rule here is ours: per replica, over windows
//! of 32 first tokens, compare the window's p95 with the lowest p95 seen there. Up to twice the
//! lowest, the bound grows by one; beyond, it shrinks by a quarter (additive increase,
//! multiplicative decrease, as in TCP and Netflix's concurrency-limits). The lowest drifts up by 2
//! % a window, so one lucky window does not set the bound forever.
//!
//! It deliberately does not compare replicas: a slow GPU has its own floor.

use alloc::vec::Vec;
use meridian_base::ReplicaId;
use meridian_routing::policy::{Params, Value};

/// First tokens a window holds.
const WINDOW: usize = 32;
/// Rank of the p95 among them: 30 of 32 lie at or below it.
const RANK: usize = 30;
const SLACK: f32 = 2.0;
const DRIFT: f32 = 1.02;
const MOST: u32 = 64;

/// When a replica counts as saturated.
pub(crate) enum Saturation {
    /// Never.
    Off,
    /// At this many outstanding requests.
    Fixed(u32),
    /// At a bound of its own, tuned by latency.
    Auto { start: u32, tuned: Vec<Tuned> },
}

/// The tuning state of one replica.
pub(crate) struct Tuned {
    bound: u32,
    lowest: f32,
    window: [f32; WINDOW],
    filled: usize,
}

impl Saturation {
    pub(crate) fn of(params: &Params, name: &str, start: u32) -> Saturation {
        match params.value(name) {
            Value::Number(n) => Saturation::Fixed(*n as u32),
            Value::Word("auto") => Saturation::Auto { start, tuned: Vec::new() },
            Value::Word(_) | Value::Text(_) => Saturation::Off,
        }
    }

    /// Outstanding requests at which `replica` is saturated; `None` for never.
    #[inline]
    pub(crate) fn bound(&self, replica: ReplicaId) -> Option<u32> {
        match self {
            Saturation::Off => None,
            Saturation::Fixed(n) => Some(*n),
            Saturation::Auto { start, tuned } => {
                Some(tuned.get(replica.index()).map_or(*start, |t| t.bound))
            }
        }
    }

    /// Records a first token of `replica` after `ttft_ms`.
    pub(crate) fn first_token(&mut self, replica: ReplicaId, ttft_ms: f32) {
        let Saturation::Auto { start, tuned } = self else { return };
        if tuned.len() <= replica.index() {
            tuned.resize_with(replica.index() + 1, || Tuned::new(*start));
        }
        tuned[replica.index()].sample(ttft_ms);
    }

    /// Removes replicas that are gone, so that the next one with that id starts fresh.
    pub(crate) fn keep(&mut self, present: &[ReplicaId]) {
        let Saturation::Auto { start, tuned } = self else { return };
        for (i, t) in tuned.iter_mut().enumerate() {
            if present.binary_search_by_key(&i, |r| r.index()).is_err() {
                *t = Tuned::new(*start);
            }
        }
    }
}

impl Tuned {
    fn new(start: u32) -> Tuned {
        Tuned { bound: start, lowest: f32::INFINITY, window: [0.0; WINDOW], filled: 0 }
    }

    fn sample(&mut self, ttft_ms: f32) {
        self.window[self.filled] = ttft_ms;
        self.filled += 1;
        if self.filled < WINDOW {
            return;
        }
        self.filled = 0;
        self.window.sort_unstable_by(f32::total_cmp);
        let p95 = self.window[RANK];
        self.lowest = (self.lowest * DRIFT).min(p95);
        self.bound = match p95 > SLACK * self.lowest {
            true => (self.bound - self.bound.div_ceil(4)).max(1),
            false => (self.bound + 1).min(MOST),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto() -> Saturation {
        Saturation::Auto { start: 8, tuned: Vec::new() }
    }

    fn window(s: &mut Saturation, ttft_ms: f32) {
        (0..WINDOW).for_each(|_| s.first_token(ReplicaId(1), ttft_ms));
    }

    // Steady latency lets the bound grow by one a window; latency beyond twice the lowest takes a
    // quarter off, and exactly twice does not.
    #[test]
    fn grows_slowly_and_shrinks_fast() {
        let mut s = auto();
        assert_eq!(s.bound(ReplicaId(1)), Some(8));
        window(&mut s, 100.0);
        window(&mut s, 200.0);
        assert_eq!(s.bound(ReplicaId(1)), Some(10));
        window(&mut s, 250.0);
        assert_eq!(s.bound(ReplicaId(1)), Some(7));
        assert_eq!(s.bound(ReplicaId(0)), Some(8), "another replica's bound is its own");
    }

    // The bound stays between 1 and its maximum for any input.
    #[test]
    fn stays_within_bounds() {
        let mut s = auto();
        (0..200).for_each(|_| window(&mut s, 50.0));
        assert_eq!(s.bound(ReplicaId(1)), Some(MOST));
        (0..20).for_each(|_| window(&mut s, 1e6));
        assert_eq!(s.bound(ReplicaId(1)), Some(1));
    }

    // A replica that joins under an old id starts from the default.
    #[test]
    fn forgets_the_removed() {
        let mut s = auto();
        window(&mut s, 100.0);
        s.keep(&[ReplicaId(1)]);
        assert_eq!(s.bound(ReplicaId(1)), Some(9));
        s.keep(&[ReplicaId(0)]);
        assert_eq!(s.bound(ReplicaId(1)), Some(8));
    }
}
