//! Waiting: prefill as one server that takes prompts in order.
//!
//! A pipeline of `n` stages takes a new prompt each `D / n`, and tensor parallelism with a speed-up
//! of `K` each `D / K`; the interval between prompts is what queues, and the time of one prompt is
//! what it then takes. With lengths that vary, the mean of the interval's square takes the place of
//! its mean's square (Pollaczek and Khinchine). The wait's tail is taken to be exponential, which it
//! nearly is in heavy traffic.
//!
//! The paper puts the whole request, decode included, through one such server. At any useful rate
//! that server is overloaded.

/// A server of prompts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// Seconds between prompts that it can take.
    pub interval: f64,
    /// Squared coefficient of variation of that.
    pub cv2: f64,
}

impl Queue {
    /// Mean wait at `rate` prompts a second; infinite from saturation on.
    #[must_use]
    pub fn wait(&self, rate: f64) -> f64 {
        let busy = rate * self.interval;
        if busy >= 1.0 {
            return f64::INFINITY;
        }
        rate * self.interval * self.interval * (1.0 + self.cv2) / (2.0 * (1.0 - busy))
    }

    /// The wait that a share of `quantile` stays below.
    #[must_use]
    pub fn wait_within(&self, rate: f64, quantile: f64) -> f64 {
        let busy = rate * self.interval;
        // A share of `busy` waits at all, and those wait `wait / busy` in the mean.
        let late = busy / (1.0 - quantile);
        if busy >= 1.0 {
            f64::INFINITY
        } else if late <= 1.0 {
            0.0
        } else {
            self.wait(rate) / busy * libm::log(late)
        }
    }
}

/// The largest `x` in `[0, most]` that is still `good`, to about six digits; 0 where none is. What is
/// good at `x` is good below.
pub(crate) fn largest(most: f64, good: impl Fn(f64) -> bool) -> f64 {
    if good(most) {
        return most;
    }
    let (mut low, mut high) = (0.0, most);
    for _ in 0..24 {
        let middle = 0.5 * (low + high);
        if good(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The standard normal number that a share of `quantile` stays below.
pub(crate) fn normal_quantile(quantile: f64) -> f64 {
    let below = |z: f64| 0.5 * (1.0 + libm::erf(z * core::f64::consts::FRAC_1_SQRT_2));
    largest(16.0, |shifted| below(shifted - 8.0) <= quantile) - 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    // Correction 2: prefill waits as M/D/1, with a pipeline of two and with a speed-up of K; the
    // paper's server of whole requests is overloaded at the same rate.
    #[test]
    fn correction_2_prefill_queues_and_whole_requests_do_not() {
        let (d, r) = (0.2, 3.0);
        let queue = |interval| Queue { interval, cv2: 0.0 };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(d + queue(d).wait(r), d + r * d * d / (2.0 * (1.0 - r * d)));
        close(d + queue(d / 2.0).wait(r), d + r * d * d / (4.0 * (2.0 - r * d)));
        let k = 1.7;
        close(d / k + queue(d / k).wait(r), d / k + r * d * d / (2.0 * k * (k - r * d)));
        let whole_request = d + 200.0 * 0.03;
        assert_eq!(queue(whole_request).wait(r), f64::INFINITY);
    }

    // The tail: at half load half of the prompts wait not at all, and nine tenths a known time.
    #[test]
    fn the_tail_is_exponential() {
        let queue = Queue { interval: 1.0, cv2: 1.0 };
        assert_eq!(queue.wait_within(0.5, 0.4), 0.0);
        // With exponential service P(W > t) = 0.5 exp(-0.5 t), so 0.1 at 2 ln 5.
        assert!((queue.wait_within(0.5, 0.9) - 2.0 * libm::log(5.0)).abs() < 1e-9);
    }

    // The quantiles that everybody knows.
    #[test]
    fn normal_quantiles() {
        for (quantile, z) in [(0.5, 0.0), (0.9, 1.281_552), (0.99, 2.326_348)] {
            assert!((normal_quantile(quantile) - z).abs() < 1e-5);
        }
    }
}
