//! Failed attempts, which count as outstanding as long as good ones would have been.

use meridian_base::{Duration, Time};

use crate::cost::Recent;

/// The failed attempts of a replica: their number and prompt tokens, which fade with the time that a
/// good attempt takes. Failures at a steady rate so count as many as good attempts at this rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lingering {
    attempts: Recent,
    tokens: Recent,
    usual: Duration,
}

impl Lingering {
    pub(crate) const NONE: Lingering =
        Lingering { attempts: Recent::NONE, tokens: Recent::NONE, usual: Duration::ZERO };

    /// Adds an attempt that failed after `took`, where a good one takes `usual`.
    pub(crate) fn add(&mut self, now: Time, prompt: f32, took: Duration, usual: Duration) {
        if took >= usual {
            return;
        }
        let rest = 1.0 - took.as_secs_f64() / usual.as_secs_f64();
        // What is there goes on to fade from here at the new pace.
        let (attempts, tokens) = (self.attempts(now), self.tokens.get(now, self.usual));
        *self = Lingering { usual, ..Lingering::NONE };
        self.attempts.add(now, usual, attempts + rest);
        self.tokens.add(now, usual, tokens + rest * f64::from(prompt));
    }

    fn attempts(&self, now: Time) -> f64 {
        self.attempts.get(now, self.usual)
    }

    /// The attempts that still count.
    pub(crate) fn count(&self, now: Time) -> u32 {
        libm::round(self.attempts(now)) as u32
    }

    /// The prompt tokens of those.
    pub(crate) fn tokens(&self, now: Time) -> f32 {
        if self.count(now) == 0 { 0.0 } else { self.tokens.get(now, self.usual) as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Ten failures a second, where a good answer takes half a second, count as five requests. They are
    // gone a little later, and a failure that took as long as an answer does not count.
    #[test]
    fn as_many_as_good_ones() {
        let (mut failed, usual) = (Lingering::NONE, Duration::from_millis(500));
        let at = |tenth: u64| Time::from_millis(100 * tenth);
        (0..50).for_each(|tenth| failed.add(at(tenth), 8.0, Duration::ZERO, usual));
        assert!((5..=6).contains(&failed.count(at(49))), "{}", failed.count(at(49)));
        assert!((40.0..=48.0).contains(&failed.tokens(at(49))));
        assert_eq!((failed.count(at(70)), failed.tokens(at(70))), (0, 0.0));
        failed.add(at(80), 8.0, usual, usual);
        assert_eq!(failed.count(at(80)), 0);
    }
}
