//! The time of decode steps, learned from the answers of replicas of one kind.
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

/// What an answer says of the steps in its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepSample {
    /// Mean of the running requests.
    pub(crate) running: f64,
    /// Mean time of a step.
    pub(crate) step_ms: f64,
}

/// Measures the decode steps of one replica.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    now: Mark,
    running: u32,
}

impl Steps {
    /// Records the number of running requests from now on.
    pub(crate) fn running(&mut self, now: Time, running: u32) {
        self.advance(now);
        self.running = running;
    }

    /// Records prefill work that ended.
    pub(crate) fn prefilled(&mut self, ms: f64) {
        self.now.prefill_ms += ms;
    }

    /// The state now: keep it at a first token, and give it back at the answer's end.
    pub(crate) fn mark(&mut self, now: Time) -> Mark {
        self.advance(now);
        self.now
    }

    /// What an answer of `tokens` tokens since `mark`, which was taken at its first one, says.
    pub(crate) fn answered(&mut self, now: Time, mark: Mark, tokens: u32) -> Option<StepSample> {
        self.advance(now);
        let seconds = now.since(mark.at).as_secs_f64();
        if tokens < SHORTEST || seconds <= 0.0 {
            return None;
        }
        let running = (self.now.running_s - mark.running_s) / seconds;
        let steps_ms = seconds * 1e3 - (self.now.prefill_ms - mark.prefill_ms);
        Some(StepSample { running, step_ms: steps_ms.max(0.0) / f64::from(tokens) })
    }

    fn advance(&mut self, now: Time) {
        self.now.running_s += now.since(self.now.at).as_secs_f64() * f64::from(self.running);
        self.now.at = now;
    }
}

/// The time of a step over the running requests.
#[derive(Clone, Debug)]
pub(crate) struct StepLine(Line);

impl StepLine {
    /// The steps of replicas whose prefill takes this long a token.
    pub(crate) fn new(ms_per_token: f64) -> StepLine {
        StepLine(Line::leaning_on(ms_per_token, LEAN))
    }

    /// Adds what an answer says.
    pub(crate) fn add(&mut self, sample: StepSample) {
        self.0.add(sample.running, sample.step_ms);
    }

    /// By how much one more running request lengthens a step, where a token of prefill takes
    /// `ms_per_token`.
    pub(crate) fn slope_ms(&self, ms_per_token: f64) -> f64 {
        self.0.slope().clamp(ms_per_token / SPAN, ms_per_token * SPAN)
    }

    /// Multiplies all times.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.0.scale(factor);
    }

    /// Sets the time of a token's prefill.
    pub(crate) fn guess(&mut self, ms_per_token: f64) {
        self.0.guess(ms_per_token);
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
        let (mut steps, mut line) = (Steps::default(), StepLine::new(0.1));
        let mut now = Time::ZERO;
        for i in 0..300_u32 {
            let running = 5 + i * 7 % 30;
            steps.running(now, running);
            let mark = steps.mark(now);
            let decode_ms = 100.0 * (8.0 + 0.4 * f64::from(running));
            steps.prefilled(0.1 * decode_ms);
            now = now + Duration::from_nanos((1.1 * decode_ms * 1e6) as u64);
            line.add(steps.answered(now, mark, 100).expect("it is long enough"));
        }
        assert!((line.slope_ms(0.1) - 0.4).abs() < 0.02, "{}", line.slope_ms(0.1));
    }

    // Without answers a running request costs as much as a token of prefill.
    #[test]
    fn steps_have_a_prior() {
        assert_eq!(StepLine::new(0.5).slope_ms(0.5), 0.5);
    }
}
