//! Lengths of text, in tokens, and ranks of popularity: the two shapes that all generators share.
//!
//! Published lengths of prompts and replies are close to lognormal, so two numbers determine one:
//! either two quantiles, or mean and coefficient of variation. Popularity follows Zipf's law.

use meridian_base::Rng;

/// The 90th percentile of a standard normal.
const Z90: f64 = 1.281_551_565_544_6;

/// A lognormal length in whole tokens, from 1 to a largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lengths {
    mu: f64,
    sigma: f64,
    most: u32,
}

impl Lengths {
    /// The lengths with this median and 90th percentile, longer draws cut to `most`.
    pub(crate) fn by_quantiles(p50: f64, p90: f64, most: u32) -> Lengths {
        Lengths { mu: libm::log(p50), sigma: libm::log(p90 / p50) / Z90, most }
    }

    /// The lengths with this mean and coefficient of variation, longer draws cut to `most`.
    pub(crate) fn by_mean(mean: f64, cv: f64, most: u32) -> Lengths {
        let sigma2 = libm::log(1.0 + cv * cv);
        Lengths { mu: libm::log(mean) - sigma2 / 2.0, sigma: libm::sqrt(sigma2), most }
    }

    /// One length.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u32 {
        let tokens = libm::round(libm::exp(self.mu + self.sigma * rng.normal()));
        (tokens as u32).clamp(1, self.most.max(1))
    }
}

/// Ranks from 0, the first the most popular: rank i has weight (i + 1)^-s.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Zipf {
    /// Share of the draws that lie at or below a rank.
    below: Vec<f64>,
}

impl Zipf {
    /// `ranks` ranks (at least one) with exponent `s`; 0 makes all equal.
    pub(crate) fn new(ranks: usize, s: f64) -> Zipf {
        let mut sum = 0.0;
        let mut below: Vec<f64> = (1..=ranks.max(1))
            .map(|i| {
                sum += libm::pow(i as f64, -s);
                sum
            })
            .collect();
        below.iter_mut().for_each(|share| *share /= sum);
        Zipf { below }
    }

    /// One rank.
    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        let u = rng.unit();
        self.below.partition_point(|&share| share <= u).min(self.below.len() - 1)
    }

    /// The share of each rank, first to last.
    pub(crate) fn shares(&self) -> impl Iterator<Item = f64> + '_ {
        let before = std::iter::once(0.0).chain(self.below.iter().copied());
        self.below.iter().zip(before).map(|(share, before)| share - before)
    }

    /// The chance that two draws are the same rank.
    pub(crate) fn same(&self) -> f64 {
        self.shares().map(|share| share * share).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A lognormal given by quantiles has them, and one given by its mean has it; both are within 2
    // % over 50,000 draws.
    #[test]
    fn lengths_are_what_fixes_them() {
        let mut rng = Rng::new(3);
        let mut draws =
            |l: Lengths| -> Vec<u32> { (0..50_000).map(|_| l.draw(&mut rng)).collect() };
        let mut a = draws(Lengths::by_quantiles(400.0, 900.0, 1 << 20));
        a.sort_unstable();
        assert!((f64::from(a[25_000]) / 400.0 - 1.0).abs() < 0.02, "{}", a[25_000]);
        assert!((f64::from(a[45_000]) / 900.0 - 1.0).abs() < 0.02, "{}", a[45_000]);
        let b = draws(Lengths::by_mean(340.0, 1.2, 1 << 20));
        let mean = b.iter().map(|&x| f64::from(x)).sum::<f64>() / 50_000.0;
        assert!((mean / 340.0 - 1.0).abs() < 0.02, "{mean}");
        assert!(draws(Lengths::by_mean(340.0, 1.2, 50)).iter().all(|&x| (1..=50).contains(&x)));
    }

    // Draws of a Zipf law follow its shares, and the shares sum to 1.
    #[test]
    fn ranks_follow_their_shares() {
        let zipf = Zipf::new(5, 1.0);
        let shares: Vec<f64> = zipf.shares().collect();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((shares[0] / shares[4] - 5.0).abs() < 1e-9);
        let mut rng = Rng::new(4);
        let mut seen = [0.0; 5];
        (0..50_000).for_each(|_| seen[zipf.draw(&mut rng)] += 1.0 / 50_000.0);
        for (got, want) in seen.iter().zip(&shares) {
            assert!((got - want).abs() < 0.01, "{seen:?} is not {shares:?}");
        }
        assert_eq!(Zipf::new(0, 1.0).draw(&mut rng), 0);
    }
}
