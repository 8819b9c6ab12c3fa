//! Poisson arrivals, independent of each other.

use std::time::Duration;

use meridian_base::{Rng, mix};

/// A Poisson process: gaps between arrivals are exponential and independent of everything else.
#[derive(Clone, Debug)]
pub struct Poisson {
    rng: Rng,
    mean_gap: f64,
    at: f64,
}

impl Poisson {
    /// Arrivals at `per_second` on average, from `seed`. A rate that is not above 0 never arrives.
    #[must_use]
    pub fn new(seed: u64, per_second: f64) -> Poisson {
        let mean_gap = if per_second > 0.0 { 1.0 / per_second } else { f64::INFINITY };
        Poisson { rng: Rng::new(mix(seed, 0x41_5252_4956_414C)), mean_gap, at: 0.0 }
    }
}

/// Times since the start; never ends unless the rate is not above 0.
impl Iterator for Poisson {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.at += self.rng.exponential(self.mean_gap);
        Duration::try_from_secs_f64(self.at).ok()
    }
}
