//! Lengths of recorded requests: means over all of them, and moving averages of the recent ones.
//!
//! HeroServe estimates the input and output tokens of a batch, K_in and K_out, and updates them by a
//! moving average (section III-B). Here the average is over requests: K_in of a batch of Q requests
//! is Q times the mean prompt. Each request counts for 1 / [`RECENT`]; until there are that many, all
//! count equally. The squares of lengths are averaged likewise, which gives the variation.

use crate::problem::Problems;
use crate::task::Lengths;

/// Requests that a moving average remembers, in effect.
pub const RECENT: f64 = 1000.0;

/// Averages of prompts, replies and gaps between arrivals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Averages {
    /// The least weight of a request.
    least: f64,
    count: u64,
    prompt: [f64; 2],
    output: [f64; 2],
    /// The mean gap, and the last arrival in seconds.
    gap: f64,
    last: Option<f64>,
    gaps: u64,
}

impl Averages {
    /// Averages in which all requests count equally.
    #[must_use]
    pub fn of_all() -> Averages {
        Averages::default()
    }

    /// Moving averages.
    #[must_use]
    pub fn moving() -> Averages {
        Averages { least: 1.0 / RECENT, ..Averages::default() }
    }

    /// Counts an answered request. Requests come in the order of arrival.
    pub fn add(&mut self, prompt: u32, output: u32) {
        self.count += 1;
        let weight = self.least.max(1.0 / self.count as f64);
        for (average, tokens) in [(&mut self.prompt, prompt), (&mut self.output, output)] {
            let tokens = f64::from(tokens);
            average[0] += weight * (tokens - average[0]);
            average[1] += weight * (tokens * tokens - average[1]);
        }
    }

    /// Counts an arrival, whatever becomes of it; `at` is in seconds.
    pub fn arrive(&mut self, at: f64) {
        if let Some(last) = self.last {
            self.gaps += 1;
            let weight = self.least.max(1.0 / self.gaps as f64);
            self.gap += weight * ((at - last).max(0.0) - self.gap);
        }
        self.last = Some(at);
    }

    /// Answered requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Prompts and replies.
    ///
    /// # Errors
    ///
    /// If there is no answered request.
    pub fn lengths(&self) -> Result<(Lengths, Lengths), Problems> {
        if self.count == 0 {
            let remedy = "give a journal in which at least one request has an answer";
            return Err(Problems::one("journal", "no answered request", remedy));
        }
        let of = |[mean, square]: [f64; 2]| {
            let variance = (square - mean * mean).max(0.0);
            Lengths { mean, cv: libm::sqrt(variance) / mean }
        };
        Ok((of(self.prompt), of(self.output)))
    }

    /// Arrivals a second.
    ///
    /// # Errors
    ///
    /// If there are fewer than two times.
    pub fn rate(&self) -> Result<f64, Problems> {
        if self.gap > 0.0 {
            return Ok(1.0 / self.gap);
        }
        let value = format!("unknown, {} gaps between arrivals", self.gaps);
        Err(Problems::one("rate", value, "give --rate, or a journal with several times"))
    }
}

#[cfg(test)]
mod tests {
    use meridian_base::Rng;

    use super::*;

    // All requests count equally, or the recent ones more: after a change of the lengths the moving
    // averages follow, and the others lag.
    #[test]
    fn moving_averages_follow_a_change() {
        let (mut all, mut moving) = (Averages::of_all(), Averages::moving());
        let mut rng = Rng::new(3);
        for nth in 0..10_000_u32 {
            let mean = if nth < 5000 { 500.0 } else { 1500.0 };
            let (prompt, output) = (rng.lognormal(mean, 0.5), rng.lognormal(200.0, 1.0));
            for one in [&mut all, &mut moving] {
                one.add(prompt as u32, output as u32);
                one.arrive(f64::from(nth) / 4.0);
            }
        }
        let (prompt, output) = moving.lengths().unwrap();
        assert!((prompt.mean / 1500.0 - 1.0).abs() < 0.1, "{prompt:?}");
        assert!((prompt.cv - 0.5).abs() < 0.1 && (output.cv - 1.0).abs() < 0.2, "{output:?}");
        let (prompt, _) = all.lengths().unwrap();
        assert!((prompt.mean / 1000.0 - 1.0).abs() < 0.05, "{prompt:?}");
        assert!((moving.rate().unwrap() - 4.0).abs() < 1e-9);
    }

    // Without requests there are no lengths, and with one no rate; equal lengths do not vary.
    #[test]
    fn too_few_requests_are_said() {
        let mut one = Averages::moving();
        assert!(one.lengths().unwrap_err().to_string().contains("no answered request"));
        one.add(100, 10);
        one.arrive(5.0);
        assert_eq!(one.lengths().unwrap().0, Lengths::equal(100.0));
        assert!(one.rate().unwrap_err().to_string().contains("--rate"));
    }
}
