//! By how much one replica differs from its kind, as far as its answers prove it.
//!
//! The figures of equal replicas differ by the noise of their samples. A policy that takes the least
//! price would send all requests to the luckiest one and leave the others idle. So a difference counts
//! only beyond four standard errors of its mean, and from twice that on in full (firm thresholding:
//! Gao and Bruce, WaveShrink with firm shrinkage, Statistica Sinica 1997). In between it grows steadily,
//! so no figure jumps. Each sample is another chance to be wrong, hence four errors and not two.
//!
//! Evidence ages: a replica that looks slow gets few requests, so no sample would ever correct it.

/// Most samples that count: a replica that recovers is not judged by its past.
const MEMORY: f64 = 32.0;
/// Standard errors of the mean within which a difference is noise.
const ERRORS: f64 = 4.0;
/// Seconds in which half of the samples cease to count.
const HALF_LIFE_S: f64 = 120.0;
/// A smaller difference is worth less than the replicas that would stay idle for it: ln 1.1.
const LEAST: f64 = 0.1;
/// A few samples say little of their own variance: so many count besides, of a deviation of 0.5.
const PRIOR: (f64, f64) = (4.0, 0.25);
/// One sample may be this far off, as a factor either way.
const SPAN: f64 = 50.0;

/// Samples of measured over expected, of one replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// Samples that count, and the mean and the variance of their logarithms.
    n: f64,
    mean: f64,
    variance: f64,
    /// The part of the mean that is no noise.
    proven: f64,
}

impl Evidence {
    /// No sample: like its kind.
    pub(crate) const NONE: Evidence = Evidence { n: 0.0, mean: 0.0, variance: 0.0, proven: 0.0 };

    /// Adds a measured time over the one that its kind's figures predict.
    pub(crate) fn add(&mut self, ratio: f64) {
        if !(ratio > 0.0 && ratio.is_finite()) {
            return;
        }
        let seen = libm::log(ratio.clamp(1.0 / SPAN, SPAN));
        self.n = (self.n + 1.0).min(MEMORY);
        let (gain, off) = (1.0 / self.n, seen - self.mean);
        self.mean += gain * off;
        self.variance = (1.0 - gain) * (self.variance + gain * off * off);
        self.proven = self.beyond_noise();
    }

    /// Lets the samples age by so many seconds.
    pub(crate) fn age(&mut self, seconds: f64) {
        if self.n > 0.0 {
            self.n *= libm::exp2(-seconds / HALF_LIFE_S);
            self.proven = self.beyond_noise();
        }
    }

    /// The logarithm of the factor.
    pub(crate) fn proven(&self) -> f64 {
        self.proven
    }

    /// Counts from another middle: what all replicas of a kind have in common is not of one of them.
    pub(crate) fn shift(&mut self, by: f64) {
        if self.n > 0.0 {
            self.mean -= by;
            self.proven = self.beyond_noise();
        }
    }

    /// What the replica's times are multiplied by: 1 without proof.
    pub(crate) fn factor(&self) -> f64 {
        libm::exp(self.proven)
    }

    /// How much of the measured difference is proven: 0 for nothing, 1 for all of it.
    pub(crate) fn weight(&self) -> f64 {
        if self.proven == 0.0 { 0.0 } else { self.proven / self.mean }
    }

    fn beyond_noise(&self) -> f64 {
        let (n, variance) = PRIOR;
        let variance = (self.n * self.variance + n * variance) / (self.n + n);
        let noise = (ERRORS * libm::sqrt(variance / self.n)).max(LEAST);
        let size = libm::fabs(self.mean);
        let beyond = (2.0 * (size - noise)).clamp(0.0, size);
        libm::copysign(beyond, self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::Rng;

    /// The factor after `n` samples around `center`, each up to `noise` off as a factor.
    fn after(n: u32, center: f64, noise: f64, rng: &mut Rng) -> f64 {
        let mut evidence = Evidence::NONE;
        for _ in 0..n {
            let off = 2.0 * rng.unit() - 1.0;
            evidence.add(center * libm::pow(noise, off));
        }
        evidence.factor()
    }

    // Noise of a factor of two in each sample proves nothing: of a thousand replicas, at most five ever
    // look different in a thousand answers, and by little.
    #[test]
    fn noise_proves_nothing() {
        let mut rng = Rng::new(58);
        let mut off = 0;
        for _ in 0..1000 {
            let mut evidence = Evidence::NONE;
            let farthest = (0..1000).fold(0.0, |farthest, _| {
                evidence.add(libm::pow(2.0, 2.0 * rng.unit() - 1.0));
                libm::fmax(farthest, libm::fabs(libm::log(evidence.factor())))
            });
            off += u32::from(farthest > 0.0);
            assert!(farthest < 0.5, "{farthest}");
        }
        assert!(off <= 5, "{off} of 1,000 differ");
    }

    // Half an hour without an answer, and a replica that was four times as slow is tried again.
    #[test]
    fn evidence_ages() {
        let mut evidence = Evidence::NONE;
        (0..100).for_each(|_| evidence.add(4.0));
        assert!((evidence.factor() - 4.0).abs() < 0.1);
        (0..180).for_each(|_| evidence.age(10.0));
        assert_eq!(evidence.factor(), 1.0);
    }

    // A replica at half speed is known within thirty answers, and a recovered one within two hundred.
    #[test]
    fn a_slow_replica_is_found() {
        let mut rng = Rng::new(58);
        for _ in 0..100 {
            let found = after(30, 2.0, 1.5, &mut rng);
            assert!((1.6..2.5).contains(&found), "{found}");
        }
        let mut evidence = Evidence::NONE;
        (0..100).for_each(|_| evidence.add(2.0));
        (0..200).for_each(|_| evidence.add(1.0));
        assert_eq!(evidence.factor(), 1.0);
    }

    // Senseless samples change nothing, and an extreme one is bounded.
    #[test]
    fn senseless_samples() {
        let mut evidence = Evidence::NONE;
        [0.0, -1.0, f64::NAN, f64::INFINITY].into_iter().for_each(|ratio| evidence.add(ratio));
        assert_eq!((evidence.n, evidence.factor()), (0.0, 1.0));
        (0..100).for_each(|_| evidence.add(1e300));
        assert!(evidence.factor() <= SPAN * 1.001, "{}", evidence.factor());
    }
}
