//! Queueing model of prefill instances that take prompts in order.
//!
//! A pipeline of `n` stages takes a new prompt each `D / n`, and tensor parallelism with a speed-up
//! of `K` each `D / K`; the interval between prompts determines the queue, and the time of one
//! prompt is added to the wait. Prompts differ in length, so the mean of the interval's square
//! replaces its mean's square (Pollaczek and Khinchine).
//!
//! Several instances are several servers, and a prompt goes to one on arrival: to an idle one, or
//! to the one with the fewest tokens to compute. Erlang's formula gives the share that finds none
//! idle. In light traffic such a prompt waits for the remainder of the shortest of those being
//! computed, since their progress is unknown. In heavy traffic it waits as in one queue for all,
//! since each prompt joins the shortest queue (Foschini and Salz): the wait with exponential
//! intervals, scaled by the variation relative to theirs (Lee and Longton). The wait is the sum of
//! both, as in interpolations between light and heavy traffic (Reiman and Simon), which is exact
//! for one server. Its tail is assumed to be exponential, which is nearly true in heavy traffic.
//!
//! The paper puts the whole request, including decode, through one such server. At any realistic
//! rate that server is overloaded.

use crate::spread::least_of;

/// Equal servers for prompts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// Number of servers.
    pub servers: u32,
    /// Mean seconds between prompts that each can take.
    pub interval: f64,
    /// Squared coefficient of variation of that.
    pub cv2: f64,
}

/// The waits in a queue at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// Share of prompts that wait.
    pub share: f64,
    /// Mean over all prompts, in seconds; infinite from saturation on.
    pub mean: f64,
}

impl Queue {
    /// One server.
    #[must_use]
    pub fn alone(interval: f64, cv2: f64) -> Queue {
        Queue { servers: 1, interval, cv2 }
    }

    /// The wait at `rate` prompts a second.
    #[must_use]
    pub fn wait(&self, rate: f64) -> Wait {
        let behind = self.wait_behind(rate);
        if !behind.mean.is_finite() {
            return behind;
        }
        let share = self.all_busy(rate);
        let first = self.residual() * least_of(self.servers, self.cv2);
        Wait { share, mean: behind.mean + share * first }
    }

    /// Of that, the wait for prompts that have not started either.
    #[must_use]
    pub fn wait_behind(&self, rate: f64) -> Wait {
        let servers = f64::from(self.servers);
        let load = rate * self.interval / servers;
        if load >= 1.0 {
            return Wait { share: 1.0, mean: f64::INFINITY };
        }
        let share = self.all_busy(rate);
        let mean = share * self.residual() * load / (servers * (1.0 - load));
        Wait { share: share * load, mean }
    }

    /// The share of prompts that find no server idle, below saturation (Erlang).
    fn all_busy(&self, rate: f64) -> f64 {
        let offered = rate * self.interval;
        // The loss formula, server by server, and from it the share that waits.
        let lost = (1..=self.servers)
            .fold(1.0, |lost, nth| offered * lost / (f64::from(nth) + offered * lost));
        lost / (1.0 - offered / f64::from(self.servers) * (1.0 - lost))
    }

    /// Seconds that a busy server still needs for its prompt.
    fn residual(&self) -> f64 {
        self.interval * (1.0 + self.cv2) / 2.0
    }
}

impl Wait {
    /// The wait with `mean` additional seconds. The share that waits grows as its square root, like
    /// residual times.
    #[must_use]
    pub fn longer(&self, mean: f64) -> Wait {
        if self.mean <= 0.0 || !self.mean.is_finite() {
            return *self;
        }
        Wait { share: (self.share * libm::sqrt(mean / self.mean)).min(1.0), mean }
    }

    /// The share that waits, and waits longer than `time`.
    #[must_use]
    pub fn share_above(&self, time: f64) -> f64 {
        if self.share <= 0.0 || time <= 0.0 || !self.mean.is_finite() {
            self.share
        } else {
            self.share * libm::exp(-time * self.share / self.mean)
        }
    }
}

