//! Arrivals whose rate and burstiness change in steps.
//!
//! One renewal process runs through all steps on its own clock, which advances at the current rate:
//! a gap of 1 on it is one expected arrival, however many steps it spans. The mean count is
//! therefore the integral of the rate. It would not be if the process restarted at each step,
//! because a bursty process has too many arrivals right after its start.

use std::time::Duration;

use meridian_base::{Rng, mix};

use super::gaps::Gaps;

/// A step: its rate and gaps from `start_s` until the next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Seconds since the start of the period.
    pub start_s: f64,
    /// Arrivals a second; 0 or less for none.
    pub per_second: f64,
    /// How unevenly they come.
    pub gaps: Gaps,
}

/// Arrivals by steps, which repeat after a period.
#[derive(Clone, Debug)]
pub struct Stepped {
    rng: Rng,
    steps: Vec<Step>,
    period_s: f64,
    scale: f64,
    /// The current step, of the period that started at `base_s`.
    step: usize,
    base_s: f64,
    at_s: f64,
}

impl Stepped {
    /// Arrivals by `steps` (in order of their starts) of a period of `period_s`, at `scale` times
    /// their rates. There are none before the first step, or without a rate above 0.
    #[must_use]
    pub fn new(seed: u64, steps: Vec<Step>, period_s: f64, scale: f64) -> Stepped {
        let rng = Rng::new(mix(seed, 0x0053_5445_5050_4544));
        let at_s = steps.first().map_or(0.0, |s| s.start_s);
        let mut stepped = Stepped { rng, steps, period_s, scale, step: 0, base_s: 0.0, at_s };
        let sum: f64 = stepped.steps.iter().map(|s| s.per_second.max(0.0)).sum();
        let endless = scale > 0.0 && sum > 0.0 && sum.is_finite() && period_s > 0.0;
        if !endless {
            stepped.steps.clear();
        }
        stepped
    }

    /// When the current step ends.
    fn end_s(&self) -> f64 {
        let next = self.steps.get(self.step + 1);
        self.base_s + next.map_or(self.period_s, |s| s.start_s)
    }

    fn advance(&mut self) {
        self.step += 1;
        if self.step == self.steps.len() {
            self.step = 0;
            self.base_s += self.period_s;
        }
        self.at_s = self.base_s + self.steps[self.step].start_s;
    }
}

/// Times since the start.
impl Iterator for Stepped {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let mut left = self.steps.get(self.step)?.gaps.draw(&mut self.rng);
        for _ in 0..super::MOST_TRIES {
            let rate = self.steps[self.step].per_second.max(0.0) * self.scale;
            let room = (self.end_s() - self.at_s).max(0.0) * rate;
            if left < room {
                self.at_s += left / rate;
                return Duration::try_from_secs_f64(self.at_s).ok();
            }
            left -= room;
            self.advance();
        }
        None
    }
}
