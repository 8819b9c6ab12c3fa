//! A straight line through recent samples, as least squares fit it.
//!
//! Each sample decays when the next one arrives, and while the samples lie close together, a prior
//! guess of the slope dominates.

/// The weight of a sample when the next one arrives.
const KEEP: f64 = 0.97;

/// A line y = fixed + slope x, with a fixed part that is neither negative nor above the least y.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    /// The least y, which decays slowly.
    least: f64,
    guess: f64,
    lean: f64,
    slope: f64,
    fixed: f64,
}

impl Line {
    /// A line without samples, whose guess counts as much as samples that spread by `lean`.
    pub(crate) fn leaning_on(guess: f64, lean: f64) -> Line {
        let (n, x, y, xx, xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let lean = lean * lean;
        Line { n, x, y, xx, xy, least: f64::INFINITY, guess, lean, slope: guess, fixed: 0.0 }
    }

    /// Sets the prior guess; it counts from the next sample on.
    pub(crate) fn guess(&mut self, slope: f64) {
        self.guess = slope;
    }

    /// Adds a sample and fits again.
    pub(crate) fn add(&mut self, x: f64, y: f64) {
        self.n = self.n * KEEP + 1.0;
        self.x = self.x * KEEP + x;
        self.y = self.y * KEEP + y;
        self.xx = self.xx * KEEP + x * x;
        self.xy = self.xy * KEEP + x * y;
        self.least = y.min(self.least / KEEP);
        let Line { n, x, y, xx, xy, least, guess, lean, .. } = *self;
        let line = (xy - x * y / n + lean * guess) / (xx - x * x / n + lean);
        let fixed = ((y - line * x) / n).clamp(0.0, least);
        self.fixed = fixed;
        self.slope = (xy - fixed * x + lean * guess) / (xx + lean);
    }

    /// Multiplies all samples.
    pub(crate) fn scale(&mut self, factor: f64) {
        for figure in [
            &mut self.y,
            &mut self.xy,
            &mut self.least,
            &mut self.guess,
            &mut self.slope,
            &mut self.fixed,
        ] {
            *figure *= factor;
        }
    }

    /// The slope: the guess before the first sample.
    pub(crate) fn slope(&self) -> f64 {
        self.slope
    }

    /// The fixed part: 0 before the first sample.
    pub(crate) fn fixed(&self) -> f64 {
        self.fixed
    }

    /// The root of the samples' sum of squared x.
    pub(crate) fn spread(&self) -> f64 {
        libm::sqrt(self.xx)
    }
}
