//! The circuit breaker: closed, open, half-open with one probe.
//!
//! It opens after some failures in a row, or when they are a large share of the recent attempts: a
//! replica that fails every second request never fails many in a row. A success closes it, but the
//! recent attempts still count, so such a replica soon opens it again, for twice as long.
//!
//! Only a replica's own failures count: connection errors, 5xx, timeouts, truncated streams. Client
//! errors and a full engine say nothing about a replica's health and are not reported to the
//! breaker.

use meridian_base::{Duration, Time};

use crate::cost::Recent;

/// When a breaker opens and how long it stays open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerConfig {
    /// Consecutive failures that open it, and the recent failures from which their share counts.
    pub failures: u32,
    /// The share of failures among recent attempts that opens it, above 0 and at most 1.
    pub share: f64,
    /// Time constant of what is recent: an attempt weighs exp(-age / window).
    pub window: Duration,
    /// How long it stays open the first time.
    pub open: Duration,
    /// The open time doubles with every failed probe up to this.
    pub open_max: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        BreakerConfig {
            failures: 5,
            share: 0.4,
            window: Duration::from_secs(30),
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
    /// Failures in a row.
    failures: u32,
    /// Recent attempts that succeeded, and those that failed.
    good: Recent,
    bad: Recent,
    /// When it may half-open, and how long the next opening will be.
    open: Option<(Time, Duration)>,
    /// When it last closed, and how long it had been open.
    closed: Option<(Time, Duration)>,
    /// The half-open probe is in flight.
    trying: bool,
    /// It stays open since the last try failed, and it is not known yet whether the replica was the cause.
    is_unsure: bool,
}

impl Breaker {
    pub(crate) fn new(config: BreakerConfig) -> Breaker {
        Breaker {
            config,
            failures: 0,
            good: Recent::NONE,
            bad: Recent::NONE,
            open: None,
            closed: None,
            trying: false,
            is_unsure: false,
        }
    }

