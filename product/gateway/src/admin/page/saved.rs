//! Sums of decisions beside their alternatives: what they saved against keeping each request in its
//! region, and against round robin.

use meridian_protocol::admin;
use meridian_routing::{Decision, Target};

/// Sums over some decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    decided: u64,
    compared: u64,
    forwarded: u64,
    picked_ms: f64,
    best_ms: f64,
    mean_ms: f64,
    best_gpu_ms: f64,
    mean_gpu_ms: f64,
}

impl Sums {
    /// Nothing compared yet of this many decisions.
    pub(super) fn of(decided: u64) -> Sums {
        Sums { decided, ..Sums::default() }
    }

    /// Compares a decision, if it had an alternative.
    pub(super) fn add(&mut self, decision: &Decision) {
        let Some(found) = decision.alternatives() else { return };
        self.compared += 1;
        self.forwarded += u64::from(matches!(decision.pick, Some((Target::Peer(_), _))));
        self.picked_ms += f64::from(found.picked.ms);
        self.best_ms += f64::from(found.best.ms);
        self.mean_ms += f64::from(found.mean.ms);
        self.best_gpu_ms += f64::from(found.picked.prefill_saved_ms(&found.best));
        self.mean_gpu_ms += f64::from(found.picked.prefill_saved_ms(&found.mean));
    }

    pub(super) fn plus(mut self, other: &Sums) -> Sums {
        self.decided += other.decided;
        self.compared += other.compared;
        self.forwarded += other.forwarded;
        self.picked_ms += other.picked_ms;
        self.best_ms += other.best_ms;
        self.mean_ms += other.mean_ms;
        self.best_gpu_ms += other.best_gpu_ms;
        self.mean_gpu_ms += other.mean_gpu_ms;
        self
    }

    /// The sums of `seconds`, for the page.
    pub(super) fn shown(&self, seconds: f64) -> admin::Saved {
        assert!(self.forwarded <= self.compared, "forwards are compared, too");
        let mean = |sum: f64| sum / self.compared.max(1) as f64;
        admin::Saved {
            seconds,
            decided: self.decided,
            compared: self.compared,
            forwarded: self.forwarded,
            picked_ms: mean(self.picked_ms),
            region_local_ms: mean(self.best_ms),
            round_robin_ms: mean(self.mean_ms),
            region_local_gpu_s: self.best_gpu_ms / 1e3,
            round_robin_gpu_s: self.mean_gpu_ms / 1e3,
        }
    }
}
