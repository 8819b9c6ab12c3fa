//! What this gateway holds and its siblings hold: both know the order of turns.
//!
//! A gateway reports the requests that wait since no replica has room for them, or since their model has
//! none. One that waits by choice, for a better replica, stands in no other's way.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use meridian_base::{Duration, Priority, SiblingId, SiblingLine, SiblingRequest, Time};

use super::WaitingQueue;
use super::elsewhere::MOST_LINES;
use crate::request::Request;

/// Shortest time between two reports of the queue.
const PACE: Duration = Duration::from_millis(2);

/// What siblings know of the queue.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Whether they know of requests that wait.
    waits: bool,
    has_changed: bool,
    /// When the next report may be made.
    next: Time,
    /// When a change is reported that came too early.
    pub(super) due: Option<Time>,
}

impl Shared {
    pub(super) fn changed(&mut self) {
        self.has_changed = true;
    }
}

/// What this gateway reports.
impl WaitingQueue {
    /// What they are to know, if it has changed and the last report is a while ago.
    pub(crate) fn share(&mut self, now: Time) -> Option<Vec<SiblingLine>> {
        let Shared { waits, has_changed, next, .. } = self.shared;
        if !has_changed || now < next {
            self.shared.due = has_changed.then_some(next);
            return None;
        }
        let lines = self.shared_lines(now);
        let next = now + PACE;
        self.shared = Shared { waits: !lines.is_empty(), has_changed: false, next, due: None };
        (waits || !lines.is_empty()).then_some(lines)
    }

    /// What they are to know.
    pub(crate) fn shared_lines(&self, now: Time) -> Vec<SiblingLine> {
        if self.is_empty() { Vec::new() } else { self.held.lines(now, MOST_LINES) }
    }

    /// Notes whether a held request waits by choice.
    pub(crate) fn note_choice(&mut self, request: &Request, by_choice: bool) {
        self.shared.changed();
        self.held.note_choice(request, by_choice);
    }
}

/// What siblings report.
impl WaitingQueue {
    /// Sets all that a sibling holds.
    pub(crate) fn set_elsewhere(&mut self, now: Time, from: SiblingId, lines: &[SiblingLine]) {
        self.elsewhere.set(now, from, lines);
        self.elsewhere_changed();
    }

    /// A sibling is gone.
    pub(crate) fn sibling_lost(&mut self, from: SiblingId) {
        self.elsewhere.forget(from);
        self.elsewhere_changed();
    }

    /// A sibling sent a request to a replica.
    pub(crate) fn served_elsewhere(&mut self, now: Time, sent: &SiblingRequest) {
        self.held.served_elsewhere(now, sent);
    }

    /// The requests that a sibling holds, as far as it reported.
    pub(crate) fn held_elsewhere(&self, sibling: SiblingId) -> u32 {
        self.elsewhere.held(sibling)
    }

    fn elsewhere_changed(&mut self) {
        for priority in Priority::ALL {
            let tenants: BTreeSet<u64> = self.elsewhere.tenants(priority).collect();
            self.held.set_elsewhere(priority, &tenants);
        }
        // What was left to them may not be needed any more.
        if self.left_until.take().is_some() {
            self.search.look_by(Time::ZERO);
        }
    }
}

/// Whose turn it is.
impl WaitingQueue {
    /// Until when capacity for a request is left to siblings whose turn comes first; `None` if it is not.
    /// They need none of it if there is more than enough: so many `rooms`.
    pub(crate) fn left_until(
        &self,
        now: Time,
        request: &Request,
        arrived: Time,
        rooms: impl Fn() -> usize,
    ) -> Option<Time> {
        if self.elsewhere.is_empty() {
            return None;
        }
        let goes_before =
            |l: &SiblingLine, since| self.held.goes_before((l, since), request, arrived);
        let (until, held) = self.elsewhere.left_until(now, goes_before)?;
        (rooms() <= held as usize).then_some(until)
    }

    /// Capacity for a request is left to siblings.
    pub(crate) fn leave(&mut self, now: Time, request: &Request, arrived: Time) {
        let Some(until) = self.left_until(now, request, arrived, || 0) else { return };
        let held = &self.held;
        self.elsewhere.leave(now, |l, since| held.goes_before((l, since), request, arrived));
        self.left_until = Some(self.left_until.map_or(until, |before| before.min(until)));
    }

    /// Whether capacity was left to siblings until now: the queue is then searched.
    pub(super) fn take_back(&mut self, now: Time) -> bool {
        let is_due = self.left_until.is_some_and(|until| until <= now);
        if is_due {
            self.left_until = None;
            self.elsewhere.pass(now);
            self.search.look_by(Time::ZERO);
        }
        is_due
    }
}
