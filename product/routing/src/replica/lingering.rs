//! Failed attempts, which count as outstanding as long as good ones would have been.
//!
//! Otherwise a replica that fails fast would look as if it had free capacity, and attract the requests.

use meridian_base::{Duration, Time};

use crate::cost::Recent;

/// A failed attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) took: Duration,
    /// Prompt tokens, and those of them to compute.
    pub(crate) prompt: f32,
    pub(crate) unmatched: f32,
}

/// How long good attempts take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsualTimes {
    /// To the end of the answer.
    pub(crate) answer: Duration,
    /// To its first token.
    pub(crate) first: Duration,
}

/// The failed attempts of a replica. They fade with the time that a good attempt takes, so failures at a
/// steady rate count as many as good attempts at that rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lingering {
    attempts: Recent,
    prompt: Recent,
    /// Tokens that would still be computed.
    front: Recent,
    usual: UsualTimes,
}

impl Lingering {
    pub(crate) const NONE: Lingering = Lingering {
        attempts: Recent::NONE,
        prompt: Recent::NONE,
        front: Recent::NONE,
        usual: UsualTimes { answer: Duration::ZERO, first: Duration::ZERO },
    };

    /// Adds an attempt, unless it took as long as a good one.
    pub(crate) fn add(&mut self, now: Time, failed: FailedAttempt, usual: UsualTimes) {
        let FailedAttempt { took, prompt, unmatched } = failed;
        // What is there fades from now on at the new pace.
        let before = self.usual;
        let moved = |recent: &mut Recent, old: Duration, new: Duration, count: f64| {
            let rest = (1.0 - took.as_secs_f64() / new.as_secs_f64().max(1e-9)).max(0.0);
            let count = recent.get(now, old) + rest * count;
            *recent = Recent::NONE;
            recent.add(now, new, count);
        };
        moved(&mut self.attempts, before.answer, usual.answer, 1.0);
        moved(&mut self.prompt, before.answer, usual.answer, prompt.into());
        moved(&mut self.front, before.first, usual.first, unmatched.into());
        self.usual = usual;
    }

    /// The attempts that still count.
    pub(crate) fn count(&self, now: Time) -> u32 {
        libm::round(self.attempts.get(now, self.usual.answer)) as u32
    }

    /// Their prompt tokens.
    pub(crate) fn prompt_tokens(&self, now: Time) -> f32 {
        self.tokens(now, self.prompt.get(now, self.usual.answer))
    }

    /// The tokens that would still be computed.
    pub(crate) fn front_tokens(&self, now: Time) -> f32 {
        self.tokens(now, self.front.get(now, self.usual.first))
    }

    /// None once no attempt counts.
    fn tokens(&self, now: Time, tokens: f64) -> f32 {
        if self.count(now) == 0 { 0.0 } else { tokens as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Ten failures a second, where a good answer takes half a second, count as five requests. They are
    // gone a little later, and a failure that took as long as an answer does not count.
    #[test]
    fn as_many_as_good_ones() {
        let ms = Duration::from_millis;
        let at = |tenth: u64| Time::from_millis(100 * tenth);
        let usual = UsualTimes { answer: ms(500), first: ms(200) };
        let fails = |took| FailedAttempt { took, prompt: 8.0, unmatched: 4.0 };
        let mut failed = Lingering::NONE;
        (0..50).for_each(|tenth| failed.add(at(tenth), fails(Duration::ZERO), usual));
        assert!((5..=6).contains(&failed.count(at(49))), "{}", failed.count(at(49)));
        assert!((40.0..48.0).contains(&failed.prompt_tokens(at(49))));
        assert!((8.0..12.0).contains(&failed.front_tokens(at(49))));
        assert_eq!((failed.count(at(70)), failed.front_tokens(at(70))), (0, 0.0));
        failed.add(at(80), fails(usual.answer), usual);
        assert_eq!(failed.count(at(80)), 0);
    }
}
