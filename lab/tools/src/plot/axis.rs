//! An axis, linear or logarithmic, with round ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// An axis of numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    ticks: bool,
}

impl Axis {
    /// From 0 (or below, where values are) to a little above the largest value; in a logarithmic
    /// one from the smallest value above 0.
    pub(super) fn over(values: impl Iterator<Item = f64>, log: bool) -> Axis {
        let values: Vec<f64> = values.filter(|v| v.is_finite() && (!log || *v > 0.0)).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match (values.is_empty(), log) {
            (true, _) => (if log { 0.1 } else { 0.0 }, 1.0),
            (_, true) => (low / 1.2, high * 1.2),
            (_, false) => (low.min(0.0), high.max(0.0) * 1.05),
        };
        let high = if high > low { high } else { low + 1.0 };
        Axis { low, high, log, ticks: true }
    }

    /// From `low` to `high`, to their last bit.
    pub(super) fn exactly(low: f64, high: f64) -> Axis {
        Axis { low, high: if high > low { high } else { low + 1.0 }, log: false, ticks: true }
    }

    /// Slots for names, which are in the middle of each: 0.5, 1.5, ...
    pub(super) fn names(count: usize) -> Axis {
        Axis { low: 0.0, high: (count as f64).max(1.0), log: false, ticks: false }
    }

    pub(super) fn low(&self) -> f64 {
        self.low
    }

    fn scale(&self, v: f64) -> f64 {
        if self.log { libm::log10(v.max(self.low)) } else { v }
    }

    /// At most about `most` round numbers: 1, 2, 5 times a power of ten.
    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most.max(1) as f64;
        let power = libm::pow(10.0, libm::floor(libm::log10(rough)));
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
        let step = step.into_iter().find(|s| *s >= rough * 0.999).unwrap_or(10.0 * power);
        let first = libm::ceil(self.low / step) as i64;
        let last = libm::floor(self.high / step) as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let decades = libm::floor(libm::log10(self.low)) as i32..=libm::log10(self.high) as i32 + 1;
        let ticks = |multiples: &[f64]| -> Vec<f64> {
            let all = decades.clone().flat_map(|d| {
                let power = libm::pow(10.0, f64::from(d));
                multiples.iter().map(move |m| m * power).collect::<Vec<_>>()
            });
            all.filter(|v| (self.low..=self.high).contains(v)).collect()
        };
        // The densest that fits, so that an axis of less than a decade has some.
        let dense: [&[f64]; 3] = [
            &[1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            &[1.0, 2.0, 5.0],
        ];
        let fitting = dense.iter().map(|set| ticks(set)).find(|all| all.len() <= most);
        fitting.unwrap_or_else(|| ticks(&[1.0]))
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let (low, high) = (self.scale(self.low), self.scale(self.high));
        let share = (self.scale(*value) - low) / (high - low);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        let most = hint.max_num_points().min(8);
        match (self.ticks, self.log) {
            (false, _) => Vec::new(),
            (_, true) => self.log_ticks(most),
            (_, false) => self.linear_ticks(most),
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        // The shortest text that represents the number; ticks are round, but sums of them may not
        // be.
        let rounded = (value * 1e6).round() / 1e6;
        format!("{rounded}")
    }
}

#[cfg(test)]
mod tests {
    use crate::plot::axis::*;

    // Ticks are round and inside, in both scales.
    #[test]
    fn ticks_are_round() {
        let linear = Axis::over([0.0, 37.0].into_iter(), false);
        assert_eq!(linear.linear_ticks(8), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0]);
        let log = Axis::over([30.0, 4000.0].into_iter(), true);
        assert_eq!(log.log_ticks(8), [50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0]);
        assert_eq!(log.log_ticks(4), [100.0, 1000.0]);
        let short = Axis::over([0.9, 2.4].into_iter(), true);
        assert_eq!(short.log_ticks(8), [1.0, 1.2, 1.5, 2.0]);
    }

    // The ends lie on the ends; a value below a logarithmic axis lies on its lower end.
    #[test]
    fn ends_lie_on_the_ends() {
        let log = Axis::over([1.0, 100.0].into_iter(), true);
        assert_eq!((log.map(&0.0, (0, 100)), log.map(&10.0, (0, 100))), (0, 50));
        let none = Axis::over(std::iter::empty(), false);
        assert_eq!((none.map(&0.0, (0, 10)), none.map(&1.0, (0, 10))), (0, 10));
    }
}