/// The largest `x` in `[0, most]` that is still `good`, to about six digits; 0 if none is. If `x`
/// is good, so is every smaller value.
#[must_use]
pub fn largest(most: f64, good: impl Fn(f64) -> bool) -> f64 {
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

/// The standard normal value below which a share of `quantile` stays.
pub(crate) fn normal_quantile(quantile: f64) -> f64 {
    let below = |z: f64| 0.5 * (1.0 + libm::erf(z * core::f64::consts::FRAC_1_SQRT_2));
    largest(16.0, |shifted| below(shifted - 8.0) <= quantile) - 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    // Correction 2: prefill waits as M/D/1 if all prompts are equal, with a pipeline of two and
    // with a speed-up of K; the paper's server of whole requests is overloaded at the same rate.
    #[test]
    fn correction_2_prefill_queues_and_whole_requests_do_not() {
        let (d, r) = (0.2, 3.0);
        let wait = |interval| Queue::alone(interval, 0.0).wait(r).mean;
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(d + wait(d), d + r * d * d / (2.0 * (1.0 - r * d)));
        close(d + wait(d / 2.0), d + r * d * d / (4.0 * (2.0 - r * d)));
        let k = 1.7;
        close(d / k + wait(d / k), d / k + r * d * d / (2.0 * k * (k - r * d)));
        let whole_request = d + 200.0 * 0.03;
        assert_eq!(wait(whole_request), f64::INFINITY);
    }

    // At 1.5 of 2 servers with exponential intervals 9/14 wait (Erlang). With equal ones and few
    // prompts those wait for half an interval, whichever server they join; with many as long as in
    // one queue for all.
    #[test]
    fn several_servers_share_the_prompts() {
        let two = |cv2| Queue { servers: 2, interval: 1.0, cv2 };
        let Wait { share, mean } = two(1.0).wait(1.5);
        assert!((share - 9.0 / 14.0).abs() < 1e-12, "{share}");
        assert!((9.0 / 7.0..Queue::alone(1.0, 1.0).wait(0.75).mean).contains(&mean), "{mean}");
        let few = two(0.0).wait(1e-6);
        assert!((few.mean / few.share - 0.5).abs() < 1e-5, "{few:?}");
        let many = two(1.0).wait(1.9999);
        assert!((many.mean * 0.0001 - 1.0).abs() < 1e-3, "{many:?}");
        let behind = two(1.0).wait_behind(1.5);
        assert!(behind.share < share && behind.mean < mean);
    }

    // The tail of one server with exponential service is P(W > t) = 0.5 exp(-0.5 t) at half load.
    #[test]
    fn the_tail_is_exponential() {
        let wait = Queue::alone(1.0, 1.0).wait(0.5);
        assert!((wait.share_above(2.0 * libm::log(5.0)) - 0.1).abs() < 1e-12);
        assert_eq!((wait.share_above(0.0), wait.share_above(-1.0)), (0.5, 0.5));
        assert_eq!(Queue::alone(1.0, 1.0).wait(0.0).share_above(0.0), 0.0);
    }

    // A wait four times as long affects twice as many prompts, but at most all; zero wait affects
    // none.
    #[test]
    fn longer_waits_are_had_by_more() {
        let wait = Wait { share: 0.3, mean: 0.1 };
        assert_eq!(wait.longer(0.4), Wait { share: 0.6, mean: 0.4 });
        assert_eq!(wait.longer(10.0).share, 1.0);
        let none = Wait { share: 0.0, mean: 0.0 };
        assert_eq!(none.longer(1.0), none);
    }

    // Well-known quantiles.
    #[test]
    fn normal_quantiles() {
        for (quantile, z) in [(0.5, 0.0), (0.9, 1.281_552), (0.99, 2.326_348)] {
            assert!((normal_quantile(quantile) - z).abs() < 1e-5);
        }
    }
}
