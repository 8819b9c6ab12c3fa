//! One limit of so many units a minute: GCRA, the leaky bucket that needs one number (`governor`).
//!
//! That number is the time at which everything taken so far has been earned back. `governor` only ever
//! moves it forward, so it is kept here, where it can be moved back as well when a request took less
//! than it was charged, and further ahead when it took more. While a bucket owes, nothing is taken.
//!
//! What is given back late may have been earned back already while the request ran, and what a full
//! bucket earns is lost. So no more is given back than would be there had the request taken less from
//! the beginning: else requests that run for long could save up for a burst.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{NotKeyed, StateStore};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

/// The furthest that a limit can be behind: a tenant of an engine that counts nonsense gets in again.
const MOST_BEHIND: u64 = 10 * 60 * 1_000_000_000;

/// Between the beginnings of two [`Since`], nanoseconds, and most of them: longer together than the minute
/// in which a bucket fills.
const STEP: u64 = 8 * 1_000_000_000;
const STEPS: usize = 9;

/// More than is left.
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
    /// The units of a minute, which may all be taken at once.
    size: u32,
    /// Nanoseconds in which one is earned.
    each: u64,
    /// The oldest first.
    since: Mutex<VecDeque<Since>>,
}

/// A bucket that was full at a moment, and from which the same was taken after it: how far it is behind is
/// the least that the real one is, whatever was given back of what was taken earlier.
#[derive(Clone, Copy, Debug)]
struct Since {
    start: u64,
    /// When everything that was taken since has been earned back.
    earned: u64,
}

/// Since a bucket was made. Tokio's clock, which tests pause.
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
        // It fails only where the change says so, and this one does not.
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
        let (earned, ticks) = (Earned::default(), Ticks(Instant::now()));
        Bucket {
            limiter: RateLimiter::new(quota, earned.clone(), ticks),
            earned,
            ticks,
            size: size.get(),
            each: Nanos::from(quota.replenish_interval()).as_u64(),
            since: Mutex::default(),
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Takes `n` units, all or nothing; at most `size` can ever be taken at once.
    pub(super) fn take(&self, n: u32) -> Result<(), Over> {
        let Some(units) = NonZeroU32::new(n) else { return Ok(()) };
        let wait = match self.limiter.check_n(units) {
            Ok(Ok(())) => {
                self.note(n);
                return Ok(());
            }
            Ok(Err(later)) => later.wait_time_from(self.ticks.now()),
            Err(_) => Duration::from_secs(60),
        };
        Err(Over { size: self.size, remaining: self.left().0, wait })
    }

    /// So many units were taken.
    fn note(&self, n: u32) {
        let (now, worth) = (self.ticks.now().as_u64(), self.worth(n));
        let mut all = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter_mut().for_each(|since| since.earned = later(since.earned, now, worth));
        if all.back().is_none_or(|newest| newest.start + STEP <= now) {
            if all.len() == STEPS {
                all.pop_front();
            }
            // Without what was just taken.
            all.push_back(Since { start: now + 1, earned: now });
        }
    }

    fn worth(&self, units: u32) -> u64 {
        self.each.saturating_mul(u64::from(units))
    }

    /// Of units `taken` at `when` only `used` were needed, or more.
    pub(super) fn settle(&self, taken: u32, used: u32, when: Instant) {
        let now = self.ticks.now().as_u64();
        let worth = self.worth(taken.abs_diff(used));
        let mut all = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if used > taken {
            all.iter_mut().for_each(|since| since.earned = later(since.earned, now, worth));
            self.earned.change(|at| later(at, now, worth));
            return;
        }
        let when = Nanos::from(when.saturating_duration_since(self.ticks.0)).as_u64();
        // The first that does not have it is the furthest behind of those.
        let least = all.iter().find(|since| since.start > when).map_or(0, |since| since.earned);
        let back = |at: u64| at.saturating_sub(worth).max(least.min(at));
        all.iter_mut().filter(|since| since.start <= when).for_each(|s| s.earned = back(s.earned));
        self.earned.change(back);
    }

    /// Units left, and the time until all of them are there again.
    pub(super) fn left(&self) -> (u32, Duration) {
        let behind =
            self.earned.0.load(Ordering::Relaxed).saturating_sub(self.ticks.now().as_u64());
        let whole = self.each * u64::from(self.size);
        let left = whole.saturating_sub(behind) / self.each;
        (u32::try_from(left).unwrap_or(u32::MAX), Duration::from_nanos(behind))
    }
}

