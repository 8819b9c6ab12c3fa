//! One of several, drawn by weight.

use meridian_base::Rng;

/// The place of the one drawn: each with a chance in proportion to its weight, the last if all are 0.
///
/// # Panics
///
/// Without a weight.
pub(crate) fn draw(weights: &[f64], draw: &mut Rng) -> usize {
    let mut left = draw.unit() * weights.iter().sum::<f64>();
    let drawn = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    drawn.unwrap_or_else(|| weights.len().checked_sub(1).expect("there is one to draw"))
}
