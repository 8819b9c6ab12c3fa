//! What siblings hold, so that turns are fair over the gateways of a region.
//!
//! Each gateway orders its own queue. When capacity frees up, it leaves it to a sibling that holds a
//! request whose turn comes first: of a higher class, of a tenant that was served less, or an older one.
//! It does so for a moment only. A sibling that sends nothing within that time is taken for one whose
//! requests do not fit, and has no precedence until it sends again.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use meridian_base::{Duration, Priority, SiblingId, SiblingLine, Time};

/// How long capacity is left to a sibling: it hears of it, and its answer comes back. A record takes
/// milliseconds within a region.
const LEFT: Duration = Duration::from_millis(50);
/// Most lines of one sibling.
pub(super) const MOST_LINES: usize = 64;

/// The siblings' queues.
#[derive(Debug, Default)]
pub(super) struct Elsewhere(BTreeMap<SiblingId, SiblingQueue>);

#[derive(Debug)]
struct SiblingQueue {
    /// With the arrival of the oldest request.
    lines: Vec<(SiblingLine, Time)>,
    /// Since when capacity is left to it; `None` if it was not since it last sent a request.
    left: Option<Time>,
}

impl Elsewhere {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets all that a sibling holds.
    pub(super) fn set(&mut self, now: Time, from: SiblingId, lines: &[SiblingLine]) {
        let since = |line: &SiblingLine| {
            let waited = Duration::try_from_secs_f32(line.waited_ms / 1e3).unwrap_or_default();
            Time::from_nanos(now.as_nanos().saturating_sub(waited.as_nanos() as u64))
        };
        let lines: Vec<_> = lines.iter().take(MOST_LINES).map(|l| (*l, since(l))).collect();
        match (self.0.get_mut(&from), lines.is_empty()) {
            (_, true) => self.forget(from),
            (Some(queue), false) => queue.lines = lines,
            (None, false) => {
                self.0.insert(from, SiblingQueue { lines, left: None });
            }
        }
    }

    pub(super) fn held(&self, sibling: SiblingId) -> u32 {
        let lines = self.0.get(&sibling).into_iter().flat_map(|queue| &queue.lines);
        lines.fold(0, |sum, (line, _)| sum.saturating_add(line.held))
    }

    pub(super) fn forget(&mut self, from: SiblingId) {
        self.0.remove(&from);
    }

    /// A sibling sent a request: what is left to it, it uses.
    pub(super) fn sent(&mut self, from: SiblingId) {
        if let Some(queue) = self.0.get_mut(&from) {
            queue.left = None;
        }
    }

    /// The tenants whose requests of a class siblings hold, in no order.
    pub(super) fn tenants(&self, priority: Priority) -> impl Iterator<Item = u64> + '_ {
        let lines = self.0.values().flat_map(|queue| &queue.lines);
        lines.filter(move |(line, _)| line.priority == priority).map(|(line, _)| line.tenant)
    }

    /// Until when capacity is left to siblings that hold a request that `goes_before`.
    pub(super) fn left_until(
        &self,
        now: Time,
        goes_before: impl Fn(&SiblingLine, Time) -> bool,
    ) -> Option<Time> {
        let first = self.0.values().filter(|queue| queue.has(&goes_before));
        let until = first.map(|queue| queue.left.unwrap_or(now) + LEFT);
        until.filter(|until| *until > now).max()
    }

    /// Capacity is left to these siblings from now on, if it was not yet.
    pub(super) fn leave(&mut self, now: Time, goes_before: impl Fn(&SiblingLine, Time) -> bool) {
        for queue in self.0.values_mut().filter(|queue| queue.has(&goes_before)) {
            queue.left.get_or_insert(now);
        }
    }
}

impl SiblingQueue {
    fn has(&self, goes_before: impl Fn(&SiblingLine, Time) -> bool) -> bool {
        self.lines.iter().any(|(line, since)| goes_before(line, *since))
    }
}
