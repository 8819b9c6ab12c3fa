//! How long an owner may consider itself the owner.
//!
//! A lease has two ends. The store ends it one duration after the last keep-alive reached it. The
//! owner doesn't know when that was, only when it sent the keep-alive. So it counts from there: its
//! own end always comes first, however long the answer took, and while both clocks run equally fast
//! there are never two owners. An owner checks [`Tenure::holds`] before it acts, not only when it
//! is notified: a process that was stopped for a minute gets no notification.
//!
//! An owner whose clock is slow by a share of `d` overlaps with the next one for at most `d / (1 -
//! d)` of the duration: a ninth for a clock that is wrong by a tenth.

use meridian_base::{Duration, Time};

/// The owner's view of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    ttl: Duration,
    until: Time,
}

impl Tenure {
    /// A granted lease of `ttl`, requested at `asked` on the owner's clock.
    #[must_use]
    pub fn new(asked: Time, ttl: Duration) -> Tenure {
        Tenure { ttl, until: asked + ttl }
    }

    /// A keep-alive that was sent at `asked` has been acknowledged.
    pub fn kept(&mut self, asked: Time, ttl: Duration) {
        self.ttl = ttl;
        self.until = self.until.max(asked + ttl);
    }

    /// Whether the owner is certain to be the owner.
    #[must_use]
    pub fn holds(&self, now: Time) -> bool {
        now < self.until
    }

    /// When to send the next keep-alive: two thirds of the time are left, in case it is lost and
    /// has to be sent again.
    #[must_use]
    pub fn renew_at(&self) -> Time {
        self.until - self.ttl * 2 / 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The tenure counts from when the owner sent its request. A late answer adds nothing, and an
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
