//! Load that follows the sun.
//!
//! Each region is busiest at three in the afternoon of its own clock, and R times as busy as twelve
//! hours later:
//!
//! ```text
//! rate_r(h) = w_r exp(ln(R_r)/2 cos(2 pi (h + tz_r - 15) / 24)),  each profile scaled to mean 1
//! ```
//!
//! The constants of [`Diurnal::published`] are chosen for SkyWalker's Figure 3, which is of five
//! regions of WildChat by the hour: peak over trough between 2.88 and 32.64 in each, 1.29 in their
//! sum, and 40.5 % less capacity for the peak of the sum than for the sum of the peaks. They give
//! 1.291 and 40.45 % by the hour, 1.296 and 40.33 % by the minute. A lognormal factor can make days
//! differ, and a day can be shorter than 24 hours.

use std::f64::consts::PI;
use std::time::Duration;

use meridian_base::{Rng, mix};

/// The hour of the local day with the highest rate.
const PEAK_HOUR: f64 = 15.0;

/// One region's day.
#[derive(Clone, Debug, PartialEq)]
pub struct DiurnalRegion {
    /// A name for tables and plots.
    pub name: &'static str,
    /// Hours ahead of UTC.
    pub utc_offset: f64,
    /// The highest rate over the lowest; at least 1.
    pub peak_to_trough: f64,
    /// Mean share of the load of all regions.
    pub weight: f64,
}

/// The days of several regions.
#[derive(Clone, Debug, PartialEq)]
pub struct Diurnal {
    /// The regions; an index into this list identifies one.
    pub regions: Vec<DiurnalRegion>,
    /// How long a day lasts on the clock of the run.
    pub day: Duration,
    /// The hour (UTC) at which the run starts.
    pub start_hour: f64,
    /// Coefficient of variation of a region's days; 0 makes all days equal.
    pub day_cv: f64,
}

impl Diurnal {
    /// The five regions with the published figures, from midnight UTC on, all days equal.
    #[must_use]
    pub fn published() -> Diurnal {
        let region = |name, utc_offset, peak_to_trough, weight| DiurnalRegion {
            name,
            utc_offset,
            peak_to_trough,
            weight,
        };
        let regions = vec![
            region("utc-8", -8.0, 7.0, 0.298),
            region("utc-5", -5.0, 2.88, 0.268),
            region("utc+1", 1.0, 14.0, 0.124),
            region("utc+5:30", 5.5, 32.64, 0.050),
            region("utc+8", 8.0, 4.5, 0.259),
        ];
        Diurnal { regions, day: Duration::from_secs(86_400), start_hour: 0.0, day_cv: 0.0 }
    }

    /// The rate of `region` at `hour` (UTC), as a share of the mean load of all regions.
    ///
    /// # Panics
    /// When there is no such region.
    #[must_use]
    pub fn rate(&self, region: usize, hour: f64) -> f64 {
        let of = &self.regions[region];
        of.weight * of.shape(hour) / of.mean_shape()
    }

    /// The rate of all regions together at `hour` (UTC).
    #[must_use]
    pub fn total(&self, hour: f64) -> f64 {
        (0..self.regions.len()).map(|region| self.rate(region, hour)).sum()
    }

    /// Arrivals in `region`, with `per_second` programs over all regions in the mean of a day. A
    /// region that is not in the list has no arrivals.
    #[must_use]
    pub fn arrivals(&self, seed: u64, region: usize, per_second: f64) -> DiurnalArrivals {
        let rng = Rng::new(mix(mix(seed, 0x4449_5552_4E41_4C21), region as u64));
        let of = self.regions.get(region).cloned();
        let peak = of.as_ref().map_or(0.0, |of| of.weight * of.peak() / of.mean_shape());
        DiurnalArrivals {
            days: rng.fork(1),
            rng,
            of,
            day_s: self.day.as_secs_f64(),
            start_hour: self.start_hour,
            day_cv: self.day_cv,
            peak: peak * per_second,
            today: None,
            at_s: 0.0,
        }
    }
}

impl DiurnalRegion {
    fn shape(&self, hour: f64) -> f64 {
        let angle = 2.0 * PI * (hour + self.utc_offset - PEAK_HOUR) / 24.0;
        libm::exp(0.5 * libm::log(self.peak_to_trough) * libm::cos(angle))
    }

    fn peak(&self) -> f64 {
        libm::sqrt(self.peak_to_trough)
    }

    /// The mean of the shape over a day. A sum over a smooth period is exact long before 96 points.
    fn mean_shape(&self) -> f64 {
        (0..96).map(|quarter| self.shape(f64::from(quarter) / 4.0)).sum::<f64>() / 96.0
    }
}

/// A Poisson process whose rate follows a region's day: candidates at the highest rate of the day,
/// each kept with its hour's probability.
#[derive(Clone, Debug)]
pub struct DiurnalArrivals {
    rng: Rng,
    days: Rng,
    of: Option<DiurnalRegion>,
    day_s: f64,
    start_hour: f64,
    day_cv: f64,
    /// The highest rate of a mean day.
    peak: f64,
    /// The current day and its factor.
    today: Option<(u64, f64)>,
    at_s: f64,
}

impl DiurnalArrivals {
    /// The factor of day `day`.
    fn factor(&mut self, day: u64) -> f64 {
        match self.today {
            Some((today, factor)) if today == day => factor,
            _ => {
                let mut rng = self.days.fork(day);
                let factor = if self.day_cv > 0.0 { rng.lognormal(1.0, self.day_cv) } else { 1.0 };
                self.today = Some((day, factor));
                factor
            }
        }
    }
}

/// Times since the start.
impl Iterator for DiurnalArrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let of = self.of.clone()?;
        if !(self.peak > 0.0 && self.peak.is_finite() && self.day_s > 0.0) {
            return None;
        }
        for _ in 0..super::MOST_TRIES {
            let day = libm::floor(self.at_s / self.day_s);
            let rate = self.peak * self.factor(day as u64);
            let at_s = self.at_s + self.rng.exponential(1.0 / rate);
            let tomorrow = (day + 1.0) * self.day_s;
            if at_s >= tomorrow {
                // The process has no memory: the next day starts fresh, at its own rate.
                self.at_s = tomorrow;
                continue;
            }
            self.at_s = at_s;
            let hour = self.start_hour + 24.0 * (at_s / self.day_s);
            if self.rng.unit() * of.peak() < of.shape(hour) {
                return Duration::try_from_secs_f64(at_s).ok();
            }
        }
        None
    }
}
