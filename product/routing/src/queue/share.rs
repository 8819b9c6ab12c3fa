//! What this gateway holds and its siblings hold: both know the order of turns.
//!
//! Siblings are told of requests that wait since no replica has capacity. One that waits by choice, for a
//! better replica, stands in nobody's way.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use meridian_base::{Priority, SiblingId, SiblingLine, SiblingRequest, Time};

use super::WaitingQueue;
use super::elsewhere::MOST_LINES;
use crate::request::Request;

/// What siblings know of the queue.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Whether they know of requests that wait.
    waits: bool,
    has_changed: bool,
}

impl Shared {
    pub(super) fn changed(&mut self) {
        self.has_changed = true;
    }
}

/// What siblings are told.
impl WaitingQueue {
    /// What they are to know, if it has changed. Requests wait for
    /// capacity while no replica `is_open`, or while it is left to siblings.
    pub(crate) fn to_share(
        &mut self,
        now: Time,
        is_open: impl Fn() -> bool,
    ) -> Option<Vec<SiblingLine>> {
        let waits = self.waiting() > 0 && (self.left_until.is_some() || !is_open());
        if waits == self.shared.waits && !(waits && self.shared.has_changed) {
            return None;
        }
        self.shared = Shared { waits, has_changed: false };
        Some(self.shared_lines(now))
    }

    /// What they know.
    pub(crate) fn shared_lines(&self, now: Time) -> Vec<SiblingLine> {
        if self.shared.waits { self.held.lines(now, MOST_LINES) } else { Vec::new() }
    }
}

/// What siblings tell.
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
    pub(crate) fn served_elsewhere(&mut self, now: Time, from: SiblingId, sent: &SiblingRequest) {
        self.elsewhere.sent(from);
        self.held.served_elsewhere(now, sent);
    }

    /// A sibling's request was answered.
    pub(crate) fn answered_elsewhere(&mut self, now: Time, sent: &SiblingRequest) {
        self.held.answered_elsewhere(now, sent);
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
    pub(crate) fn left_until(&self, now: Time, request: &Request, arrived: Time) -> Option<Time> {
        if self.elsewhere.is_empty() {
            return None;
        }
        self.elsewhere
            .left_until(now, |l, since| self.held.goes_before((l, since), request, arrived))
    }

    /// Capacity for a request is left to siblings.
    pub(crate) fn leave(&mut self, now: Time, request: &Request, arrived: Time) {
        let Some(until) = self.left_until(now, request, arrived) else { return };
        let held = &self.held;
        self.elsewhere.leave(now, |l, since| held.goes_before((l, since), request, arrived));
        self.left_until = Some(self.left_until.map_or(until, |before| before.min(until)));
    }

    /// Whether capacity was left to siblings until now: the queue is then searched.
    pub(super) fn take_back(&mut self, now: Time) -> bool {
        let is_due = self.left_until.is_some_and(|until| until <= now);
        if is_due {
            self.left_until = None;
            self.search.look_by(Time::ZERO);
        }
        is_due
    }
}
