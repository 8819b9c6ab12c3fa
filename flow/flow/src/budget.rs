//! The drop budget: how many requests may be given up, as a share of the arrivals within a sliding
//! window.
//!
//! The paper's budget is one number for all time, which an hour of overload uses up for ever. Here
//! arrivals and drops are counted in buckets of a tenth of the window, so drops expire together
//! with the arrivals of the same time.

use meridian_base::{Duration, Time};

const BUCKETS: usize = 10;

/// The windowed drop budget.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    share: f64,
    bucket: u64,
    /// Index of the newest bucket since the epoch.
    newest: u64,
    arrived: [u32; BUCKETS],
    dropped: [u32; BUCKETS],
}

impl Budget {
    pub(crate) fn new(share: f64, window: Duration) -> Budget {
        assert!((0.0..=1.0).contains(&share), "a budget is a share of the arrivals");
        let bucket = (u64::try_from(window.as_nanos()).unwrap_or(u64::MAX) / BUCKETS as u64).max(1);
        Budget { share, bucket, newest: 0, arrived: [0; BUCKETS], dropped: [0; BUCKETS] }
    }

    /// Counts an arrival.
    pub(crate) fn arrived(&mut self, now: Time) {
        let at = self.turn(now);
        self.arrived[at] = self.arrived[at].saturating_add(1);
    }

    /// Takes one drop out of the budget; false if it is used up.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        let at = self.turn(now);
        let (arrived, dropped) = self.totals();
        let fits = f64::from(dropped + 1) <= self.share * f64::from(arrived);
        self.dropped[at] += u32::from(fits);
        fits
    }

    /// Arrivals and drops within the window at its last update.
    pub(crate) fn totals(&self) -> (u32, u32) {
        (self.arrived.iter().sum(), self.dropped.iter().sum())
    }

    /// Moves the window to `now` and returns the newest bucket.
    fn turn(&mut self, now: Time) -> usize {
        let bucket = now.as_nanos() / self.bucket;
        let passed = bucket.saturating_sub(self.newest).min(BUCKETS as u64);
        for step in 1..=passed {
            let at = ((self.newest + step) % BUCKETS as u64) as usize;
            (self.arrived[at], self.dropped[at]) = (0, 0);
        }
        if passed == BUCKETS as u64 {
            (self.arrived, self.dropped) = ([0; BUCKETS], [0; BUCKETS]);
        }
        assert!(bucket >= self.newest, "the window of a budget only moves forward");
        self.newest = bucket;
        (self.newest % BUCKETS as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Five of a hundred may be dropped, the sixth may not; after the window both counts are gone.
    #[test]
    fn a_twentieth_of_what_came_may_go() {
        let mut budget = Budget::new(0.05, Duration::from_secs(10));
        (0..100).for_each(|ms| budget.arrived(Time::from_millis(ms)));
        let now = Time::from_millis(200);
        assert_eq!((0..10).filter(|_| budget.take(now)).count(), 5);
        let later = Time::from_millis(15_000);
        (0..40).for_each(|_| budget.arrived(later));
        assert_eq!((0..10).filter(|_| budget.take(later)).count(), 2);
        assert_eq!(budget.totals(), (40, 2));
    }

    // With few requests there is no budget: a twentieth of nineteen is less than one.
    #[test]
    fn nineteen_requests_allow_no_drop() {
        let mut budget = Budget::new(0.05, Duration::from_secs(10));
        (0..19).for_each(|_| budget.arrived(Time::ZERO));
        assert!(!budget.take(Time::ZERO));
    }
}
