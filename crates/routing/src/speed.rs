//! The prefill speed of a replica, learned from its answers.
//!
//! GORGO (section 3) fits TTFT = a + t_p * tokens once, offline, with one prompt at a time. Here the
//! line is fitted to all traffic: an engine prefills in order of arrival, so a request's tokens are
//! its own unmatched ones and those in front of it, and its TTFT is theirs together. Requests that
//! find nothing in front would be the cleaner samples, but a replica that is taken for too fast gets
//! everything, never has one again, and stays wrong for good; under this rule it is corrected by the
//! very queue that the mistake makes.
//!
//! Old samples fade. Where there are few, the line leans on the mean slope of the region.

/// Prefill speed of one replica: t_p in ms a token, and the fixed part of a TTFT in ms.
#[derive(Clone, Copy, Debug)]
pub struct PrefillSpeed {
    start: f64,
    guess: Guess,
    seen: Sums,
    slope: f64,
    fixed_ms: f64,
    /// The least TTFT, which slowly fades.
    least_ms: f64,
    is_told: bool,
}

/// A slope to lean on, and the sum of squared tokens that would outweigh it.
#[derive(Clone, Copy, Debug)]
struct Guess {
    slope: f64,
    weight: f64,
}

/// Sums over samples, tokens x and TTFT y, each sample worth `KEEP` of the next.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

/// How far the learned slope may wander from the configured one, as a factor either way.
const SPAN: f64 = 50.0;
/// What a sample still weighs when the next one comes.
const KEEP: f64 = 0.97;
/// Weight of a configured slope: one prompt of 256 tokens.
const CONFIGURED: f64 = 256.0 * 256.0;
/// Weight of what the region's replicas have learned: one prompt of 2,000 tokens.
const REGION: f64 = 2000.0 * 2000.0;
/// Fewer tokens than this teach no slope.
const LONG: f64 = 256.0;
/// A TTFT beyond this many times the predicted one, and a second, counts as that.
const WILD: f64 = 8.0;
/// An engine's own time for fewer tokens is mostly the fixed cost of a step.
const TOLD: f64 = 64.0;
/// Weight of one time that an engine tells.
const GAIN: f64 = 0.1;

impl PrefillSpeed {
    /// Starts at `ms_per_token`.
    #[must_use]
    pub fn new(ms_per_token: f64) -> PrefillSpeed {
        PrefillSpeed {
            start: ms_per_token,
            guess: Guess { slope: ms_per_token, weight: CONFIGURED },
            seen: Sums::default(),
            slope: ms_per_token,
            fixed_ms: 0.0,
            least_ms: f64::INFINITY,
            is_told: false,
        }
    }

    /// Takes the TTFT of a request with so many unmatched `tokens`, those in front of it included.
    pub fn sample(&mut self, ttft_ms: f64, tokens: f64) {
        // An engine that tells its times knows better.
        if self.is_told || !(ttft_ms >= 0.0 && tokens >= 0.0) {
            return;
        }
        let most = WILD * self.predict_ms(tokens) + 1000.0;
        let ttft_ms = ttft_ms.min(most);
        self.least_ms = ttft_ms.min(self.least_ms / KEEP);
        self.seen.add(tokens, ttft_ms);
        self.fit();
    }

    /// Takes what an engine says it spent on `tokens`: no queue in it, and no network.
    pub fn told(&mut self, ms: f64, tokens: f64) {
        if !(tokens >= TOLD && ms >= 0.0) {
            return;
        }
        let gain = if self.is_told { GAIN } else { 1.0 };
        self.slope = self.bounded(self.slope + gain * (ms / tokens - self.slope));
        self.is_told = true;
    }

    /// Leans on `ms_per_token`, which neighbours have learned: a better guess than a constant.
    pub fn assume(&mut self, ms_per_token: f64) {
        self.guess = Guess { slope: ms_per_token, weight: REGION };
        if self.seen.n == 0.0 && !self.is_told {
            self.slope = self.bounded(ms_per_token);
        }
    }

    /// Whether answers have taught it.
    #[must_use]
    pub fn is_learned(&self) -> bool {
        self.is_told || self.seen.xx >= LONG * LONG
    }

    /// The slope t_p, ms a token.
    #[must_use]
    pub fn ms_per_token(&self) -> f64 {
        self.slope
    }

    /// The predicted TTFT of a request with so many unmatched tokens, those in front included.
    #[must_use]
    pub fn predict_ms(&self, tokens: f64) -> f64 {
        self.fixed_ms + self.slope * tokens
    }

