//! Engines that are full: they refuse requests, or ask for none.

use meridian_base::{Duration, Time};

use super::Replica;

/// Wait after the second refusal of an idle engine, and the longest wait after more of them.
const FULL_AGAIN: Duration = Duration::from_millis(200);
const FULL_AGAIN_MOST: Duration = Duration::from_secs(5);
/// The longest pause that an engine may ask for.
pub const MOST_PAUSE: Duration = Duration::from_secs(30);

impl Replica {
    /// Records that the engine refused a request as full. A full engine gets the next request after
    /// its next report. An idle engine refuses for another reason: each such refusal in a row
    /// doubles the wait.
    pub(crate) fn refused(&mut self, now: Time) {
        self.said_full = true;
        self.totals.full += 1;
        let reported = self.load.pending.unwrap_or(0) + self.load.running.unwrap_or(0);
        if reported > 0 {
            self.idle_refusals = 0;
        } else if self.outstanding == 0 {
            self.idle_refusals = self.idle_refusals.saturating_add(1);
        }
        if let Some(doublings) = self.idle_refusals.checked_sub(2) {
            let wait = FULL_AGAIN * (1 << doublings.min(16));
            self.full_until = self.full_until.max(now + wait.min(FULL_AGAIN_MOST));
        }
    }

    /// Records that the engine asks for no requests for so long.
    pub(crate) fn pauses(&mut self, now: Time, pause: Duration) {
        self.said_full = true;
        self.full_until = self.full_until.max(now + pause.min(MOST_PAUSE));
        self.paused_until = self.full_until;
    }

    /// How long the engine still asks for no requests.
    pub(crate) fn pause(&self, now: Time) -> Option<Duration> {
        (now < self.paused_until).then(|| self.paused_until.since(now))
    }
}
