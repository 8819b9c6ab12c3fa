//! Seeded random numbers: one seed gives one sequence, on every platform.

use crate::fingerprint::mix;

/// A SplitMix64 generator: 8 bytes of state, cheap to fork by name, and good enough to break ties
/// and to draw arrivals and lengths. Do not use it for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator whose whole sequence follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        Rng { state: mix(seed, 0x9E37_79B9_7F4A_7C15) }
    }

    /// A separate generator for the part named by `tag`: drawing more numbers in one part never
    /// shifts another part's sequence (common random numbers).
    #[must_use]
    pub fn fork(&self, tag: u64) -> Rng {
        Rng::new(mix(self.state, tag))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A uniform index below `n`.
    ///
    /// # Panics
    /// When `n` is 0: there is nothing to choose from.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "Rng::below(0): nothing to choose from");
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// A uniform number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An exponential waiting time with the given mean, in the mean's unit.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// A standard normal number (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let r = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        r * libm::cos(2.0 * core::f64::consts::PI * self.unit())
    }

    /// A lognormal number with the given mean and coefficient of variation.
    pub fn lognormal(&mut self, mean: f64, cv: f64) -> f64 {
        let sigma2 = libm::log(1.0 + cv * cv);
        libm::exp(libm::log(mean) - sigma2 / 2.0 + libm::sqrt(sigma2) * self.normal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The sequence is part of every recorded result: if it changes, all seeds change meaning.
    #[test]
    fn one_seed_one_sequence() {
        let mut a = Rng::new(7);
        let mut b = Rng::new(7);
        let first: [u64; 3] = [a.next_u64(), a.next_u64(), a.next_u64()];
        assert_eq!(first, [b.next_u64(), b.next_u64(), b.next_u64()]);
        assert_ne!(first[0], Rng::new(8).next_u64());
        assert_ne!(Rng::new(7).fork(1).next_u64(), Rng::new(7).fork(2).next_u64());
    }

    // The workloads depend on the moments of these samplers.
    #[test]
    fn samplers_have_their_means() {
        let mut rng = Rng::new(1);
        let n = 200_000;
        let mean = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || rng.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!((mean(&mut || rng.lognormal(100.0, 1.0)) - 100.0).abs() < 2.0);
        assert!(mean(&mut || rng.normal()).abs() < 0.02);
        assert!((0..1000).all(|_| rng.below(3) < 3));
    }
}