    /// Least squares, of one sample or more. The fixed part is no less than nothing and no more than
    /// the least TTFT; where the line says otherwise, the best slope beside the bound is taken.
    fn fit(&mut self) {
        let Sums { n, x, y, xx, xy } = self.seen;
        let Guess { slope, weight } = self.guess;
        let line = (xy - x * y / n + weight * slope) / (xx - x * x / n + weight);
        let fixed = (y - line * x) / n;
        self.fixed_ms = fixed.clamp(0.0, self.least_ms);
        self.slope = self.bounded(match fixed == self.fixed_ms {
            true => line,
            false => (xy - self.fixed_ms * x + weight * slope) / (xx + weight),
        });
    }

    fn bounded(&self, slope: f64) -> f64 {
        slope.clamp(self.start / SPAN, self.start * SPAN)
    }
}

impl Sums {
    fn add(&mut self, x: f64, y: f64) {
        self.n = self.n * KEEP + 1.0;
        self.x = self.x * KEEP + x;
        self.y = self.y * KEEP + y;
        self.xx = self.xx * KEEP + x * x;
        self.xy = self.xy * KEEP + x * y;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(speed: &PrefillSpeed, ms_per_token: f64) {
        let off = (speed.ms_per_token() / ms_per_token - 1.0).abs();
        assert!(off < 0.05, "{}", speed.ms_per_token());
    }

    // The slope is found although every answer also pays a fixed part.
    #[test]
    fn slope_and_fixed_part_are_told_apart() {
        let mut s = PrefillSpeed::new(0.05);
        for i in 0..200 {
            let tokens = if i % 4 == 0 { 10.0 } else { 500.0 + f64::from(i) * 10.0 };
            s.sample(20.0 + 0.5 * tokens, tokens);
        }
        about(&s, 0.5);
        assert!((s.predict_ms(0.0) - 20.0).abs() < 2.0, "{}", s.predict_ms(0.0));
    }

    // A burst at the start: short prompts that waited for a step of everybody's tokens, then one
    // long prompt. Its speed is no less than what the whole burst took.
    #[test]
    fn a_burst_teaches_no_miracle() {
        let mut s = PrefillSpeed::new(0.1);
        for _ in 0..20 {
            s.sample(1700.0, 200.0);
        }
        s.sample(1200.0, 2000.0);
        assert!(s.ms_per_token() > 0.3, "{}", s.ms_per_token());
    }

    // A replica taken for fifty times too fast gets everything, and its queue corrects that.
    #[test]
    fn a_queue_corrects_a_wrong_slope() {
        let mut s = PrefillSpeed::new(0.1);
        s.assume(0.002);
        let mut front = 0.0;
        for _ in 0..20 {
            front += 500.0;
            s.sample(0.6 * front, front);
        }
        about(&s, 0.6);
    }

    // Engines that say how long their prefill took are believed at once, but for tiny prompts, and
    // against any TTFT.
    #[test]
    fn speed_is_told() {
        let mut s = PrefillSpeed::new(0.1);
        s.told(300.0, 10.0);
        about(&s, 0.1);
        s.told(300.0, 1000.0);
        about(&s, 0.3);
        s.sample(9000.0, 1000.0);
        about(&s, 0.3);
    }

    // What neighbours have learned stands until own answers say otherwise, and then yields.
    #[test]
    fn speed_is_assumed() {
        let mut s = PrefillSpeed::new(0.1);
        s.assume(0.5);
        about(&s, 0.5);
        assert!(!s.is_learned());
        for tokens in 1..40 {
            s.sample(200.0 * f64::from(tokens), 1000.0 * f64::from(tokens));
        }
        assert!(s.is_learned());
        about(&s, 0.2);
    }

    // A wild sample moves the slope, but not far and not beyond its bounds; what is no number
    // moves nothing.
    #[test]
    fn speed_is_bounded() {
        let mut s = PrefillSpeed::new(0.1);
        for _ in 0..20 {
            s.sample(110.0, 1000.0);
            s.sample(60.0, 500.0);
        }
        s.sample(1e9, 1000.0);
        assert!(s.ms_per_token() < 1.0, "{}", s.ms_per_token());
        s.sample(f64::NAN, 1000.0);
        s.sample(-5.0, 1000.0);
        (0..1000).for_each(|_| s.sample(0.0, 1000.0));
        assert!(s.ms_per_token() >= 0.1 / SPAN);
    }
}
