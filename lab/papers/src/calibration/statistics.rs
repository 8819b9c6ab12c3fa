//! Medians and quantiles of errors.

/// The value at this share of the sorted values; NaN if there are none.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Relative error of `ours`, as an absolute value.
#[must_use]
pub fn error(ours: f64, theirs: f64) -> f64 {
    (ours / theirs - 1.0).abs()
}
