//! The counts by which a request's rank is chosen: pending and running, as vLLM's coordinator
//! publishes them.
//!
//! Ranks report to the coordinator when a step has changed their counts. It publishes every 100 ms
//! at most, and never a step that only some ranks have reported: when the first counts of a step
//! arrive it publishes those of the step before, and if it has none of these it waits until no
//! report has arrived for 50 ms. The counts are therefore one or two steps old. Without any change
//! it publishes them again every 5 s (`DPCoordinatorProc` of vLLM 0.19).

use alloc::vec::Vec;
use meridian_base::{Duration, Time};

/// Pending and running of a rank.
pub(super) type CountsLoad = [u32; 2];

/// Minimum time between two publications.
const PUBLISHED_EVERY: Duration = Duration::from_millis(100);
/// Interval without a change.
const REPEATED_EVERY: Duration = Duration::from_secs(5);
/// Without a finished step to publish, wait until no report has arrived for this long.
const SETTLED: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// The published counts, as the chooser sees them.
    shown: Vec<CountsLoad>,
    /// The ranks' last reports.
    reported: Vec<CountsLoad>,
    /// Their reports of the step before, until published.
    before: Option<Vec<CountsLoad>>,
    /// Whether anything has changed since the last publication.
    changed: bool,
    published: Time,
    /// When the coordinator last acted.
    since: Time,
}

impl Counts {
    pub(super) fn new(ranks: usize) -> Counts {
        let none: Vec<CountsLoad> = alloc::vec![[0, 0]; ranks];
        Counts {
            shown: none.clone(),
            reported: none,
            before: None,
            changed: false,
            published: Time::ZERO,
            since: Time::ZERO,
        }
    }

    /// The chooser's counts at `now`. Its own additions are lost when counts are published.
    pub(super) fn shown(&mut self, now: Time) -> &mut [CountsLoad] {
        self.publish(now);
        &mut self.shown
    }

    /// Records the end of a step with each rank's counts.
    pub(super) fn tell(&mut self, now: Time, loads: impl Iterator<Item = CountsLoad>) {
        let loads: Vec<CountsLoad> = loads.collect();
        if loads == self.reported {
            return;
        }
        self.publish(now);
        let before = core::mem::replace(&mut self.reported, loads);
        if self.changed {
            self.before = Some(before);
        }
        (self.changed, self.since) = (true, now);
    }

    /// Publishes the counts that are due by `now`.
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
                    self.shown.clone_from(&self.reported);
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

    // While steps follow each other, every 100 ms the step before the last reported one is
    // published.
    #[test]
    fn a_step_is_published_once_the_next_one_is_reported() {
        let mut counts = Counts::new(1);
        let mut known = Vec::new();
        for step in 1..=9 {
            counts.tell(ms(1_000 + 40 * u64::from(step)), [[0, step]].into_iter());
            known.push(counts.shown(ms(1_039 + 40 * u64::from(step)))[0][1]);
        }
        assert_eq!(known, [0, 1, 1, 3, 3, 3, 5, 5, 8]);
    }

    // A single report is published when no other has arrived for 50 ms, and 100 ms after the last.
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

    // The chooser's own counts stay until the next publication, which is at the latest a
    // repetition.
    #[test]
    fn own_counts_are_lost_with_the_next_publication() {
        let mut counts = Counts::new(1);
        counts.tell(ms(0), [[0, 1]].into_iter());
        counts.shown(ms(1_000))[0][0] += 1;
        assert_eq!(counts.shown(ms(5_099)), [[1, 1]]);
        assert_eq!(counts.shown(ms(5_100)), [[0, 1]]);
    }
}
