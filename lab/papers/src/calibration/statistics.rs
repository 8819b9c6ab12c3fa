//! Quantiles of errors.

/// The quantile at this share of the values; NaN if there are none.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> f64 {
    meridian_base::quantile(values, share).unwrap_or(f64::NAN)
}

/// Relative error of `ours`, as an absolute value.
#[must_use]
pub fn error(ours: f64, theirs: f64) -> f64 {
    (ours / theirs - 1.0).abs()
}
