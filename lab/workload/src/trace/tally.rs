//! Exact quantiles of whole numbers, from the count of each value.

use std::collections::BTreeMap;

/// Counts of values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    counts: BTreeMap<u64, u64>,
    n: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, value: u64) {
        *self.counts.entry(value).or_default() += 1;
        self.n += 1;
    }

    /// Number of values.
    pub(crate) fn len(&self) -> u64 {
        self.n
    }

    pub(crate) fn mean(&self) -> f64 {
        let sum = self.counts.iter().map(|(&value, &n)| u128::from(value) * u128::from(n));
        sum.sum::<u128>() as f64 / self.n.max(1) as f64
    }

    pub(crate) fn max(&self) -> u64 {
        self.counts.keys().next_back().copied().unwrap_or(0)
    }

    /// The value at share `q` of the way from the least to the greatest, interpolated between
    /// neighbours.
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let place = q * self.n.saturating_sub(1) as f64;
        let (low, share) = (libm::floor(place), place - libm::floor(place));
        let below = self.nth(low as u64) as f64;
        below + share * (self.nth(low as u64 + 1) as f64 - below)
    }

    fn nth(&self, n: u64) -> u64 {
        let mut left = n;
        for (&value, &count) in &self.counts {
            if left < count {
                return value;
            }
            left -= count;
        }
        self.max()
    }
}
