//! The newest samples of a value, for the quantiles on the status page.

use std::collections::VecDeque;

use meridian_base::sorted_quantile;
use meridian_protocol::admin;

/// A bounded window of samples.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    samples: VecDeque<f32>,
    count: u64,
}

/// Number of samples kept.
const WINDOW: usize = 4096;

impl Samples {
    pub(crate) fn add(&mut self, sample: f32) {
        if self.samples.len() == WINDOW {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.count += 1;
        assert!(self.samples.len() <= WINDOW, "the window of samples grows");
    }

    /// Samples since the start.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The samples after the first `count`, as far as they are kept.
    pub(crate) fn since(&self, count: u64) -> Vec<f32> {
        assert!(count <= self.count, "{count} samples were read of {}", self.count);
        let new = usize::try_from(self.count - count).unwrap_or(usize::MAX);
        let known = self.samples.len().saturating_sub(new);
        self.samples.range(known..).copied().collect()
    }

    pub(crate) fn quantiles(&self) -> admin::Quantiles {
        let mut sorted: Vec<f64> = self.samples.iter().copied().map(f64::from).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |share| sorted_quantile(&sorted, share).unwrap_or_default();
        admin::Quantiles { p50: at(0.5), p99: at(0.99), count: self.count }
    }
}
