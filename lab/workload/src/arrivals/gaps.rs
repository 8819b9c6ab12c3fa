//! Distributions of the gaps between arrivals, with a mean of 1.
//!
//! Clients of production services are burstier than Poisson: ServeGen (arXiv 2505.09999) fits their
//! gaps with Gamma and Weibull distributions of small shape: long silences between bursts.

use std::time::Duration;

use meridian_base::{Rng, mix};

/// A distribution of gaps with mean 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gaps {
    /// Independent of everything.
    Exponential,
    /// Gamma with this shape; below 1 bursty, above 1 steady.
    Gamma(f64),
    /// Weibull with this shape; below 1 bursty, above 1 steady.
    Weibull(f64),
}

/// Shapes beyond these draw the same gaps to the last bit that matters.
const SHAPES: (f64, f64) = (1e-3, 1e6);

impl Gaps {
    /// Gamma gaps with this coefficient of variation.
    #[must_use]
    pub fn gamma(cv: f64) -> Gaps {
        Gaps::Gamma(1.0 / (cv * cv))
    }

    /// One gap.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        let bounded = |shape: f64| shape.max(SHAPES.0).min(SHAPES.1);
        match *self {
            Gaps::Exponential => rng.exponential(1.0),
            Gaps::Gamma(shape) => gamma(rng, bounded(shape)) / bounded(shape),
            Gaps::Weibull(shape) => {
                // Γ(1 + 1/k) leaves the range of a double below a shape of 0.006.
                let power = 1.0 / bounded(shape).max(0.01);
                libm::pow(rng.exponential(1.0), power) / libm::tgamma(1.0 + power)
            }
        }
    }
}

/// A Gamma variable of scale 1: Marsaglia and Tsang, "A simple method for generating gamma
/// variables", 2000; for a shape below 1, their power of a uniform.
fn gamma(rng: &mut Rng, shape: f64) -> f64 {
    if shape < 1.0 {
        let u = 1.0 - rng.unit();
        return gamma(rng, shape + 1.0) * libm::pow(u, 1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = rng.normal();
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        let u = 1.0 - rng.unit();
        if libm::log(u) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

/// Arrivals with independent gaps of one distribution.
#[derive(Clone, Debug)]
pub struct Renewal {
    rng: Rng,
    gaps: Gaps,
    mean_gap: f64,
    at: f64,
}

impl Renewal {
    /// Arrivals at `per_second` on average, from `seed`. A rate that is not above 0 never arrives.
    #[must_use]
    pub fn new(seed: u64, per_second: f64, gaps: Gaps) -> Renewal {
        let mean_gap = if per_second > 0.0 { 1.0 / per_second } else { f64::INFINITY };
        Renewal { rng: Rng::new(mix(seed, 0x5245_4E45_5741_4C21)), gaps, mean_gap, at: 0.0 }
    }
}

/// Times since the start; never ends unless the rate is not above 0.
impl Iterator for Renewal {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.at += self.gaps.draw(&mut self.rng) * self.mean_gap;
        Duration::try_from_secs_f64(self.at).ok()
    }
}
