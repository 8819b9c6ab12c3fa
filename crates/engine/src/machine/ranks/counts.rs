//! What the chooser knows of each rank: pending and running, as vLLM's coordinator tells.
//!
//! Ranks tell the coordinator when their counts have changed by a step. It publishes every 100 ms at
//! most, and never a step that only some ranks have told of: with the first counts of a step it keeps
//! those of the one before to publish, and where it has none of these it waits until it has heard
//! nothing for 50 ms. So what is known is a step old, or two. Without any change it repeats itself every
//! 5 s (`DPCoordinatorProc` of vLLM 0.19).

use alloc::vec::Vec;
use meridian_base::{Duration, Time};

/// Pending and running of a rank.
pub(super) type Load = [u32; 2];

/// Least time between two publications.
const PUBLISHED_EVERY: Duration = Duration::from_millis(100);
/// Without a change.
const REPEATED_EVERY: Duration = Duration::from_secs(5);
/// Without a finished step to publish, nothing is heard for so long first.
const SETTLED: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// What the chooser knows.
    shown: Vec<Load>,
    /// What the ranks told last.
    told: Vec<Load>,
    /// What they had told of the step before, while it is to be published.
    before: Option<Vec<Load>>,
    /// Whether something changed since what was published.
    changed: bool,
    published: Time,
    /// When the coordinator last did anything.
    since: Time,
}

impl Counts {
    pub(super) fn new(ranks: usize) -> Counts {
        let none: Vec<Load> = alloc::vec![[0, 0]; ranks];
        Counts {
            shown: none.clone(),
            told: none,
            before: None,
            changed: false,
            published: Time::ZERO,
            since: Time::ZERO,
        }
    }

    /// What the chooser knows at `now`. What it adds is lost when counts are published.
    pub(super) fn shown(&mut self, now: Time) -> &mut [Load] {
        self.publish(now);
        &mut self.shown
    }

    /// A step has ended, and this is what each rank has.
    pub(super) fn tell(&mut self, now: Time, loads: impl Iterator<Item = Load>) {
        let loads: Vec<Load> = loads.collect();
        if loads == self.told {
            return;
        }
        self.publish(now);
        let before = core::mem::replace(&mut self.told, loads);
        if self.changed {
            self.before = Some(before);
        }
        (self.changed, self.since) = (true, now);
    }

    /// Publishes what is due by `now`.
    fn publish(&mut self, now: Time) {
        loop {
            let settled = if self.before.is_some() { Duration::ZERO } else { SETTLED };
            let every = if self.changed { PUBLISHED_EVERY } else { REPEATED_EVERY };
            let due = (self.since + settled).max(self.published + every);
            if due > now {
                return;
            }
            match self.before.take() {
                Some(before) => self.shown = before,
                None => {
                    self.shown.clone_from(&self.told);
                    self.changed = false;
                }
            }
            (self.published, self.since) = (due, due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    // While steps follow each other, every 100 ms the one before the step that was told last is
    // published.
    #[test]
    fn a_step_is_published_once_the_next_one_is_told() {
        let mut counts = Counts::new(1);
        let mut known = Vec::new();
        for step in 1..=9 {
            counts.tell(ms(1_000 + 40 * u64::from(step)), [[0, step]].into_iter());
            known.push(counts.shown(ms(1_039 + 40 * u64::from(step)))[0][1]);
        }
        assert_eq!(known, [0, 1, 1, 3, 3, 3, 5, 5, 8]);
    }

    // What was told alone is published when nothing else came for 50 ms, and 100 ms after the last.
    #[test]
    fn one_change_is_published_when_it_has_settled() {
        let mut counts = Counts::new(2);
        counts.tell(ms(1_000), [[1, 2], [3, 4]].into_iter());
        assert_eq!(counts.shown(ms(1_049)), [[0, 0], [0, 0]]);
        assert_eq!(counts.shown(ms(1_050)), [[1, 2], [3, 4]]);
        counts.tell(ms(1_060), [[0, 3], [3, 4]].into_iter());
        assert_eq!(counts.shown(ms(1_149)), [[1, 2], [3, 4]]);
        assert_eq!(counts.shown(ms(1_150)), [[0, 3], [3, 4]]);
    }

    // What the chooser counts itself stands until something is published, a repetition at the latest.
    #[test]
    fn own_counts_are_lost_with_the_next_publication() {
        let mut counts = Counts::new(1);
        counts.tell(ms(0), [[0, 1]].into_iter());
        counts.shown(ms(1_000))[0][0] += 1;
        assert_eq!(counts.shown(ms(5_099)), [[1, 1]]);
        assert_eq!(counts.shown(ms(5_100)), [[0, 1]]);
    }
}
