//! Exponentially weighted means.
//!
//! Samples arrive irregularly, so the mean decays by time and not by sample count: a sample weighs
//! exp(-age / tau). See linkerd's peak-EWMA for the same idea in a load balancer.

use meridian_base::{Duration, Time};

/// A mean that decays with a time constant.
#[derive(Clone, Copy, Debug)]
pub struct Ewma {
    tau: f64,
    value: Option<(f64, Time)>,
}

impl Ewma {
    /// An empty mean with time constant `tau`.
    #[must_use]
    pub fn new(tau: Duration) -> Ewma {
        Ewma { tau: tau.as_secs_f64().max(1e-9), value: None }
    }

    /// Adds a sample. The first one sets the value.
    pub fn add(&mut self, now: Time, sample: f64) {
        let next = match self.value {
            None => sample,
            Some((old, at)) => {
                let keep = libm::exp(-now.since(at).as_secs_f64() / self.tau);
                old * keep + sample * (1.0 - keep)
            }
        };
        self.value = Some((next, now));
    }

    /// The value, `None` before the first sample.
    #[must_use]
    pub fn get(&self) -> Option<f64> {
        self.value.map(|(v, _)| v)
    }
}

/// The share of the time that work takes, 0 to 1, as of the last work: work of one `tau`, where older
/// work weighs less.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    tau: Duration,
    share: f64,
    at: Time,
}

impl Share {
    /// No work yet.
    pub(crate) fn new(tau: Duration) -> Share {
        Share { tau, share: 0.0, at: Time::ZERO }
    }

    /// Adds work of `ms` that ends now.
    pub(crate) fn add(&mut self, now: Time, ms: f64) {
        let tau = self.tau.as_secs_f64();
        let keep = libm::exp(-now.since(self.at).as_secs_f64() / tau);
        self.share = (self.share * keep + ms / (tau * 1e3)).min(1.0);
        self.at = now;
    }

    /// The share.
    pub(crate) fn get(&self) -> f64 {
        self.share
    }
}

/// Events counted so that older ones weigh less: a rate times `tau`, at a steady rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent {
    count: f64,
    at: Time,
}

impl Recent {
    /// Counts below this are forgotten.
    const LEAST: f64 = 0.01;

    pub(crate) const NONE: Recent = Recent { count: 0.0, at: Time::ZERO };

    pub(crate) fn add(&mut self, now: Time, tau: Duration, count: f64) {
        *self = Recent { count: self.get(now, tau) + count, at: now };
    }

    pub(crate) fn get(&self, now: Time, tau: Duration) -> f64 {
        if self.count < Recent::LEAST {
            return 0.0;
        }
        let age = now.since(self.at).as_secs_f64();
        self.count * libm::exp(-age / tau.as_secs_f64().max(1e-9))
    }
}

/// The mean time between events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gaps {
    mean_ms: Ewma,
    last: Option<Time>,
}

impl Gaps {
    /// A mean that follows with time constant `tau`.
    pub(crate) fn new(tau: Duration) -> Gaps {
        Gaps { mean_ms: Ewma::new(tau), last: None }
    }

    /// Adds an event.
    pub(crate) fn add(&mut self, now: Time) {
        if let Some(last) = self.last.replace(now) {
            self.mean_ms.add(now, now.since(last).as_secs_f64() * 1e3);
        }
    }

    /// The mean, `None` before the second event.
    pub(crate) fn mean_ms(&self) -> Option<f64> {
        self.mean_ms.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A sample one time constant old weighs 1/e against a new one.
    #[test]
    fn ewma_forgets_by_time() {
        let mut e = Ewma::new(Duration::from_secs(2));
        e.add(Time::ZERO, 10.0);
        assert_eq!(e.get(), Some(10.0));
        e.add(Time::from_millis(2000), 0.0);
        let want = 10.0 / core::f64::consts::E;
        assert!((e.get().expect("has samples") - want).abs() < 1e-9);
    }

    // Work of 100 ms every second takes a tenth of the time; it is forgotten by time, and work that
    // overlaps takes no more than all of it.
    #[test]
    fn share_follows_the_work() {
        let mut share = Share::new(Duration::from_secs(30));
        (0..300).for_each(|s| share.add(Time::from_millis(1000 * s), 100.0));
        assert!((share.get() - 0.1).abs() < 0.003, "{}", share.get());
        share.add(Time::from_millis(329_000), 0.0);
        assert!((share.get() - 0.1 / core::f64::consts::E).abs() < 0.001, "{}", share.get());
        share.add(Time::from_millis(330_000), 1e6);
        assert_eq!(share.get(), 1.0);
    }
}
