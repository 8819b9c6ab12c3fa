//! The prefill speed of replicas of one kind, estimated from their answers.
//!
//! GORGO (section 3) fits TTFT = a + t_p * tokens once, offline, with one prompt at a time. Online,
//! only requests with none ahead of them are such samples: the fixed part is kept as their running
//! minimum, and the slope moves slowly. But if a rough first sample makes a replica look too fast,
//! it gets all requests, never has an unqueued one again, and the estimate would stay wrong. So a
//! second line is fitted to all traffic, in which a request's tokens include those ahead of it,
//! with the region's mean as a prior. It is steeper under load, because prompts share steps with
//! replies, but always right within a small factor. It is used until there are enough of the
//! cleaner samples, and bounds how far they may stray. If an engine reports how long its prefill
//! took, that overrides both.

use crate::line::Line;

/// Prefill speed: t_p in ms a token, and the fixed part of a TTFT in ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefillSpeed {
    start: f64,
    /// From requests with none ahead, or as the engine reports.
    alone: f64,
    is_reported: bool,
    fixed_ms: f64,
    samples: u32,
    /// From all requests.
    queue: Line,
}

/// How far the slope may move from the configured one, as a factor either way.
const SPAN: f64 = 50.0;
/// How far it may be from the slope of all traffic.
const STRAY: f64 = 3.0;
/// Number of samples with none ahead that outweigh all traffic.
const ENOUGH: u32 = 8;
/// Spread of the tokens that outweighs the guess: one prompt of 2,000.
const LEAN: f64 = 2000.0;
/// Weight of one sample with none ahead.
const GAIN: f64 = 0.1;
/// Below this many tokens, an engine's own prefill time is mostly the fixed cost of a step.
const REPORTED: f64 = 64.0;
/// Below this many unmatched tokens, a sample measures the fixed part rather than the slope.
pub(crate) const LONG: f64 = 256.0;

impl PrefillSpeed {
    /// Starts at `ms_per_token`.
    pub(crate) fn new(ms_per_token: f64) -> PrefillSpeed {
        PrefillSpeed {
            start: ms_per_token,
            alone: ms_per_token,
            is_reported: false,
            fixed_ms: 0.0,
            samples: 0,
            queue: Line::leaning_on(ms_per_token, LEAN),
        }
    }

    /// Adds the TTFT of a request with this many unmatched `tokens`, not counting those `in_front`.
    pub(crate) fn sample(&mut self, ttft_ms: f64, tokens: f64, in_front: f64) {
        let sound = ttft_ms >= 0.0 && tokens >= 0.0 && in_front >= 0.0;
        if !sound || !(ttft_ms + tokens + in_front).is_finite() {
            return;
        }
        if self.is_learned() {
            self.queue.guess(self.ms_per_token());
        }
        self.queue.add(tokens + in_front, ttft_ms);
        if in_front > 0.0 {
            return;
        }
        if tokens < LONG {
            let first = self.fixed_ms == 0.0 || ttft_ms < self.fixed_ms;
            self.fixed_ms =
                if first { ttft_ms } else { self.fixed_ms + 0.01 * (ttft_ms - self.fixed_ms) };
            return;
        }
        if !self.is_reported {
            self.learn((ttft_ms - self.fixed_ms) / tokens);
        }
    }

    /// Adds the prefill time that an engine reports for `tokens`: it includes no queueing and no
    /// network.
    pub(crate) fn reported(&mut self, ms: f64, tokens: f64) {
        if tokens >= REPORTED && ms >= 0.0 {
            if !self.is_reported {
                (self.is_reported, self.samples) = (true, 0);
            }
            self.learn(ms / tokens);
        }
    }

    fn bounded(&self, slope: f64) -> f64 {
        slope.clamp(self.start / SPAN, self.start * SPAN)
    }

    fn learn(&mut self, seen: f64) {
        let seen = self.bounded(seen);
        // The first long answer replaces the guess; later ones adjust it.
        let gain = if self.samples == 0 { 1.0 } else { GAIN };
        self.alone += gain * (seen - self.alone);
        self.samples = self.samples.saturating_add(1);
    }

    /// Starts from `ms_per_token` instead, if there are no samples yet: the neighbours' measured
    /// speed is a better guess than a constant.
    pub(crate) fn assume(&mut self, ms_per_token: f64) {
        self.queue.guess(ms_per_token);
        if self.samples == 0 {
            self.alone = ms_per_token;
        }
    }

