//! A run as the twin of a live one: imitates the drivers around a gateway's machine.
//!
//! The machines are the same on both sides, their drivers are not. Timers of a process fire on
//! whole ticks of its clock, not at the nanosecond; an engine handles each arrival separately,
//! makes every decode step, and reports its load in the header of every answer. None of this
//! changes an experiment's result, and all of it costs time, so a run does it only for a comparison
//! with a live one, decision by decision (`lab/perf/tests/parity`).
//!
//! It imitates the drivers, not the time of sockets, which is part of the network's RTT.

use meridian_base::{Duration, Time};
use meridian_routing::Digest;

/// The behaviour of a live run's drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Every event happens on a multiple of this, never early: 1 ms for tokio's timers.
    pub tick: Duration,
    /// The seed of all gateways' machines, which share one secret.
    pub gateway_seed: u64,
    /// Answers carry the engine's load in their headers (ORCA).
    pub headers: bool,
}

/// When a gateway's process publishes its digest. It checks after each change, at most once in
/// `on_change`, and publishes a digest that differs from the last, or any once `every` has passed.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    looked: Time,
    published: Time,
    /// The next scheduled check.
    due: Option<Time>,
    last: Digest,
}

impl Publisher {
    /// When to check a change of `now`.
    pub(crate) fn soon(&self, now: Time, gap: Duration) -> Time {
        now.max(self.looked + gap)
    }

    /// Schedules a check. False if one is due by then anyway.
    pub(crate) fn schedule(&mut self, at: Time) -> bool {
        let earlier = self.due.is_none_or(|due| at < due);
        if earlier {
            self.due = Some(at);
        }
        earlier
    }

    /// Starts a check. False for one that another has overtaken.
    pub(crate) fn starts(&mut self, now: Time) -> bool {
        if self.due.is_some_and(|due| due != now) {
            return false;
        }
        assert!(now >= self.looked, "checked at {now:?}, after {:?}", self.looked);
        (self.due, self.looked) = (None, now);
        true
    }

    /// Whether the digest of `now` is to be published; then it is the last one.
    pub(crate) fn publishes(&mut self, now: Time, every: Duration, digest: Digest) -> bool {
        let goes = now >= self.published + every || digest != self.last;
        if goes {
            (self.published, self.last) = (now, digest);
        }
        goes
    }

    /// When the next one is published without a change.
    pub(crate) fn next(&self, every: Duration) -> Time {
        self.published + every
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A digest goes out when it differs from the last one, or after some time.
    #[test]
    fn changes_are_published() {
        let mut publisher = Publisher::default();
        let (every, ms) = (Duration::from_millis(100), Time::from_millis);
        let other = || Digest { held: 1, ..Digest::default() };
        assert!(!publisher.publishes(ms(50), every, Digest::default()));
        assert!(publisher.publishes(ms(60), every, other()));
        assert!(!publisher.publishes(ms(70), every, other()));
        assert_eq!(publisher.next(every), ms(160));
        assert!(publisher.publishes(ms(160), every, other()));
    }

    // Of several checks, only the earliest one happens.
    #[test]
    fn checks_overtake_each_other() {
        let mut publisher = Publisher::default();
        let ms = Time::from_millis;
        assert!(publisher.schedule(ms(9)));
        assert!(!publisher.schedule(ms(9)));
        assert!(publisher.schedule(ms(5)));
        assert!(publisher.starts(ms(5)));
        assert!(publisher.schedule(ms(8)));
        assert!(!publisher.starts(ms(9)));
        assert_eq!(publisher.soon(ms(6), Duration::from_millis(3)), ms(8));
    }
}
