//! The prefill speed of a replica, learned from its answers.
//!
//! GORGO (section 3) fits TTFT = a + t_p * tokens once, offline, with one prompt at a time. Online, only
//! requests that find nothing in front of them are such samples: the fixed part is kept as their
//! running minimum, and the slope moves slowly. But a replica that is taken for too fast by a rough
//! first sample gets everything, has no such request again, and would stay wrong for good. So a second
//! line is fitted to all traffic, where a request's tokens are its own and those in front of it, and
//! which leans on the region's mean. It is steeper under load, for prompts share steps with replies,
//! and right within a small factor always: it counts until there are some of the cleaner samples, and
//! they never stray further than that from it. An engine that says itself how long its prefill took is
//! believed over both.

/// Prefill speed of one replica: t_p in ms a token, and the fixed part of a TTFT in ms.
#[derive(Clone, Copy, Debug)]
pub struct PrefillSpeed {
    start: f64,
    /// Of requests with nothing in front, or as the engine tells.
    alone: f64,
    is_told: bool,
    fixed_ms: f64,
    samples: u32,
    /// Of all requests.
    queue: Line,
}

/// A line through samples, tokens x and TTFT y, each sample worth `KEEP` of the next; it leans on a
/// guess where there are few.
#[derive(Clone, Copy, Debug)]
struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    /// The least TTFT, which slowly fades.
    least: f64,
    guess: f64,
    slope: f64,
}

/// How far the slope may wander from the configured one, as a factor either way.
const SPAN: f64 = 50.0;
/// How far it may be from that of all traffic.
const STRAY: f64 = 3.0;
/// What a sample of all traffic still weighs when the next one comes.
const KEEP: f64 = 0.97;
/// Samples with nothing in front that say more than all traffic does.
const ENOUGH: u32 = 8;
/// Sum of squared tokens that outweighs the guess: one prompt of 2,000 tokens.
const LEAN: f64 = 2000.0 * 2000.0;
/// Weight of one sample with nothing in front.
const GAIN: f64 = 0.1;
/// An engine's own time for fewer tokens is mostly the fixed cost of a step.
const TOLD: f64 = 64.0;
/// Fewer unmatched tokens than this say more of the fixed part than of the slope.
const LONG: f64 = 256.0;

impl PrefillSpeed {
    /// Starts at `ms_per_token`.
    #[must_use]
    pub fn new(ms_per_token: f64) -> PrefillSpeed {
        PrefillSpeed {
            start: ms_per_token,
            alone: ms_per_token,
            is_told: false,
            fixed_ms: 0.0,
            samples: 0,
            queue: Line::leaning_on(ms_per_token),
        }
    }

    /// Takes the TTFT of a request with so many unmatched `tokens`, those `in_front` not included.
    pub fn sample(&mut self, ttft_ms: f64, tokens: f64, in_front: f64) {
        let sound = ttft_ms >= 0.0 && tokens >= 0.0 && in_front >= 0.0;
        if !sound || !(ttft_ms + tokens + in_front).is_finite() {
            return;
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
        if !self.is_told {
            self.learn((ttft_ms - self.fixed_ms) / tokens);
        }
    }

    /// Takes what an engine says it spent on `tokens`: no queue in it, and no network.
    pub fn told(&mut self, ms: f64, tokens: f64) {
        if tokens >= TOLD && ms >= 0.0 {
            if !self.is_told {
                (self.is_told, self.samples) = (true, 0);
            }
            self.learn(ms / tokens);
        }
    }

    fn bounded(&self, slope: f64) -> f64 {
        slope.clamp(self.start / SPAN, self.start * SPAN)
    }

    fn learn(&mut self, seen: f64) {
        let seen = self.bounded(seen);
        // The first long answer replaces the guess; later ones nudge it.
        let gain = if self.samples == 0 { 1.0 } else { GAIN };
        self.alone += gain * (seen - self.alone);
        self.samples = self.samples.saturating_add(1);
    }

    /// Starts from `ms_per_token` instead, while no answer has taught anything: what its
    /// neighbours turned out to be is a better guess than a constant.
    pub fn assume(&mut self, ms_per_token: f64) {
        self.queue.guess = ms_per_token;
        if self.samples == 0 {
            self.alone = ms_per_token;
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
        match self.queue.slope().filter(|_| !self.is_told).map(|slope| self.bounded(slope)) {
            Some(slope) if self.samples < ENOUGH => slope,
            Some(slope) => self.alone.clamp(slope / STRAY, slope * STRAY),
            None => self.alone,
        }
    }

    /// The predicted TTFT of `tokens` unmatched tokens with nothing in front.
    #[must_use]
    pub fn predict_ms(&self, tokens: f64) -> f64 {
        self.fixed_ms + self.ms_per_token() * tokens
    }
}

impl Line {
    fn leaning_on(guess: f64) -> Line {
        let (n, x, y, xx, xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        Line { n, x, y, xx, xy, least: f64::INFINITY, guess, slope: guess }
    }

    /// Takes a sample and fits: least squares, where the fixed part is no less than nothing and no
    /// more than the least TTFT.
    fn add(&mut self, x: f64, y: f64) {
        self.n = self.n * KEEP + 1.0;
        self.x = self.x * KEEP + x;
        self.y = self.y * KEEP + y;
        self.xx = self.xx * KEEP + x * x;
        self.xy = self.xy * KEEP + x * y;
        self.least = y.min(self.least / KEEP);
        let Line { n, x, y, xx, xy, least, guess, .. } = *self;
        let line = (xy - x * y / n + LEAN * guess) / (xx - x * x / n + LEAN);
        let fixed = ((y - line * x) / n).clamp(0.0, least);
        self.slope = (xy - fixed * x + LEAN * guess) / (xx + LEAN);
    }

    /// None before there was a prompt's worth of tokens.
    fn slope(&self) -> Option<f64> {
        (self.xx >= LONG * LONG && self.slope > 0.0).then_some(self.slope)
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
            s.sample(20.0 + 0.5 * tokens, tokens, 0.0);
        }
        about(&s, 0.5);
    }

    // Under load a TTFT grows faster with the queue than prefill does; the slope stays that of
    // requests with nothing in front.
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

    // A burst taught that there is next to no slope. The replica gets everything, nothing finds it
    // idle again, and its queue corrects what is known of it.
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

    // Engines that say how long their prefill took are believed at once, but for tiny prompts, and
    // whatever TTFTs were seen before or come after.
    #[test]
    fn speed_is_told() {
        let mut s = PrefillSpeed::new(0.1);
        s.told(300.0, 10.0);
        about(&s, 0.1);
        let waits = |s: &mut PrefillSpeed| {
            for i in 0..20 {
                s.sample(5.0 * 1000.0, 1000.0, f64::from(i % 2) * 1000.0);
            }
        };
        waits(&mut s);
        s.told(300.0, 1000.0);
        about(&s, 0.3);
        waits(&mut s);
        about(&s, 0.3);
    }

    // An assumption stands until the first answer, and does not unseat what was learned.
    #[test]
    fn speed_is_assumed() {
        let mut s = PrefillSpeed::new(0.1);
        s.assume(0.5);
        about(&s, 0.5);
        s.told(300.0, 1000.0);
        s.assume(0.5);
        about(&s, 0.3);
    }

    // A wild sample moves the slope, but not beyond its bounds, and neither does a wild queue; what is
    // no number moves nothing.
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
