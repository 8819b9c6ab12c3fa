//! A straight line through points, by least squares.
//!
//! GORGO (section 4.2, Table 1) describes an engine by the line of TTFT over input tokens: the
//! fixed time of a request, and the time per prompt token. The line includes its reliability: R2 is
//! the share of the variance that it explains, and the errors are those of ordinary regression.

/// A line `intercept + slope * x` with how well it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Value at 0.
    pub intercept: f64,
    /// Increase per unit of x.
    pub slope: f64,
    /// Share of the variance explained, at most 1.
    pub r2: f64,
    /// Standard error of the slope.
    pub slope_error: f64,
    /// Standard error of the intercept.
    pub intercept_error: f64,
    /// Points.
    pub points: usize,
}

impl Line {
    /// The value at `x`.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }

    /// The 95 % interval of the slope, if the errors are normal.
    #[must_use]
    pub fn slope_interval(&self) -> (f64, f64) {
        self.around(self.slope, self.slope_error)
    }

    /// The 95 % interval of the intercept.
    #[must_use]
    pub fn intercept_interval(&self) -> (f64, f64) {
        self.around(self.intercept, self.intercept_error)
    }

    fn around(&self, value: f64, error: f64) -> (f64, f64) {
        let reach = error * student(self.points.saturating_sub(2).max(1));
        (value - reach, value + reach)
    }
}

/// The 97.5 % quantile of Student's t with `free` degrees of freedom: exact for the first ten, then
/// the normal quantile with two terms of its expansion (within 0.001).
fn student(free: usize) -> f64 {
    const FEW: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let z: f64 = 1.959_964;
    let n = free as f64;
    let (cubic, quintic) =
        ((z.powi(3) + z) / 4.0, (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0);
    FEW.get(free.wrapping_sub(1)).copied().unwrap_or(z + cubic / n + quintic / (n * n))
}

/// The least-squares line through `points` in y. `None` with fewer than two different x, or with a
/// NaN coordinate.
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
        intercept_error: libm::sqrt(left / free * (1.0 / n + x_mean * x_mean / xx)),
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
        assert!((found.intercept_error - (0.35_f64 * (0.25 + 2.25 / 5.0)).sqrt()).abs() < 1e-12);
        // Two degrees of freedom: 4.303 errors to either side.
        let (low, high) = found.slope_interval();
        assert!((high - low - 2.0 * 4.303 * found.slope_error).abs() < 1e-9);
    }

    // The quantile of Student, as tables have it, within two thousandths.
    #[test]
    fn quantiles_of_student() {
        for (free, t) in
            [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (34, 2.032), (120, 1.980)]
        {
            assert!((student(free) - t).abs() < 0.0025, "{free}: {}", student(free));
        }
    }

    // Points that do not determine a line.
    #[test]
    fn no_line() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(line(&[(1.0, f64::NAN), (2.0, 1.0)]), None);
    }
}
