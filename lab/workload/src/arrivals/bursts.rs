//! Bursts of minutes: a Poisson process whose rate is several times as high in one part of each
//! period.
//!
//! The mean rate is kept: with bursts of `times` the base rate for `length_s` of every `every_s`
//! seconds, the base is mean / (1 + (times - 1) length / every), so a period has mean x every
//! arrivals on average, burst and quiet part together. Each process has its own phase, drawn from
//! its seed: bursts of several regions overlap by chance only.

use meridian_base::{Rng, mix};

use super::gaps::Gaps;
use super::stepped::{Step, Stepped};

/// Bursts of one length at equal distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// The rate of a burst over that between bursts; at least 1.
    pub times: f64,
    /// Seconds of a burst; above 0, below `every_s`.
    pub length_s: f64,
    /// Seconds from the start of a burst to that of the next.
    pub every_s: f64,
}

impl Bursts {
    /// Arrivals at `per_second` in the mean of a period. The seed also decides the phase.
    #[must_use]
    pub fn arrivals(&self, seed: u64, per_second: f64) -> Stepped {
        let Bursts { times, length_s, every_s } = *self;
        let base = per_second / (1.0 + (times - 1.0) * length_s / every_s);
        let start = self.phase_s(seed);
        let end = (start + length_s) % every_s;
        // The steps of a period; the last burst of a period may reach into the next one.
        let mut bounds = vec![(start, times * base), (end, base)];
        bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at_zero = if end < start { times * base } else { base };
        bounds.insert(0, (0.0, at_zero));
        let step = |(start_s, per_second)| Step { start_s, per_second, gaps: Gaps::Exponential };
        Stepped::new(seed, bounds.into_iter().map(step).collect(), every_s, 1.0)
    }

    /// Seconds from the start of the process to that of its first burst.
    #[must_use]
    pub fn phase_s(&self, seed: u64) -> f64 {
        Rng::new(mix(seed, 0x4255_5253_5453)).unit() * self.every_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURSTS: Bursts = Bursts { times: 3.0, length_s: 60.0, every_s: 300.0 };

    /// Arrivals of 100 periods, by the second of the period since the start of its burst.
    fn by_second(seed: u64) -> Vec<f64> {
        let mut seen = vec![0.0; 300];
        for at in BURSTS.arrivals(seed, 14.0) {
            let at = at.as_secs_f64();
            if at >= 30_000.0 {
                break;
            }
            seen[(at + 300.0 - BURSTS.phase_s(seed)).rem_euclid(300.0) as usize] += 0.01;
        }
        seen
    }

    // The rate of a burst is three times that between bursts, and the mean is kept, wherever in
    // the period the burst lies, also across its end.
    #[test]
    fn bursts_keep_the_mean() {
        let mut across = 0;
        for seed in 0..8 {
            let seen = by_second(seed);
            let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
            let (burst, base) = (mean(&seen[..60]), mean(&seen[60..]));
            assert!((burst / 30.0 - 1.0).abs() < 0.02, "seed {seed}: {burst}");
            assert!((base / 10.0 - 1.0).abs() < 0.02, "seed {seed}: {base}");
            assert!((mean(&seen) / 14.0 - 1.0).abs() < 0.02, "seed {seed}: {}", mean(&seen));
            across += usize::from(BURSTS.phase_s(seed) > 240.0);
        }
        assert!(across > 0, "no burst reaches into the next period");
    }

    // A seed has one phase and one sequence; other seeds have other phases.
    #[test]
    fn phases_follow_the_seed() {
        let first = |seed| BURSTS.arrivals(seed, 2.0).take(50).collect::<Vec<_>>();
        assert_eq!(first(5), first(5));
        assert_ne!(first(5), first(6));
        assert!((BURSTS.phase_s(5) - BURSTS.phase_s(6)).abs() > 1.0);
    }
}
