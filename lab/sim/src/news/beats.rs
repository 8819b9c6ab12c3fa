//! Regular series of messages, of which each sender's has a phase of its own.

use meridian_base::{Duration, Time, mix};

/// A series: messages at the phase, one interval later, and so on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beats {
    phase: Duration,
    every: Duration,
}

impl Beats {
    /// The series of a sender. Those of several senders are spread over one interval.
    pub(crate) fn of(who: u64, every: Duration) -> Beats {
        assert!(!every.is_zero(), "messages of {who} without an interval");
        let phase = every * (mix(who, 0x5048_4153) >> 48) as u32 / (1 << 16);
        Beats { phase, every }
    }

    /// The time from one beat to the next.
    pub(crate) fn every(&self) -> Duration {
        self.every
    }

    /// The first beat that is not before `at`.
    pub(crate) fn from(&self, at: Time) -> Time {
        let (phase, every) = (self.phase.as_nanos() as u64, self.every.as_nanos() as u64);
        let beats = at.as_nanos().saturating_sub(phase).div_ceil(every);
        Time::from_nanos(phase + beats * every)
    }

    /// The last beat that is not after `at`, if there was one.
    pub(crate) fn until(&self, at: Time) -> Option<Time> {
        let (phase, every) = (self.phase.as_nanos() as u64, self.every.as_nanos() as u64);
        let beats = at.as_nanos().checked_sub(phase)? / every;
        Some(Time::from_nanos(phase + beats * every))
    }

    /// The beat after `last`; the first one of all if there was none.
    pub(crate) fn after(&self, last: Option<Time>) -> Time {
        last.map_or(Time::ZERO + self.phase, |last| last + self.every)
    }
}

/// A time that is earlier `by` this much, but not before the start.
pub(crate) fn back(at: Time, by: Duration) -> Time {
    Time::from_nanos(at.as_nanos().saturating_sub(by.as_nanos() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Beats are phase, phase + every, ...; none before the phase.
    #[test]
    fn beats() {
        let (phase, every) = (Duration::from_millis(30), Duration::from_millis(100));
        let beats = Beats { phase, every };
        let ms = Time::from_millis;
        assert_eq!(beats.until(ms(29)), None);
        assert_eq!(beats.until(ms(130)), Some(ms(130)));
        assert_eq!(beats.until(ms(229)), Some(ms(130)));
        assert_eq!(beats.from(ms(0)), ms(30));
        assert_eq!(beats.from(ms(131)), ms(230));
        assert_eq!(beats.from(ms(130)), ms(130));
        assert_eq!([None, Some(ms(130))].map(|last| beats.after(last)), [ms(30), ms(230)]);
    }

    // Senders have different phases within an interval.
    #[test]
    fn phases_are_spread() {
        let every = Duration::from_millis(100);
        let [one, two] = [1, 2].map(|who| Beats::of(who, every));
        assert_ne!(one.phase, two.phase);
        assert!(one.phase < every && two.phase < every);
    }
}
