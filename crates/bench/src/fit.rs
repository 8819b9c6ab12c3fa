//! A straight line through points, by least squares.
//!
//! GORGO (section 4.2, Table 1) describes an engine by the line of TTFT over input tokens: what is
//! spent on any request, and what each token of prompt adds. The line says how far it may be
//! trusted: R2 is the share of the variance that it explains, and the errors are those of ordinary
//! regression.

/// A line `intercept + slope * x` with how well it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Value at 0.
    pub intercept: f64,
    /// What one unit of x adds.
    pub slope: f64,
    /// Share of the variance explained, at most 1.
    pub r2: f64,
    /// Standard error of the slope.
    pub slope_error: f64,
    /// Points.
    pub points: usize,
}

impl Line {
    /// The value at `x`.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// The line through `points` with the least squared distance in y. `None` with fewer than two
/// different x, or with a coordinate that is no number.
#[must_use]
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x_mean, y_mean) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| of(x - x_mean, y - y_mean)).sum()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    let usable = xx > 0.0 && xx.is_finite() && yy.is_finite();
    if !usable {
        return None;
    }
    let slope = xy / xx;
    let left = (yy - slope * xy).max(0.0);
    let free = (n - 2.0).max(1.0);
    Some(Line {
        intercept: y_mean - slope * x_mean,
        slope,
        r2: if yy > 0.0 { 1.0 - left / yy } else { 1.0 },
        slope_error: libm::sqrt(left / free / xx),
        points: points.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Points on a line give the line back, and explain everything.
    #[test]
    fn a_line_is_found() {
        let points: Vec<_> = (0..10).map(|i| (f64::from(i), 3.0 + 0.5 * f64::from(i))).collect();
        let found = line(&points).unwrap();
        assert!((found.intercept - 3.0).abs() < 1e-12 && (found.slope - 0.5).abs() < 1e-12);
        assert!((found.r2 - 1.0).abs() < 1e-12 && found.slope_error < 1e-6);
        assert!((found.at(20.0) - 13.0).abs() < 1e-9);
    }

    // A known small example: y = 1, 2, 2, 4 over x = 0..4 has slope 0.9, intercept 0.9 and
    // explains 4.05 of 4.75.
    #[test]
    fn a_known_example() {
        let found = line(&[(0.0, 1.0), (1.0, 2.0), (2.0, 2.0), (3.0, 4.0)]).unwrap();
        assert!((found.slope - 0.9).abs() < 1e-12 && (found.intercept - 0.9).abs() < 1e-12);
        assert!((found.r2 - 4.05 / 4.75).abs() < 1e-12, "{}", found.r2);
        assert!((found.slope_error - (0.7_f64 / 2.0 / 5.0).sqrt()).abs() < 1e-12);
    }

    // What has no line has none.
    #[test]
    fn no_line() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(line(&[(1.0, f64::NAN), (2.0, 1.0)]), None);
    }
}
