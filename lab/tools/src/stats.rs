//! Statistics over seeds: means, bootstrap intervals, paired ratios, collapsed seeds.
//!
//! A seed is one draw of everything random in a run, so a metric over seeds is a small sample with
//! an unknown distribution. The interval is the percentile bootstrap: the sample is resampled a
//! thousand times, and the middle 95 % of the means give the uncertainty. Systems are compared seed
//! by seed, since all of them see the same requests under one seed.

use meridian_base::Rng;
pub use meridian_base::{median, quantile, sorted_quantile};

/// Resamples of a bootstrap.
const RESAMPLES: usize = 1000;

/// A mean over seeds with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The mean of `values` and its bootstrap interval; `None` without values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<Mean> {
    if values.is_empty() {
        return None;
    }
    let mut rng = Rng::new(0x424F_4F54);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sum: f64 = (0..values.len()).map(|_| values[rng.below(values.len())]).sum();
            sum / values.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[(share * (RESAMPLES - 1) as f64).round() as usize];
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(Mean { mean, low: at(0.025), high: at(0.975) })
}

/// The mean of `a` over that of `b`, resampled in pairs; `None` without values.
#[must_use]
pub fn ratio_of_means(a: &[f64], b: &[f64]) -> Option<Mean> {
    let n = a.len().min(b.len());
    let over = |places: &mut dyn Iterator<Item = usize>| {
        let (mut above, mut below) = (0.0, 0.0);
        for i in places {
            above += a[i];
            below += b[i];
        }
        above / below
    };
    let mean = (n > 0).then(|| over(&mut (0..n))).filter(|ratio| ratio.is_finite())?;
    let mut rng = Rng::new(0x424F_4F54);
    let mut ratios: Vec<f64> =
        (0..RESAMPLES).map(|_| over(&mut (0..n).map(|_| rng.below(n)))).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[(share * (RESAMPLES - 1) as f64).round() as usize];
    Some(Mean { mean, low: at(0.025), high: at(0.975) })
}

/// Ratios of `a` to `b`, by seed; seeds in which either is missing or zero are left out.
#[must_use]
pub fn paired(a: &[Option<f64>], b: &[Option<f64>], compare: fn(f64, f64) -> f64) -> Vec<f64> {
    let both = a.iter().zip(b).filter_map(|(a, b)| Some(compare((*a)?, (*b)?)));
    both.filter(|v| v.is_finite()).collect()
}

/// Share of seeds that collapsed: near saturation the hit ratio and the load reinforce each other,
/// and a policy ends in a good or a bad state depending on the seed. A seed counts as collapsed
/// when its value (a mean TTFT) is above twice the lower quartile of all seeds.
#[must_use]
pub fn collapsed(values: &[f64]) -> Option<f64> {
    let good = quantile(values, 0.25)?;
    let bad = values.iter().filter(|v| **v > 2.0 * good).count();
    Some(bad as f64 / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use crate::stats::*;

    // A constant sample has no uncertainty; the interval of 1..=9 holds the mean and is narrower
    // than the range; an empty sample has no mean.
    #[test]
    fn intervals_hold_the_mean() {
        assert_eq!(mean(&[3.0; 5]), Some(Mean { mean: 3.0, low: 3.0, high: 3.0 }));
        let values: Vec<f64> = (1..=9).map(f64::from).collect();
        let m = mean(&values).unwrap();
        assert_eq!(m.mean, 5.0);
        // The standard error is 2.58 / 3 = 0.86, so 95 % lie within 1.7 of the mean.
        assert!((m.low - 3.3).abs() < 0.3 && (m.high - 6.7).abs() < 0.3, "{m:?}");
        assert_eq!(mean(&[]), None);
    }

    // The same values give the same interval: the random numbers come from a fixed seed.
    #[test]
    fn intervals_are_the_same_every_time() {
        let values = [1.0, 5.0, 2.0, 8.0];
        assert_eq!(mean(&values), mean(&values));
    }

    // Ratios pair equal seeds; a seed without a value, or with a zero divisor, is left out.
    #[test]
    fn ratios_pair_seeds() {
        let a = [Some(2.0), None, Some(9.0), Some(1.0)];
        let b = [Some(1.0), Some(1.0), Some(3.0), Some(0.0)];
        assert_eq!(paired(&a, &b, |a, b| a / b), [2.0, 3.0]);
    }

    // Seeds that move together leave the ratio of their means certain; one that does not, widens it.
    #[test]
    fn ratios_of_means_pair_seeds() {
        let even = ratio_of_means(&[2.0, 20.0, 200.0], &[1.0, 10.0, 100.0]);
        assert_eq!(even, Some(Mean { mean: 2.0, low: 2.0, high: 2.0 }));
        let uneven = ratio_of_means(&[2.0, 2.0, 6.0], &[1.0, 1.0, 1.0]).unwrap();
        assert!(uneven.low < 2.5 && uneven.high > 4.0, "{uneven:?}");
        assert_eq!(ratio_of_means(&[], &[]), None);
        assert_eq!(ratio_of_means(&[1.0], &[0.0]), None);
    }

    // One of five seeds is far above the others.
    #[test]
    fn collapsed_seeds_are_counted() {
        assert_eq!(collapsed(&[100.0, 110.0, 105.0, 900.0, 120.0]), Some(0.2));
        assert_eq!(collapsed(&[100.0, 110.0, 105.0, 95.0, 120.0]), Some(0.0));
    }
}