    /// Whether it has samples from answers.
    pub(crate) fn is_learned(&self) -> bool {
        self.samples > 0
    }

    /// The slope t_p, ms a token.
    pub(crate) fn ms_per_token(&self) -> f64 {
        let seen = self.queue.spread() >= LONG && self.queue.slope() > 0.0;
        let traffic = (seen && !self.is_reported).then(|| self.queue.slope());
        match traffic.map(|slope| self.bounded(slope)) {
            Some(slope) if self.samples < ENOUGH => slope,
            Some(slope) => self.alone.clamp(slope / STRAY, slope * STRAY),
            None => self.alone,
        }
    }

    /// The fixed part of a TTFT, ms.
    pub(crate) fn fixed_ms(&self) -> f64 {
        self.fixed_ms
    }

    /// Multiplies all times.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.alone = self.bounded(self.alone * factor);
        self.fixed_ms *= factor;
        self.queue.scale(factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(speed: &PrefillSpeed, ms_per_token: f64) {
        let off = (speed.ms_per_token() / ms_per_token - 1.0).abs();
        assert!(off < 0.05, "{}", speed.ms_per_token());
    }

    // The slope is found although every answer also includes a fixed part.
    #[test]
    fn slope_and_fixed_part_are_told_apart() {
        let mut s = PrefillSpeed::new(0.05);
        for i in 0..200 {
            let tokens = if i % 4 == 0 { 10.0 } else { 500.0 + f64::from(i) * 10.0 };
            s.sample(20.0 + 0.5 * tokens, tokens, 0.0);
        }
        about(&s, 0.5);
    }

    // Under load a TTFT grows faster with the queue than prefill does; the slope stays that of
    // requests with none ahead.
    #[test]
    fn load_does_not_inflate_the_slope() {
        let mut s = PrefillSpeed::new(0.1);
        for i in 1..100 {
            s.sample(0.5 * 800.0, 800.0, 0.0);
            let front = 400.0 * f64::from(i % 8 + 1);
            s.sample(1.0 * (front + 300.0), 300.0, front);
        }
        about(&s, 0.5);
    }

    // A burst suggested a slope of almost zero. The replica then gets all requests, is never idle
    // again, and the samples from its queue correct the estimate.
    #[test]
    fn a_queue_corrects_a_wrong_slope() {
        let mut s = PrefillSpeed::new(0.1);
        s.sample(1700.0, 200.0, 0.0);
        s.sample(1200.0, 2000.0, 0.0);
        assert!(s.ms_per_token() < 0.1, "{}", s.ms_per_token());
        for i in 1..30 {
            let front = 500.0 * f64::from(i);
            s.sample(0.6 * (front + 500.0), 500.0, front);
        }
        assert!(s.ms_per_token() > 0.4, "{}", s.ms_per_token());
    }

    // Prefill times that an engine reports are used at once, except for tiny prompts, whatever
    // TTFTs were seen before or come after.
    #[test]
    fn speed_is_reported() {
        let mut s = PrefillSpeed::new(0.1);
        s.reported(300.0, 10.0);
        about(&s, 0.1);
        let waits = |s: &mut PrefillSpeed| {
            for i in 0..20 {
                s.sample(5.0 * 1000.0, 1000.0, f64::from(i % 2) * 1000.0);
            }
        };
        waits(&mut s);
        s.reported(300.0, 1000.0);
        about(&s, 0.3);
        waits(&mut s);
        about(&s, 0.3);
    }

    // An assumption holds until the first answer, and does not replace a measurement.
    #[test]
    fn speed_is_assumed() {
        let mut s = PrefillSpeed::new(0.1);
        s.assume(0.5);
        about(&s, 0.5);
        s.reported(300.0, 1000.0);
        s.assume(0.5);
        about(&s, 0.3);
    }

    // An outlier moves the slope, but not beyond its bounds, and neither does an extreme queue; a
    // NaN moves nothing.
    #[test]
    fn speed_is_bounded() {
        let mut s = PrefillSpeed::new(0.1);
        s.sample(1e9, 1000.0, 1000.0);
        assert!(s.ms_per_token() <= 0.1 * SPAN);
        s.sample(1e9, 1000.0, 0.0);
        assert!(s.ms_per_token() <= 0.1 * SPAN);
        let before = s.ms_per_token();
        s.sample(f64::NAN, 1000.0, 0.0);
        s.sample(f64::INFINITY, 1000.0, 0.0);
        s.sample(-5.0, 1000.0, 0.0);
        assert!(s.ms_per_token() == before && before > 0.0);
    }
}
