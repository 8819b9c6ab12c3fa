//! One limit per minute: GCRA, the leaky bucket that needs a single number (`governor`).
//!
//! That number is the time at which everything taken so far has been earned back. `governor` only
//! ever moves it forward. It is kept here, where it can also move back if a request took less than
//! it was charged, and further ahead if it took more. While a bucket is in debt, nothing can be
//! taken.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{NotKeyed, StateStore};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

/// Largest debt, so that a tenant of an engine with wrong counts is admitted again.
const MOST_BEHIND: u64 = 10 * 60 * 1_000_000_000;

/// The request exceeds the remaining units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) size: u32,
    pub(super) remaining: u32,
    pub(super) wait: Duration,
}

#[derive(Debug)]
pub(super) struct Bucket {
    limiter: RateLimiter<NotKeyed, Earned, Ticks, NoOpMiddleware<Nanos>>,
    earned: Earned,
    ticks: Ticks,
    /// Units per minute, which may all be taken at once.
    size: u32,
    /// Nanoseconds to earn one unit.
    each: u64,
}

/// Time since the bucket was made. Tokio's clock, which tests pause.
#[derive(Clone, Copy, Debug)]
struct Ticks(Instant);

impl Clock for Ticks {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.elapsed().into()
    }
}

/// When everything taken has been earned back, in nanoseconds since the bucket was made.
#[derive(Clone, Debug, Default)]
struct Earned(Arc<AtomicU64>);

impl Earned {
    fn change(&self, change: impl Fn(u64) -> u64) {
        // Fails only if the closure returns `None`, which this one never does.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| Some(change(at)));
    }
}

impl StateStore for Earned {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _: &NotKeyed, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let (outcome, after) = f(Some(before.into()))?;
            let swapped = self.0.compare_exchange_weak(
                before,
                after.into(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match swapped {
                Ok(_) => return Ok(outcome),
                Err(changed) => before = changed,
            }
        }
    }
}

impl Bucket {
    pub(super) fn new(per_minute: u32) -> Bucket {
        let size = NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_minute(size);
        let each = Nanos::from(quota.replenish_interval()).as_u64();
        assert!(each > 0, "{per_minute} per minute are earned in no time");
        let (earned, ticks) = (Earned::default(), Ticks(Instant::now()));
        Bucket {
            limiter: RateLimiter::new(quota, earned.clone(), ticks),
            earned,
            ticks,
            size: size.get(),
            each,
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Takes `n` units, all or nothing; at most `size` at once.
    pub(super) fn take(&self, n: u32) -> Result<(), Over> {
        let Some(units) = NonZeroU32::new(n) else { return Ok(()) };
        let wait = match self.limiter.check_n(units) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(later)) => later.wait_time_from(self.ticks.now()),
            Err(_) => Duration::from_secs(60),
        };
        Err(Over { size: self.size, remaining: self.left().0, wait })
    }

    /// Corrects a charge of `taken` units to the `used` units, fewer or more.
    pub(super) fn settle(&self, taken: u32, used: u32) {
        let now = self.ticks.now().as_u64();
        let worth = self.each.saturating_mul(u64::from(taken.abs_diff(used)));
        self.earned.change(|at| match used <= taken {
            true => at.saturating_sub(worth),
            false => at.max(now).saturating_add(worth).min(at.max(now + MOST_BEHIND)),
        });
    }

    /// Units that are taken and not earned back, more than `size` in debt.
    pub(super) fn taken(&self) -> u32 {
        let behind =
            self.earned.0.load(Ordering::Relaxed).saturating_sub(self.ticks.now().as_u64());
        u32::try_from(behind.div_ceil(self.each)).unwrap_or(u32::MAX)
    }

    /// Units left, and the time until the bucket is full again.
    pub(super) fn left(&self) -> (u32, Duration) {
        let behind =
            self.earned.0.load(Ordering::Relaxed).saturating_sub(self.ticks.now().as_u64());
        let whole = self.each * u64::from(self.size);
        let left = whole.saturating_sub(behind) / self.each;
        assert!(left <= u64::from(self.size), "{left} units are left of {}", self.size);
        (u32::try_from(left).unwrap_or(u32::MAX), Duration::from_nanos(behind))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    // A minute's units may be taken at once, then each as it is earned. A refused request costs
    // nothing and gets the time to wait.
    #[tokio::test(start_paused = true)]
    async fn earned_back_in_a_minute() {
        let bucket = Bucket::new(60);
        assert_eq!(bucket.take(60), Ok(()));
        assert_eq!(bucket.left(), (0, 60 * SECOND));
        let over = Over { size: 60, remaining: 0, wait: 2 * SECOND };
        assert_eq!(bucket.take(2), Err(over));
        sleep(2 * SECOND).await;
        assert_eq!((bucket.left(), bucket.take(2)), ((2, 58 * SECOND), Ok(())));
        sleep(120 * SECOND).await;
        assert_eq!(bucket.left(), (60, Duration::ZERO), "never more than a minute's");
    }

    // Unused units of a charge are available again at once. Units used beyond the charge are owed:
    // nothing can be taken until they are earned.
    #[tokio::test(start_paused = true)]
    async fn settled_both_ways() {
        let bucket = Bucket::new(60);
        assert_eq!(bucket.take(50), Ok(()));
        bucket.settle(50, 20);
        assert_eq!(bucket.left().0, 40);
        bucket.settle(0, 70);
        assert_eq!(bucket.left(), (0, 90 * SECOND));
        assert_eq!(bucket.take(1).unwrap_err().wait, 31 * SECOND);
        sleep(31 * SECOND).await;
        assert_eq!(bucket.take(1), Ok(()));
    }

    // A late correction yields no more than a minute's units.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_gained() {
        let bucket = Bucket::new(60);
        assert_eq!(bucket.take(60), Ok(()));
        sleep(60 * SECOND).await;
        bucket.settle(60, 0);
        assert_eq!(bucket.left(), (60, Duration::ZERO));
        assert_eq!(bucket.take(60), Ok(()));
        assert!(bucket.take(1).is_err());
    }

    // An absurd count shuts the tenant out for ten minutes, not forever, and the largest limit
    // still has distinguishable units.
    #[tokio::test(start_paused = true)]
    async fn extremes() {
        let bucket = Bucket::new(60);
        (0..3).for_each(|_| bucket.settle(0, u32::MAX));
        assert_eq!(bucket.left(), (0, 600 * SECOND));
        let bucket = Bucket::new(1_000_000_000);
        assert_eq!(bucket.take(1_000_000_000), Ok(()));
        assert_eq!(bucket.left(), (0, 60 * SECOND));
    }
}
