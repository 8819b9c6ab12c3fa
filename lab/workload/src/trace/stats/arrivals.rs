//! Statistics of arrival times.

use std::collections::BTreeMap;

use meridian_base::Time;

/// Times of arrival.
#[derive(Default)]
pub(super) struct Arrivals {
    pub(super) count: u64,
    pub(super) first: Time,
    pub(super) last: Time,
    gaps: f64,
    squares: f64,
    minutes: BTreeMap<u64, u64>,
}

const MINUTE: u64 = 60_000_000_000;

impl Arrivals {
    pub(super) fn add(&mut self, at: Time) {
        if self.count == 0 {
            (self.first, self.last) = (at, at);
        } else {
            let gap = at.since(self.last).as_secs_f64();
            self.gaps += gap;
            self.squares += gap * gap;
        }
        self.count += 1;
        self.last = self.last.max(at);
        *self.minutes.entry(self.minute(at)).or_default() += 1;
    }

    fn minute(&self, at: Time) -> u64 {
        at.as_nanos().saturating_sub(self.first.as_nanos()) / MINUTE
    }

    pub(super) fn gap_cv(&self) -> f64 {
        let n = self.count.saturating_sub(1).max(1) as f64;
        let mean = self.gaps / n;
        let variance = (self.squares / n - mean * mean).max(0.0);
        if mean > 0.0 { libm::sqrt(variance) / mean } else { 0.0 }
    }

    pub(super) fn per_minute(&self) -> (u64, f64, u64) {
        let whole = self.minute(self.last);
        if whole == 0 {
            return (self.count, self.count as f64, self.count);
        }
        let counts = || self.minutes.range(..whole).map(|(_, &n)| n);
        let empty = (counts().count() as u64) < whole;
        let least = if empty { 0 } else { counts().min().unwrap_or(0) };
        (least, counts().sum::<u64>() as f64 / whole as f64, counts().max().unwrap_or(0))
    }
}
