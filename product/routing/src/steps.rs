//! The time of a replica's decode steps, learned from its answers.
//!
//! A decode step reads the weights once, and then the KV cache of each running request, so its time
//! is a line over the number of running requests n: step = fixed + slope n. An answer of N tokens
//! measures it: the time from its first token to its last is N steps, and the prefill of other
//! requests between them.
//!
//! Before there are answers, a running request is taken to cost a step as much as one token of
//! prefill: its one token needs the same arithmetic, and on the GPUs that we know reading its KV
//! cache takes about as long again (lab/docs/simulator.md).

use meridian_base::Time;

use crate::line::Line;

/// Answers shorter than this measure the first token's delivery rather than steps.
const SHORTEST: u32 = 8;
/// Spread of the running requests that outweighs the guess.
const LEAN: f64 = 10.0;
/// How far the slope may move from the guess, as a factor either way.
const SPAN: f64 = 10.0;

/// What happened at a replica until now; the difference of two is what happened between them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    at: Time,
    /// Running requests times seconds.
    running_s: f64,
    /// Time spent on prefill.
    prefill_ms: f64,
}

/// Decode steps of one replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    line: Line,
    guess: f64,
    now: Mark,
    running: u32,
}

impl Steps {
    /// Steps of a replica whose prefill takes this long a token.
    pub(crate) fn new(ms_per_token: f64) -> Steps {
        let line = Line::leaning_on(ms_per_token, LEAN);
        Steps { line, guess: ms_per_token, now: Mark::default(), running: 0 }
    }

    /// Records the number of running requests from now on.
    pub(crate) fn running(&mut self, now: Time, running: u32) {
        self.advance(now);
        self.running = running;
    }

    /// Records prefill work that ended, and the learned time of a token's prefill.
    pub(crate) fn prefilled(&mut self, ms: f64, ms_per_token: f64) {
        self.now.prefill_ms += ms;
        self.guess = ms_per_token;
        self.line.guess(ms_per_token);
    }

    /// The state now: keep it at a first token, and give it back at the answer's end.
    pub(crate) fn mark(&mut self, now: Time) -> Mark {
        self.advance(now);
        self.now
    }

    /// Adds an answer of `tokens` tokens since `mark`, which was taken at its first one.
    pub(crate) fn answered(&mut self, now: Time, mark: Mark, tokens: u32) {
        self.advance(now);
        let seconds = now.since(mark.at).as_secs_f64();
        if tokens < SHORTEST || seconds <= 0.0 {
            return;
        }
        let running = (self.now.running_s - mark.running_s) / seconds;
        let steps_ms = seconds * 1e3 - (self.now.prefill_ms - mark.prefill_ms);
        self.line.add(running, steps_ms.max(0.0) / f64::from(tokens));
    }

    /// By how much one more running request lengthens a step, ms.
    pub(crate) fn slope_ms(&self) -> f32 {
        self.line.slope().clamp(self.guess / SPAN, self.guess * SPAN) as f32
    }

    fn advance(&mut self, now: Time) {
        self.now.running_s += now.since(self.now.at).as_secs_f64() * f64::from(self.running);
        self.now.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::Duration;

    // Steps of 8 ms and 0.4 ms for each running request, while others prefill for a tenth of the
    // time.
    #[test]
    fn steps_are_learned_without_prefill() {
        let mut steps = Steps::new(0.1);
        let mut now = Time::ZERO;
        for i in 0..300_u32 {
            let running = 5 + i * 7 % 30;
            steps.running(now, running);
            let mark = steps.mark(now);
            let decode_ms = 100.0 * (8.0 + 0.4 * f64::from(running));
            steps.prefilled(0.1 * decode_ms, 0.1);
            now = now + Duration::from_nanos((1.1 * decode_ms * 1e6) as u64);
            steps.answered(now, mark, 100);
        }
        assert!((steps.slope_ms() - 0.4).abs() < 0.02, "{}", steps.slope_ms());
    }

    // Without answers a running request costs as much as a token of prefill.
    #[test]
    fn steps_have_a_prior() {
        assert_eq!(Steps::new(0.5).slope_ms(), 0.5);
    }
}