/// When all has been earned back that was to be at `at`, and `worth` more.
fn later(at: u64, now: u64, worth: u64) -> u64 {
    at.max(now).saturating_add(worth).min(at.max(now + MOST_BEHIND))
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    // A minute's units may be taken at once, then each as it is earned; what is refused costs nothing
    // and says how long to wait.
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

    // What was charged and not used is there again at once, and what was used beyond the charge is
    // owed: nothing is taken until it is earned.
    #[tokio::test(start_paused = true)]
    async fn settled_both_ways() {
        let (bucket, start) = (Bucket::new(60), Instant::now());
        assert_eq!(bucket.take(50), Ok(()));
        bucket.settle(50, 20, start);
        assert_eq!(bucket.left().0, 40);
        bucket.settle(0, 70, start);
        assert_eq!(bucket.left(), (0, 90 * SECOND));
        assert_eq!(bucket.take(1).unwrap_err().wait, 31 * SECOND);
        sleep(31 * SECOND).await;
        assert_eq!(bucket.take(1), Ok(()));
    }

    // Given back late, it makes no more than a minute's units.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_gained() {
        let (bucket, start) = (Bucket::new(60), Instant::now());
        assert_eq!(bucket.take(60), Ok(()));
        sleep(60 * SECOND).await;
        bucket.settle(60, 0, start);
        assert_eq!(bucket.left(), (60, Duration::ZERO));
        assert_eq!(bucket.take(60), Ok(()));
        assert!(bucket.take(1).is_err());
    }

    // Charges that were earned back while their requests ran can't be saved up: given back one after the
    // other, they make no burst of more than a minute's units.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_saved_up() {
        let bucket = Bucket::new(60);
        let mut running = Vec::new();
        for _ in 0..5 {
            running.push(Instant::now());
            assert_eq!(bucket.take(60), Ok(()));
            sleep(60 * SECOND).await;
        }
        let mut burst = 0;
        for start in running {
            bucket.settle(60, 0, start);
            while bucket.take(20).is_ok() {
                burst += 20;
            }
        }
        assert_eq!(burst, 60);
    }

    // A bucket that was never full meanwhile gives all of it back, however late: the request might as
    // well have taken less from the beginning.
    #[tokio::test(start_paused = true)]
    async fn a_busy_bucket_gives_all_back() {
        let (bucket, start) = (Bucket::new(60), Instant::now());
        assert_eq!((bucket.take(30), bucket.take(30)), (Ok(()), Ok(())));
        let mut used = 30;
        for _ in 0..12 {
            sleep(10 * SECOND).await;
            assert_eq!(bucket.take(10), Ok(()));
            used += 10;
        }
        bucket.settle(30, 0, start);
        let earned = 120;
        assert_eq!(bucket.left().0, 60 + earned - used);
    }

    // A count of nonsense shuts the tenant out for ten minutes and not for ever, and the largest limit
    // has units that can be told apart.
    #[tokio::test(start_paused = true)]
    async fn extremes() {
        let (bucket, start) = (Bucket::new(60), Instant::now());
        (0..3).for_each(|_| bucket.settle(0, u32::MAX, start));
        assert_eq!(bucket.left(), (0, 600 * SECOND));
        let bucket = Bucket::new(1_000_000_000);
        assert_eq!(bucket.take(1_000_000_000), Ok(()));
        assert_eq!(bucket.left(), (0, 60 * SECOND));
    }
}