    /// The thresholds.
    pub(crate) fn config(&self) -> BreakerConfig {
        self.config
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

    /// Whether it is neither open nor half open.
    pub(crate) fn is_closed(&self) -> bool {
        self.open.is_none()
    }

    /// Whether a request may pass now.
    pub(crate) fn passes(&self, now: Time) -> bool {
        match self.state(now) {
            BreakerState::Closed => true,
            BreakerState::Open => false,
            BreakerState::HalfOpen => !self.trying,
        }
    }

    /// A request was let through that was sent at `sent`. One from before the breaker opened is no try.
    pub(crate) fn sent(&mut self, now: Time, sent: Time) {
        let is_old = self.open.is_some_and(|(until, _)| sent < until);
        if self.state(now) == BreakerState::HalfOpen && !is_old {
            self.trying = true;
        }
    }

    /// A request that was sent at `sent` succeeded: closes the breaker, unless it was sent before that
    /// opened.
    pub(crate) fn success(&mut self, now: Time, sent: Time) {
        self.good.add(now, self.config.window, 1.0);
        match self.open {
            Some((until, _)) if sent < until => return,
            Some((_, length)) => self.closed = Some((now, length)),
            None => {}
        }
        self.failures = 0;
        self.open = None;
        (self.trying, self.is_unsure) = (false, false);
    }

    /// A request ended without a verdict on the replica's health: frees the half-open slot.
    pub(crate) fn neutral(&mut self) {
        self.trying = false;
    }

    /// A request sent at `sent` failed, and the request itself may be the cause. It shows no health, so
    /// the next try of a half-open breaker is after the same time again.
    pub(crate) fn unsure(&mut self, now: Time, sent: Time) {
        if let Some((until, length)) = self.open.filter(|(until, _)| sent >= *until) {
            assert!(now >= until, "a try comes when the breaker is half open");
            (self.open, self.is_unsure) = (Some((now + length, length)), true);
        }
        self.trying = false;
    }

    /// The replica was the cause of a failure of which it was [`unsure`](Self::unsure). If that was the try of a
    /// half-open breaker, it stays open for twice as long.
    pub(crate) fn blamed(&mut self, now: Time, others: bool) {
        match self.open.filter(|_| self.is_unsure) {
            Some((until, length)) => {
                self.bad.add(now, self.config.window, 1.0);
                self.opens(until - length, length * 2);
            }
            // When it was sent is not kept.
            None => self.failure(now, Time::ZERO, others),
        }
    }

    /// A request that was sent at `sent` failed because of the replica. The share of failures opens it
    /// only if `others` can take the requests: half of the answers are better than none.
    pub(crate) fn failure(&mut self, now: Time, sent: Time, others: bool) {
        self.bad.add(now, self.config.window, 1.0);
        match self.open {
            // Late failures of requests sent before the breaker opened do not prolong it.
            Some((until, _)) if sent < until => {}
            Some((_, length)) => {
                self.trying = false;
                self.opens(now, length * 2);
            }
            None => {
                self.trying = false;
                self.failures = self.failures.saturating_add(1);
                if self.failures >= self.config.failures || others && self.is_half_broken(now) {
                    let window = self.config.window;
                    let again = self.closed.filter(|(at, _)| now.since(*at) < window);
                    self.opens(now, again.map_or(self.config.open, |(_, length)| length * 2));
                }
            }
        }
    }

    fn opens(&mut self, now: Time, length: Duration) {
        let length = length.min(self.config.open_max);
        (self.open, self.is_unsure) = (Some((now + length, length)), false);
    }

    /// Whether enough of the recent attempts failed.
    fn is_half_broken(&self, now: Time) -> bool {
        let BreakerConfig { failures, share, window, .. } = self.config;
        let (good, bad) = (self.good.get(now, window), self.bad.get(now, window));
        bad >= f64::from(failures) && bad >= share * (good + bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn fails(b: &mut Breaker, at: Time) {
        b.failure(at, at, true);
    }

    fn opened() -> Breaker {
        let mut b = Breaker::new(BreakerConfig::default());
        (0..5).for_each(|_| fails(&mut b, Time::ZERO));
        b
    }

    // Five failures in a row open the breaker; a success in between resets the count.
    #[test]
    fn opens_on_failures_in_a_row() {
        let mut b = Breaker::new(BreakerConfig::default());
        (0..4).for_each(|_| b.failure(Time::ZERO, Time::ZERO, false));
        b.success(Time::ZERO, Time::ZERO);
        (0..4).for_each(|_| b.failure(Time::ZERO, Time::ZERO, false));
        assert!(b.passes(Time::ZERO));
        b.failure(Time::ZERO, Time::ZERO, false);
        assert_eq!(b.state(Time::ZERO), BreakerState::Open);
    }

    // Half-open lets exactly one request through. If it succeeds the breaker closes; if it fails
    // the wait doubles.
    #[test]
    fn half_open_tries_once() {
        let mut b = opened();
        let later = ms(1000);
        assert!(b.passes(later));
        b.sent(later, later);
        assert!(!b.passes(later), "only one try at a time");
        fails(&mut b, later);
        assert!(!b.passes(ms(2999)));
        assert!(b.passes(ms(3000)));
        b.sent(ms(3000), ms(3000));
        b.success(ms(3001), ms(3000));
        assert_eq!(b.state(ms(3001)), BreakerState::Closed);
    }

    // A half-open try that ends in a client error or a full engine frees the slot for another.
    #[test]
    fn neutral_end_gives_the_try_back() {
        let mut b = opened();
        b.sent(ms(1000), ms(1000));
        b.neutral();
        assert!(b.passes(ms(1000)));
    }

    // Requests that were sent before it opened neither close it nor keep it open.
    #[test]
    fn late_ends_say_nothing_new() {
        let mut b = opened();
        b.success(ms(500), Time::ZERO);
        assert_eq!(b.state(ms(500)), BreakerState::Open);
        b.failure(ms(1000), Time::ZERO, true);
        assert!(b.passes(ms(1000)));
        b.success(ms(1001), Time::ZERO);
        assert_eq!(b.state(ms(1001)), BreakerState::HalfOpen);
    }

    // An error that may be the request's own shows no health: the next try is a while later.
    #[test]
    fn an_unsure_try_is_repeated_later() {
        let mut b = opened();
        b.sent(ms(1000), ms(1000));
        b.unsure(ms(1100), ms(1000));
        assert!(!b.passes(ms(2099)) && b.passes(ms(2100)));
        b.sent(ms(2100), ms(2100));
        b.unsure(ms(2200), ms(2100));
        b.blamed(ms(2300), true);
        assert!(!b.passes(ms(4199)) && b.passes(ms(4200)), "it was the replica: twice as long");
    }

    // A request from before it opened, which only now reaches the replica that answers, is not the try.
    #[test]
    fn an_old_request_is_no_try() {
        let mut b = opened();
        b.sent(ms(1500), Time::ZERO);
        assert!(b.passes(ms(1500)));
        b.success(ms(1600), Time::ZERO);
        assert!(b.passes(ms(1600)));
    }

    // Defect half-broken: a replica that fails every second request opens its breaker, if others can take the requests.
    #[test]
    fn opens_on_a_share_of_failures() {
        for (good, bad, others, opens) in
            [(1, 1, true, true), (1, 1, false, false), (9, 1, true, false), (0, 1, true, true)]
        {
            let mut b = Breaker::new(BreakerConfig { failures: 6, ..BreakerConfig::default() });
            let (mut now, mut attempts) = (Time::ZERO, 0);
            while b.open.is_none() && attempts < 500 {
                now = ms(100 * attempts);
                let is_good = attempts % (good + bad) < good;
                if is_good {
                    b.success(now, now)
                } else {
                    b.failure(now, now, others)
                }
                attempts += 1;
            }
            assert_eq!(b.state(now) == BreakerState::Open, opens, "{good} good, {bad} bad");
            assert!(!opens || attempts <= 16, "after {attempts}");
        }
    }

    // Defect half-broken: a success closes the breaker, but the replica's next failure opens it again, for twice as long.
    // A replica that then answers well is forgiven.
    #[test]
    fn a_success_does_not_forget_the_rate() {
        let mut b = opened();
        for length in [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000] {
            let (until, open) = b.open.expect("it is open");
            assert_eq!(open, Duration::from_millis(length));
            assert!(!b.passes(until - Duration::from_millis(1)) && b.passes(until));
            b.sent(until, until);
            b.success(until, until);
            assert_eq!(b.state(until), BreakerState::Closed);
            let mut at = until;
            while b.open.is_none() {
                at = at + Duration::from_millis(100);
                assert!(at < until + Duration::from_secs(5), "closed after {length} ms open");
                if b.failures == 0 { fails(&mut b, at) } else { b.success(at, at) }
            }
        }
        let (until, _) = b.open.expect("it is open");
        for second in 0..120 {
            let at = until + Duration::from_secs(second);
            b.success(at, at);
        }
        let later = until + Duration::from_secs(120);
        (0..4).for_each(|_| fails(&mut b, later));
        assert_eq!(b.state(later), BreakerState::Closed);
    }
}
