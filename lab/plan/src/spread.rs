//! Times over a distribution of lengths.
//!
//! Lengths are lognormal, truncated at the model's context. A time is computed at a few lengths, at
//! fixed standard normal values. Means are then sums (the trapezoidal rule, which is exact to many
//! digits under a normal density), and shares are interpolated.

use std::sync::LazyLock;

use crate::queue::{Wait, largest};
use crate::task::Lengths;

/// Number of lengths at which times are computed.
const POINTS: usize = 21;
/// The first one, in standard deviations, and the step between them.
const FIRST: f64 = -3.0;
const STEP: f64 = 0.5;

static WEIGHTS: LazyLock<[f64; POINTS]> = LazyLock::new(|| {
    let density = core::array::from_fn(|nth| libm::exp(-normal(nth) * normal(nth) / 2.0));
    let sum: f64 = density.iter().sum();
    density.map(|one| one / sum)
});

fn normal(nth: usize) -> f64 {
    FIRST + STEP * nth as f64
}

/// A time that grows with a length, over the distribution of lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread([f64; POINTS]);

impl Spread {
    /// The times of `lengths` of up to `most` tokens.
    #[must_use]
    pub fn new(lengths: Lengths, most: f64, time: impl Fn(f64) -> f64) -> Spread {
        let sigma = lengths.sigma();
        let length = |nth| lengths.mean * libm::exp(sigma * (normal(nth) - sigma / 2.0));
        Spread(core::array::from_fn(|nth| time(length(nth).clamp(1.0, most.max(1.0)))))
    }

    /// Each time with its weight.
    pub(crate) fn weighted(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        WEIGHTS.iter().copied().zip(self.0.iter().copied())
    }

    /// The mean of a function of the time.
    #[must_use]
    pub fn mean_of(&self, f: impl Fn(f64) -> f64) -> f64 {
        self.0.iter().zip(WEIGHTS.iter()).map(|(time, weight)| weight * f(*time)).sum()
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean_of(|time| time)
    }

    /// The squared coefficient of variation.
    #[must_use]
    pub fn cv2(&self) -> f64 {
        let mean = self.mean();
        (self.mean_of(|time| time * time) / (mean * mean) - 1.0).max(0.0)
    }

    /// The same, with each time combined by `f` with the value of `other` at its length.
    #[must_use]
    pub fn with(&self, other: &Spread, f: impl Fn(f64, f64) -> f64) -> Spread {
        Spread(core::array::from_fn(|nth| f(self.0[nth], other.0[nth])))
    }

    /// The time at each length, the shortest first.
    #[must_use]
    pub fn at(&self, nth: usize) -> f64 {
        self.0[nth]
    }

    /// The additional square of a time that a prompt meets if it can't pass another on any of
    /// `stages` consecutive ones. Behind a longer one it waits in each of them, as if that took the
    /// difference as many times more.
    #[must_use]
    pub fn behind(&self, stages: u32) -> Spread {
        let again = f64::from(stages - 1);
        let square = self.mean_of(|time| time * time);
        let met = |own: f64| {
            let seen = |other: f64| other + again * (other - own).max(0.0);
            self.mean_of(|other| seen(other) * seen(other)) / square - 1.0
        };
        Spread(self.0.map(|own| if stages > 1 { met(own) } else { 0.0 }))
    }

    /// The share of times above `time`.
    #[must_use]
    pub fn share_above(&self, time: f64) -> f64 {
        let above = self.0.partition_point(|one| *one <= time);
        if above == 0 {
            return 1.0;
        }
        let Some(next) = self.0.get(above) else { return 0.0 };
        let before = self.0[above - 1];
        let z = normal(above - 1) + STEP * (time - before) / (next - before);
        0.5 * libm::erfc(z * core::f64::consts::FRAC_1_SQRT_2)
    }

    /// The time below which a share of `quantile` stays.
    #[must_use]
    pub fn within(&self, quantile: f64) -> f64 {
        let most = self.0[POINTS - 1];
        largest(most, |time| self.share_above(time) > 1.0 - quantile)
    }

    /// The share of times above `time`, if each length has waited before.
    #[must_use]
    pub fn later(&self, waits: &Waits, time: f64) -> f64 {
        let above = self.0.partition_point(|one| *one <= time).min(POINTS - 1);
        let at_once = (1.0 - waits.0[above].share) * self.share_above(time);
        let all = self.0.iter().zip(&waits.0).zip(WEIGHTS.iter());
        at_once
            + all.map(|((own, wait), weight)| weight * wait.share_above(time - own)).sum::<f64>()
    }
}

/// The wait of each length.
#[derive(Clone, Copy, Debug)]
pub struct Waits([Wait; POINTS]);

impl Waits {
    /// The waits given by a function of the length's index.
    #[must_use]
    pub fn new(wait: impl Fn(usize) -> Wait) -> Waits {
        Waits(core::array::from_fn(wait))
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.iter().zip(WEIGHTS.iter()).map(|(wait, weight)| weight * wait.mean).sum()
    }
}

