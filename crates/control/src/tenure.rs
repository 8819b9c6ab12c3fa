//! How long an owner may take itself for the owner.
//!
//! A lease has two ends. The store lets go of it a time to live after the last keep-alive reached
//! it; the owner can't know when that was, only when it asked. So it counts from there: its own
//! end always comes first, whatever the answer's way back took, and while both clocks run alike
//! there is no moment with two owners. An owner asks [`Tenure::holds`] before it acts, not only
//! when news come: a process that was stopped for a minute gets no news of it.
//!
//! An owner whose clock runs slow by a share of `d` overlaps with the next one for `d / (1 - d)` of
//! the time to live at most: a ninth for a clock that is wrong by a tenth.

use meridian_base::{Duration, Time};

/// The owner's view of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    ttl: Duration,
    until: Time,
}

impl Tenure {
    /// A lease of `ttl` that was asked for at `asked`, on the owner's clock, and granted.
    #[must_use]
    pub fn new(asked: Time, ttl: Duration) -> Tenure {
        Tenure { ttl, until: asked + ttl }
    }

    /// A keep-alive that was sent at `asked` has been answered.
    pub fn kept(&mut self, asked: Time, ttl: Duration) {
        self.ttl = ttl;
        self.until = self.until.max(asked + ttl);
    }

    /// Whether the owner is sure to be the owner.
    #[must_use]
    pub fn holds(&self, now: Time) -> bool {
        now < self.until
    }

    /// When to send the next keep-alive: with two thirds of the time left for it to be lost and
    /// sent again.
    #[must_use]
    pub fn renew_at(&self) -> Time {
        self.until - self.ttl * 2 / 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The tenure counts from when the owner asked, an answer that comes late adds nothing, and an
    // older answer that overtook a newer one takes nothing away.
    #[test]
    fn a_tenure_counts_from_the_question() {
        let ttl = Duration::from_secs(3);
        let mut tenure = Tenure::new(Time::from_millis(1000), ttl);
        assert!(tenure.holds(Time::from_millis(3999)));
        assert!(!tenure.holds(Time::from_millis(4000)));
        assert_eq!(tenure.renew_at(), Time::from_millis(2000));
        tenure.kept(Time::from_millis(3000), ttl);
        tenure.kept(Time::from_millis(2000), ttl);
        assert!(tenure.holds(Time::from_millis(5999)));
        assert!(!tenure.holds(Time::from_millis(6000)));
    }
}
