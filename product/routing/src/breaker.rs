//! The circuit breaker: closed, open, half-open with one probe.
//!
//! Only a replica's own failures count: connection errors, 5xx, timeouts, truncated streams. Client
//! errors and a full engine say nothing about a replica's health and are not reported to the
//! breaker.

use meridian_base::{Duration, Time};

/// When a breaker opens and how long it stays open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerConfig {
    /// Consecutive failures that open it.
    pub failures: u32,
    /// How long it stays open the first time.
    pub open: Duration,
    /// The open time doubles with every failed probe up to this.
    pub open_max: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        BreakerConfig {
            failures: 5,
            open: Duration::from_secs(1),
            open_max: Duration::from_secs(30),
        }
    }
}

/// The state of a breaker, for status pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests pass through.
    Closed,
    /// No request passes.
    Open,
    /// One request passes; its result closes or reopens the breaker.
    HalfOpen,
}

impl BreakerState {
    /// Its name in status and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    config: BreakerConfig,
    failures: u32,
    /// When it may half-open, and how long the next opening will be.
    open: Option<(Time, Duration)>,
    /// The half-open probe is in flight.
    trying: bool,
}

impl Breaker {
    pub(crate) fn new(config: BreakerConfig) -> Breaker {
        Breaker { config, failures: 0, open: None, trying: false }
    }

    /// Changes the thresholds. An open breaker stays open as long as it was to.
    pub(crate) fn configured(&mut self, config: BreakerConfig) {
        self.config = config;
    }

    pub(crate) fn state(&self, now: Time) -> BreakerState {
        match self.open {
            None => BreakerState::Closed,
            Some((until, _)) if now < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// Whether a request may pass now.
    pub(crate) fn passes(&self, now: Time) -> bool {
        match self.state(now) {
            BreakerState::Closed => true,
            BreakerState::Open => false,
            BreakerState::HalfOpen => !self.trying,
        }
    }

    /// A request was let through.
    pub(crate) fn sent(&mut self, now: Time) {
        if self.state(now) == BreakerState::HalfOpen {
            self.trying = true;
        }
    }

    /// A request succeeded: closes the breaker.
    pub(crate) fn success(&mut self) {
        self.failures = 0;
        self.open = None;
        self.trying = false;
    }

    /// A request ended without a verdict on the replica's health: frees the half-open slot.
    pub(crate) fn neutral(&mut self) {
        self.trying = false;
    }

    /// A request failed because of the replica.
    pub(crate) fn failure(&mut self, now: Time) {
        self.trying = false;
        match self.open {
            // Late failures of requests sent before the breaker opened do not prolong it.
            Some((until, _)) if now < until => {}
            Some((_, length)) => {
                let length = (length * 2).min(self.config.open_max);
                self.open = Some((now + length, length));
            }
            None => {
                self.failures += 1;
                if self.failures >= self.config.failures {
                    self.open = Some((now + self.config.open, self.config.open));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> Breaker {
        let mut b = Breaker::new(BreakerConfig::default());
        (0..5).for_each(|_| b.failure(Time::ZERO));
        b
    }

    // Five failures in a row open the breaker; a success in between resets the count.
    #[test]
    fn opens_on_failures_in_a_row() {
        let mut b = Breaker::new(BreakerConfig::default());
        (0..4).for_each(|_| b.failure(Time::ZERO));
        b.success();
        (0..4).for_each(|_| b.failure(Time::ZERO));
        assert!(b.passes(Time::ZERO));
        b.failure(Time::ZERO);
        assert_eq!(b.state(Time::ZERO), BreakerState::Open);
    }

    // Half-open lets exactly one request through. If it succeeds the breaker closes; if it fails
    // the wait doubles.
    #[test]
    fn half_open_tries_once() {
        let mut b = opened();
        let later = Time::from_millis(1000);
        assert!(b.passes(later));
        b.sent(later);
        assert!(!b.passes(later), "only one try at a time");
        b.failure(later);
        assert!(!b.passes(later + Duration::from_millis(1999)));
        assert!(b.passes(later + Duration::from_millis(2000)));
        b.sent(later + Duration::from_secs(2));
        b.success();
        assert_eq!(b.state(later), BreakerState::Closed);
    }

    // A half-open try that ends in a client error or a full engine frees the slot for another.
    #[test]
    fn neutral_end_gives_the_try_back() {
        let mut b = opened();
        let later = Time::from_millis(1000);
        b.sent(later);
        b.neutral();
        assert!(b.passes(later));
    }
}
