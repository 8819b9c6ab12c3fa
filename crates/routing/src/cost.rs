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

    /// The same mean with its value set to `value`.
    #[must_use]
    pub(crate) fn with(self, now: Time, value: f64) -> Ewma {
        Ewma { value: Some((value, now)), ..self }
    }

    /// The value, `None` before the first sample.
    #[must_use]
    pub fn get(&self) -> Option<f64> {
        self.value.map(|(v, _)| v)
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
}
