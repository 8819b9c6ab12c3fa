//! The one definition of a quantile of a list: interpolated between the two nearest values.

use alloc::vec::Vec;

/// The median; `None` without values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The quantile at `share`, from 0 for the least to 1 for the greatest value; `None` without values.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted_quantile(&sorted, share)
}

/// [`quantile`] of values in ascending order.
#[must_use]
pub fn sorted_quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (sorted[libm::floor(at) as usize], sorted[libm::ceil(at) as usize]);
    assert!(below <= above || below.is_nan() || above.is_nan(), "the values ascend");
    Some(below + (above - below) * (at - libm::floor(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Of 0..=100 the quantile is the share in percent; of two values the median lies between.
    #[test]
    fn quantiles_of_known_values() {
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        for percent in [0.0, 10.0, 50.0, 99.0, 100.0] {
            assert_eq!(quantile(&values, percent / 100.0), Some(percent));
        }
        assert_eq!(median(&[2.0, 1.0]), Some(1.5));
        assert_eq!(median(&[]), None);
    }
}
