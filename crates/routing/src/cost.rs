//! Exponentially weighted means, and the prefill speed learned online.
//!
//! Irregular samples need a mean whose memory is a time and not a number of samples: a sample
//! weighs exp(-age / tau). See linkerd's peak-EWMA for the same idea in a load balancer.

use meridian_base::{Duration, Time};

/// A mean that forgets with a time constant.
#[derive(Clone, Copy, Debug)]
pub struct Ewma {
    tau: f64,
    value: Option<(f64, Time)>,
}

impl Ewma {
    /// A mean with time constant `tau`, empty.
    #[must_use]
    pub fn new(tau: Duration) -> Ewma {
        Ewma { tau: tau.as_secs_f64().max(1e-9), value: None }
    }

    /// Takes a sample. The first one is the value.
    pub fn add(&mut self, now: Time, sample: f64) {
        let next = match self.value {
            None => sample,
            Some((old, at)) => {
                let keep = libm::exp(-now.since(at).as_secs_f64() / self.tau);
                old * keep + sample * (1.0 - keep)
            }
        };
        self.value = Some((next, now));
    }

    /// The same mean standing at `value`.
    #[must_use]
    pub(crate) fn with(self, now: Time, value: f64) -> Ewma {
        Ewma { value: Some((value, now)), ..self }
    }

    /// The value, `None` before the first sample.
    #[must_use]
    pub fn get(&self) -> Option<f64> {
        self.value.map(|(v, _)| v)
    }
}

/// Prefill speed of one replica, learned from answers: t_p in ms a token.
///
/// GORGO (section 3) fits TTFT = a + t_p * tokens once, offline. Online, a lone sample of TTFT over
/// tokens mixes queueing and the fixed part into t_p; so only answers whose request found nothing
/// in front of it count, the fixed part is kept as its own running minimum, and the slope moves
/// slowly and never outside a factor of `SPAN` around where it began.
#[derive(Clone, Copy, Debug)]
pub struct PrefillSpeed {
    start: f64,
    slope: f64,
    fixed_ms: f64,
    samples: u32,
}

/// How far the learned slope may wander from the configured one, as a factor either way.
const SPAN: f64 = 50.0;
/// Weight of one sample.
const GAIN: f64 = 0.1;
/// An engine's own time for fewer tokens is mostly the fixed cost of a step.
const TOLD: f64 = 64.0;
/// Fewer unmatched tokens than this say more of the fixed part than of the slope.
const LONG: f64 = 256.0;

impl PrefillSpeed {
    /// Starts at `ms_per_token`.
    #[must_use]
    pub fn new(ms_per_token: f64) -> PrefillSpeed {
        PrefillSpeed { start: ms_per_token, slope: ms_per_token, fixed_ms: 0.0, samples: 0 }
    }

    /// Takes the TTFT of a request that found nothing in front of it.
    pub fn sample(&mut self, ttft_ms: f64, unmatched_tokens: f64) {
        if unmatched_tokens < LONG {
            let first = self.fixed_ms == 0.0 || ttft_ms < self.fixed_ms;
            self.fixed_ms =
                if first { ttft_ms } else { self.fixed_ms + 0.01 * (ttft_ms - self.fixed_ms) };
            return;
        }
        let seen = ((ttft_ms - self.fixed_ms) / unmatched_tokens)
            .clamp(self.start / SPAN, self.start * SPAN);
        // The first long answer replaces the guess; later ones nudge it.
        let gain = if self.samples == 0 { 1.0 } else { GAIN };
        self.slope += gain * (seen - self.slope);
        self.samples = self.samples.saturating_add(1);
    }

    /// Takes what an engine says it spent on `tokens`: no queue in it, and no network.
    pub fn told(&mut self, ms: f64, tokens: f64) {
        if tokens < TOLD {
            return;
        }
        let seen = (ms / tokens).clamp(self.start / SPAN, self.start * SPAN);
        let gain = if self.samples == 0 { 1.0 } else { GAIN };
        self.slope += gain * (seen - self.slope);
        self.samples = self.samples.saturating_add(1);
    }

    /// Starts from `ms_per_token` instead, while no answer has taught anything: what its
    /// neighbours turned out to be is a better guess than a constant.
    pub fn assume(&mut self, ms_per_token: f64) {
        if self.samples == 0 {
            self.slope = ms_per_token;
        }
    }

    /// Whether answers have taught it.
    #[must_use]
    pub fn is_learned(&self) -> bool {
        self.samples > 0
    }

    /// The slope t_p, ms a token.
    #[must_use]
    pub fn ms_per_token(&self) -> f64 {
        self.slope
    }

    /// The predicted TTFT of `tokens` unmatched tokens with nothing in front.
    #[must_use]
    pub fn predict_ms(&self, tokens: f64) -> f64 {
        self.fixed_ms + self.slope * tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A sample one time constant old weighs 1/e against a new one.
    #[test]
    fn ewma_forgets_by_time() {
        let mut e = Ewma::new(Duration::from_secs(2));
        e.add(Time::ZERO, 10.0);
        assert_eq!(e.get(), Some(10.0));
        e.add(Time::from_millis(2000), 0.0);
        let want = 10.0 / core::f64::consts::E;
        assert!((e.get().expect("has samples") - want).abs() < 1e-9);
    }

    // The slope is found although every answer also pays a fixed part.
    #[test]
    fn speed_separates_slope_from_fixed_part() {
        let mut s = PrefillSpeed::new(0.05);
        for i in 0..200 {
            let tokens = if i % 4 == 0 { 10.0 } else { 500.0 + f64::from(i) * 10.0 };
            s.sample(20.0 + 0.5 * tokens, tokens);
        }
        assert!((s.ms_per_token() - 0.5).abs() < 0.02, "{}", s.ms_per_token());
    }

    // Engines that say how long their prefill took are believed at once, but for tiny prompts.
    #[test]
    fn speed_is_told() {
        let mut s = PrefillSpeed::new(0.1);
        s.told(300.0, 10.0);
        assert!((s.ms_per_token() - 0.1).abs() < 1e-9);
        s.told(300.0, 1000.0);
        assert!((s.ms_per_token() - 0.3).abs() < 1e-9);
    }

    // An assumption stands until the first answer, and does not unseat what was learned.
    #[test]
    fn speed_is_assumed() {
        let mut s = PrefillSpeed::new(0.1);
        s.assume(0.5);
        assert!((s.ms_per_token() - 0.5).abs() < 1e-9);
        s.told(300.0, 1000.0);
        s.assume(0.5);
        assert!((s.ms_per_token() - 0.3).abs() < 1e-9);
    }

    // A wild sample moves the slope, but not beyond its bounds.
    #[test]
    fn speed_is_bounded() {
        let mut s = PrefillSpeed::new(0.1);
        s.sample(1e9, 1000.0);
        assert!(s.ms_per_token() <= 0.1 * SPAN);
        s.sample(-5.0, 1000.0);
        assert!(s.ms_per_token() > 0.0);
    }
}
