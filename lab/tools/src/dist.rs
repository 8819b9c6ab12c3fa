//! A compact distribution: its mean and every whole percentile.

use serde::{Deserialize, Serialize};

use crate::bits;
use crate::stats::sorted_quantile;

/// A distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dist {
    /// Number of values.
    pub count: u64,
    /// Their mean.
    #[serde(with = "bits")]
    pub mean: f64,
    /// The percentiles 0 to 100.
    #[serde(with = "bits")]
    percentiles: Vec<f64>,
}

impl Dist {
    /// The distribution of `values`; `None` without values.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Dist> {
        values.sort_by(f64::total_cmp);
        let at = |percent: u32| sorted_quantile(&values, f64::from(percent) / 100.0);
        let percentiles = (0..=100).map(at).collect::<Option<Vec<_>>>()?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Dist { count: values.len() as u64, mean, percentiles })
    }

    /// The percentile, 0 to 100.
    ///
    /// # Panics
    /// Above 100.
    #[must_use]
    pub fn p(&self, percent: usize) -> f64 {
        self.percentiles[percent]
    }

    /// The percentiles 0 to 100.
    #[must_use]
    pub fn percentiles(&self) -> &[f64] {
        &self.percentiles
    }

    /// The mean of several seeds' distributions, percentile by percentile, which keeps the shape of
    /// the individual curves however far apart they are.
    #[must_use]
    pub fn average<'a>(of: impl IntoIterator<Item = &'a Dist>) -> Option<Dist> {
        let all: Vec<&Dist> = of.into_iter().collect();
        let n = all.len() as f64;
        let first = all.first()?;
        let mean_of = |get: &dyn Fn(&Dist) -> f64| all.iter().map(|d| get(d)).sum::<f64>() / n;
        Some(Dist {
            count: all.iter().map(|d| d.count).sum(),
            mean: mean_of(&|d| d.mean),
            percentiles: (0..first.percentiles.len()).map(|i| mean_of(&|d| d.p(i))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::dist::*;

    // The percentiles of 1..=101 are one above the percent; averaging two halves the way.
    #[test]
    fn percentiles_of_known_values() {
        let low = Dist::of((1..=101).rev().map(f64::from).collect()).unwrap();
        assert_eq!((low.p(0), low.p(50), low.p(99), low.mean), (1.0, 51.0, 100.0, 51.0));
        let high = Dist::of(vec![61.0]).unwrap();
        let both = Dist::average([&low, &high]).unwrap();
        assert_eq!((both.count, both.p(50), both.mean), (102, 56.0, 56.0));
        assert_eq!(Dist::of(vec![]), None);
    }
}
