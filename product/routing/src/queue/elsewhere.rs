//! What siblings hold, so that turns are fair over the gateways of a region.
//!
//! Each gateway orders its own queue. When capacity frees up, it leaves it to a sibling that holds a
//! request whose turn comes first: of a higher class, of a tenant that was served less, or an older one.
//! It does so for a moment only. If the oldest request of a line is not sent within that time, it may not
//! fit, or its gateway may be dead: the sibling then has no precedence for a while, whatever it reports.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use meridian_base::{Duration, Priority, SiblingId, SiblingLine, Time};

/// How long capacity is left to a sibling: it hears of it, and its answer comes back. A record takes
/// milliseconds within a region.
const LEFT: Duration = Duration::from_millis(50);
/// How long a sibling has no precedence after capacity was left to it in vain. So at most a twentieth of
/// the capacity is lost, whatever goes wrong.
const PASSED: Duration = Duration::from_secs(1);
/// Most lines of one sibling: a decision looks at all of them.
pub(super) const MOST_LINES: usize = 16;

/// The siblings' queues.
#[derive(Debug, Default)]
pub(super) struct Elsewhere(BTreeMap<SiblingId, SiblingQueue>);

#[derive(Debug, Default)]
struct SiblingQueue {
    lines: Vec<Line>,
    passed_until: Time,
}

#[derive(Debug)]
struct Line {
    told: SiblingLine,
    /// When its oldest request arrived.
    since: Time,
    /// Since when capacity is left to that request.
    left: Option<Time>,
}

impl Line {
    /// Whether its requests are those of `other`, and the same one is the oldest.
    fn continues(&self, other: &SiblingLine) -> bool {
        let key = |l: &SiblingLine| (l.priority, l.tenant, l.model, l.oldest);
        key(&self.told) == key(other)
    }
}

impl Elsewhere {
    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(|queue| queue.lines.is_empty())
    }

    /// Sets all that a sibling holds.
    pub(super) fn set(&mut self, now: Time, from: SiblingId, told: &[SiblingLine]) {
        let queue = self.0.entry(from).or_default();
        let line = |told: &SiblingLine| {
            let waited = Duration::try_from_secs_f32(told.waited_ms / 1e3).unwrap_or_default();
            let since = now.as_nanos().saturating_sub(waited.as_nanos() as u64);
            let before = queue.lines.iter().find(|line| line.continues(told));
            Line {
                told: *told,
                since: Time::from_nanos(since),
                left: before.and_then(|line| line.left),
            }
        };
        queue.lines = told.iter().take(MOST_LINES).map(line).collect();
    }

    /// The requests of a sibling, as far as it reported.
    pub(super) fn held(&self, sibling: SiblingId) -> u32 {
        let lines = self.0.get(&sibling).into_iter().flat_map(|queue| &queue.lines);
        lines.fold(0, |sum, line| sum.saturating_add(line.told.held))
    }

    pub(super) fn forget(&mut self, from: SiblingId) {
        self.0.remove(&from);
    }

    /// The tenants whose requests of a class siblings hold, in no order.
    pub(super) fn tenants(&self, priority: Priority) -> impl Iterator<Item = u64> + '_ {
        let lines = self.0.values().flat_map(|queue| &queue.lines).map(|line| line.told);
        lines.filter(move |line| line.priority == priority).map(|line| line.tenant)
    }

    /// Until when capacity is left to siblings' requests that go before, and how many they are.
    pub(super) fn left_until(
        &self,
        now: Time,
        goes_before: impl Fn(&SiblingLine, Time) -> bool,
    ) -> Option<(Time, u32)> {
        let queues = self.0.values().filter(|queue| queue.passed_until <= now);
        let lines = queues.flat_map(|queue| &queue.lines);
        let lines = lines.map(|line| (line.left.unwrap_or(now) + LEFT, line));
        let first = lines.filter(|(until, _)| *until > now);
        let first = first.filter(|(_, line)| goes_before(&line.told, line.since));
        first
            .map(|(until, line)| (until, line.told.held))
            .reduce(|(a, n), (b, more)| (a.max(b), n.saturating_add(more)))
    }

    /// Capacity is left to these requests from now on, if it was not yet.
    pub(super) fn leave(&mut self, now: Time, goes_before: impl Fn(&SiblingLine, Time) -> bool) {
        let queues = self.0.values_mut().filter(|queue| queue.passed_until <= now);
        let lines = queues.flat_map(|queue| &mut queue.lines);
        for line in lines.filter(|line| goes_before(&line.told, line.since)) {
            line.left.get_or_insert(now);
        }
    }

    /// Siblings to which capacity was left in vain have no precedence for a while.
    pub(super) fn pass(&mut self, now: Time) {
        let in_vain = |line: &Line| line.left.is_some_and(|left| left + LEFT <= now);
        for queue in self.0.values_mut().filter(|queue| queue.passed_until <= now) {
            if queue.lines.iter().any(in_vain) {
                queue.passed_until = now + PASSED;
                queue.lines.iter_mut().for_each(|line| line.left = None);
            }
        }
    }
}