/// The mean of the minimum of `count` lognormal numbers of this squared coefficient of variation,
/// as a share of their own mean.
pub(crate) fn least_of(count: u32, cv2: f64) -> f64 {
    if count == 1 {
        return 1.0;
    }
    let sigma = libm::sqrt(libm::log(1.0 + cv2));
    let number = |nth| libm::exp(sigma * (normal(nth) - sigma / 2.0));
    let above = |nth| 0.5 * libm::erfc(normal(nth) * core::f64::consts::FRAC_1_SQRT_2);
    let others = |nth| libm::pow(above(nth), f64::from(count - 1));
    let each = WEIGHTS.iter().enumerate().map(|(nth, weight)| weight * others(nth));
    let sum: f64 = each.clone().sum();
    each.enumerate().map(|(nth, chance)| chance * number(nth)).sum::<f64>() / sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Queue;

    const VARIED: Lengths = Lengths { mean: 600.0, cv: 0.8 };

    // Equal lengths give one time. Lognormal ones keep their mean and variation, and the moments of
    // a time with a minimum and a quadratic term match those of many draws.
    #[test]
    fn moments_are_those_of_the_distribution() {
        let time = |tokens: f64| 1e-4 * tokens + 1e-8 * tokens * tokens;
        let equal = Spread::new(Lengths::equal(600.0), 1e6, time);
        assert!((equal.mean() - time(600.0)).abs() < 1e-12 && equal.cv2() < 1e-12);
        let lengths = Spread::new(VARIED, 1e6, |tokens| tokens);
        assert!((lengths.mean() / 600.0 - 1.0).abs() < 1e-3, "{}", lengths.mean());
        assert!((lengths.cv2() / 0.64 - 1.0).abs() < 1e-2, "{}", lengths.cv2());
        let floored = |tokens: f64| time(tokens).max(0.03);
        let spread = Spread::new(VARIED, 2000.0, floored);
        let mut rng = meridian_base::Rng::new(5);
        let draws: Vec<f64> = (0..200_000)
            .map(|_| floored(rng.lognormal(VARIED.mean, VARIED.cv).min(2000.0)))
            .collect();
        let moment =
            |of: fn(f64) -> f64| draws.iter().map(|one| of(*one)).sum::<f64>() / draws.len() as f64;
        assert!((spread.mean() / moment(|one| one) - 1.0).abs() < 0.01);
        let square = spread.mean_of(|one| one * one) / moment(|one| one * one);
        assert!((square - 1.0).abs() < 0.02, "{square}");
    }

    // Shares above a time and times for a share are inverse to each other, and match the normal
    // distribution: half of the lengths are below the median, a tenth above 1.2816 deviations.
    #[test]
    fn shares_are_those_of_the_distribution() {
        let lengths = Spread::new(VARIED, 1e6, |tokens| tokens);
        let median = 600.0 / libm::sqrt(1.64);
        assert!((lengths.share_above(median) - 0.5).abs() < 1e-3);
        let ninth = median * libm::exp(1.2816 * VARIED.sigma());
        assert!((lengths.within(0.9) / ninth - 1.0).abs() < 0.02, "{}", lengths.within(0.9));
        assert_eq!((lengths.share_above(0.0), lengths.share_above(1e9)), (1.0, 0.0));
    }

    // Without a wait the late share is the share of long times; with one it is larger, and in an
    // overloaded queue everything is late.
    #[test]
    fn waits_make_more_late() {
        let times = Spread::new(VARIED, 1e6, |tokens| 1e-4 * tokens);
        let queue = Queue::alone(times.mean(), times.cv2());
        let later = |rate| times.later(&Waits::new(|_| queue.wait(rate)), 0.1);
        assert!((later(0.0) - times.share_above(0.1)).abs() < 1e-12);
        assert!(later(8.0) > later(0.0) + 0.1);
        assert!((later(20.0) - 1.0).abs() < 1e-9);
    }

    // In a pipeline a short prompt waits longer for those ahead than a long one; with equal prompts
    // none waits longer, and one stage is not a pipeline.
    #[test]
    fn short_ones_are_held_up() {
        let times = Spread::new(VARIED, 1e6, |tokens| 1e-4 * tokens);
        let behind = times.behind(2);
        assert!((1..POINTS).all(|nth| behind.at(nth) <= behind.at(nth - 1)));
        assert!(behind.at(0) > 1.0 && behind.at(POINTS - 1) < 1e-9);
        assert_eq!(times.behind(1), Spread::default());
        let equal = Spread::new(Lengths::equal(600.0), 1e6, |tokens| tokens).behind(4);
        assert!(equal.mean().abs() < 1e-9);
    }

    // The minimum of two lognormal numbers is 2 Phi(-sigma / sqrt 2) of their mean; equal ones have
    // no smaller minimum, and for more numbers it is lower.
    #[test]
    fn the_least_of_several() {
        for cv2 in [0.1, 0.64, 1.0] {
            let sigma = libm::sqrt(libm::log(1.0 + cv2));
            let two = libm::erfc(sigma / 2.0);
            assert!((least_of(2, cv2) / two - 1.0).abs() < 0.01, "{cv2}: {}", least_of(2, cv2));
            assert!(least_of(3, cv2) < least_of(2, cv2));
        }
        assert!((least_of(4, 0.0) - 1.0).abs() < 1e-12);
        assert_eq!(least_of(1, 0.5), 1.0);
    }
}
