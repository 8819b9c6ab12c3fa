//! The held queue: requests that no replica has room for yet.
//!
//! First come, first served within a tenant. Between tenants, the one that was served the fewest
//! tokens goes next (a deficit, so that a tenant with long prompts does not take more than its
//! share); a tenant that was away starts level with the least served one present, so that absence
//! earns no credit. Requests with a deadline go before those without, the least laxity first.
//! Everything is bounded: the whole queue, a tenant's share of it, and the time held.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use meridian_base::{Duration, RequestId, Time};

use crate::why::RejectWhy;

/// Bounds of the held queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldConfig {
    /// Most requests held.
    pub max: u32,
    /// Most requests held for one tenant.
    pub max_per_tenant: u32,
    /// Longest time a request is held; then it is rejected.
    pub max_wait: Duration,
    /// How many from the front are looked at when room appears.
    pub look_ahead: u32,
    /// After this long the oldest of the tenant that was served least goes before better fits.
    /// Half of `max_wait` at most, as is the next.
    pub patience: Duration,
    /// After this long who fits nowhere is promised the next room of a full replica.
    pub promise: Duration,
}

impl Default for HeldConfig {
    fn default() -> Self {
        HeldConfig {
            max: 1024,
            max_per_tenant: 1024,
            max_wait: Duration::from_secs(10),
            look_ahead: 64,
            patience: Duration::from_secs(60),
            promise: Duration::from_secs(60),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: RequestId,
    since: Time,
    deadline: Option<Time>,
    tokens: u32,
}

#[derive(Debug, Default)]
struct Tenant {
    queue: VecDeque<Entry>,
    served: u64,
}

#[derive(Debug)]
pub(crate) struct Held {
    config: HeldConfig,
    tenants: BTreeMap<u64, Tenant>,
    /// All of them, the oldest first: who is next to be refused or promised room is asked at every
    /// event, and there may be a thousand tenants.
    ages: BTreeSet<(Time, RequestId)>,
}

impl Held {
    pub(crate) fn new(config: HeldConfig) -> Held {
        // Later they would help nobody who is not refused before.
        let most = config.max_wait / 2;
        let (patience, promise) = (config.patience.min(most), config.promise.min(most));
        let config = HeldConfig { patience, promise, ..config };
        Held { config, tenants: BTreeMap::new(), ages: BTreeSet::new() }
    }

    pub(crate) fn len(&self) -> u32 {
        self.ages.len() as u32
    }

    /// Until when a request that arrived then may be held though it could go: for the first half of
    /// the time until it is refused or too late.
    pub(crate) fn may_wait_until(&self, arrived: Time, deadline: Option<Time>) -> Time {
        let expires = arrived + self.config.max_wait;
        let ends = deadline.map_or(expires, |deadline| deadline.min(expires));
        arrived + ends.since(arrived) / 2
    }

    /// When the next of all held ones may not be held for better any more.
    pub(crate) fn next_may_not_wait(&self, now: Time) -> Option<Time> {
        let all = self.tenants.values().flat_map(|t| t.queue.iter());
        let until = all.map(|e| self.may_wait_until(e.since, e.deadline));
        until.filter(|until| *until > now).min()
    }

    /// Takes a request in at the back of its tenant's line.
    pub(crate) fn push(
        &mut self,
        id: RequestId,
        tenant: u64,
        since: Time,
        deadline: Option<Time>,
        tokens: u32,
    ) -> Result<(), RejectWhy> {
        if self.len() >= self.config.max {
            return Err(RejectWhy::HeldFull { limit: self.config.max });
        }
        let level = self.tenants.values().map(|t| t.served).min().unwrap_or(0);
        let line = self.tenants.entry(tenant).or_default();
        if line.queue.len() >= self.config.max_per_tenant as usize {
            return Err(RejectWhy::TenantHeldFull { limit: self.config.max_per_tenant });
        }
        if line.queue.is_empty() {
            line.served = line.served.max(level);
        }
        line.queue.push_back(Entry { id, since, deadline, tokens });
        self.ages.insert((since, id));
        Ok(())
    }

    /// Takes a request out to be served: its tokens count against its tenant.
    pub(crate) fn release(&mut self, id: RequestId, tenant: u64) {
        if let Some(entry) = self.take(id, tenant, false) {
            debug_assert_eq!(entry.id, id);
        }
    }

    /// Takes a request out that will not be served.
    pub(crate) fn remove(&mut self, id: RequestId, tenant: u64) -> bool {
        self.take(id, tenant, true).is_some()
    }

    fn take(&mut self, id: RequestId, tenant: u64, unserved: bool) -> Option<Entry> {
        let line = self.tenants.get_mut(&tenant)?;
        let at = line.queue.iter().position(|e| e.id == id)?;
        let entry = line.queue.remove(at)?;
        if !unserved {
            line.served += u64::from(entry.tokens.max(1));
        }
        if line.queue.is_empty() {
            self.tenants.remove(&tenant);
        }
        self.ages.remove(&(entry.since, id));
        Some(entry)
    }

    /// The first requests in serving order, at most `look_ahead`, written to `out`.
    pub(crate) fn front(&self, now: Time, out: &mut Vec<RequestId>) {
        out.clear();
        if let Some(old) = self.impatient(now) {
            out.push(old);
        }
        let first = out.first().copied();
        let limit = self.config.look_ahead as usize;
        let mut urgent: Vec<(Time, RequestId)> = self.with_deadline().collect();
        urgent.sort_unstable();
        out.extend(
            urgent.into_iter().map(|(_, id)| id).filter(|id| Some(*id) != first).take(limit),
        );
        self.fair_order(limit.saturating_sub(out.len()), |id| {
            if Some(id) != first {
                out.push(id);
            }
        });
    }

    /// Of those that waited longer than patience allows, the oldest of the tenant that was served
    /// least: patience goes before better fits, and not before fairness.
    pub(crate) fn impatient(&self, now: Time) -> Option<RequestId> {
        let waited = |e: &Entry| now.since(e.since) >= self.config.patience;
        let heads = self.tenants.values().filter_map(|t| Some((t.served, t.queue.front()?)));
        let late = heads.filter(|(_, e)| waited(e));
        late.min_by_key(|(served, e)| (*served, e.since, e.id)).map(|(_, e)| e.id)
    }

    /// When the oldest will have waited for long enough to be promised room.
    pub(crate) fn promise_due(&self) -> Option<Time> {
        self.ages.first().map(|(since, _)| *since + self.config.promise)
    }

    /// Whether who came at `since` has waited for long enough to be promised room.
    pub(crate) fn is_due(&self, now: Time, since: Time) -> bool {
        now.since(since) >= self.config.promise
    }

    fn with_deadline(&self) -> impl Iterator<Item = (Time, RequestId)> + '_ {
        let all = self.tenants.values().flat_map(|t| t.queue.iter());
        all.filter_map(|e| e.deadline.map(|d| (d, e.id)))
    }

    /// Walks the requests without deadline as the deficits would serve them.
    fn fair_order(&self, limit: usize, mut visit: impl FnMut(RequestId)) {
        let mut heads: Vec<(u64, usize, &Tenant)> =
            self.tenants.values().map(|t| (t.served, 0, t)).collect();
        for _ in 0..limit {
            let next = heads
                .iter_mut()
                .filter_map(|h| next_without_deadline(h.2, h.1).map(|at| (h, at)))
                .min_by_key(|(h, _)| h.0);
            let Some((head, at)) = next else { return };
            let entry = &head.2.queue[at];
            head.0 += u64::from(entry.tokens.max(1));
            head.1 = at + 1;
            visit(entry.id);
        }
    }

    /// When the oldest request will have been held for as long as allowed.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.ages.first().map(|(since, _)| *since + self.config.max_wait)
    }

    /// A request held for longer than allowed, if any.
    pub(crate) fn expired(&self, now: Time) -> Option<RequestId> {
        let (since, id) = *self.ages.first()?;
        (now >= since + self.config.max_wait).then_some(id)
    }
}

fn next_without_deadline(tenant: &Tenant, from: usize) -> Option<usize> {
    (from..tenant.queue.len()).find(|at| tenant.queue[*at].deadline.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn order(held: &Held, now: Time) -> Vec<u64> {
        let mut out = Vec::new();
        held.front(now, &mut out);
        out.into_iter().map(|id| id.0).collect()
    }

    fn held() -> Held {
        Held::new(HeldConfig::default())
    }

    // One tenant: first come, first served.
    #[test]
    fn fifo_within_a_tenant() {
        let mut h = held();
        for id in 0..3 {
            h.push(RequestId(id), 1, Time::from_millis(id), None, 100).expect("room");
        }
        assert_eq!(order(&h, Time::from_millis(5)), vec![0, 1, 2]);
        assert!(h.remove(RequestId(1), 1));
        assert!(!h.remove(RequestId(1), 1), "gone is gone");
        assert_eq!(order(&h, Time::from_millis(5)), vec![0, 2]);
    }

    // Tenant 1 asks for long prompts, tenant 2 for short ones: by tokens, tenant 2 gets several
    // turns for each of tenant 1's.
    #[test]
    fn tenants_share_by_tokens() {
        let mut h = held();
        for id in 0..3 {
            h.push(RequestId(id), 1, Time::ZERO, None, 300).expect("room");
            h.push(RequestId(10 + id), 2, Time::ZERO, None, 100).expect("room");
        }
        assert_eq!(order(&h, Time::ZERO), vec![0, 10, 11, 12, 1, 2]);
    }

    // Deadlines go first, the tightest first; but whoever waited past patience precedes all.
    #[test]
    fn deadlines_then_fairness_and_nobody_starves() {
        let mut h = held();
        h.push(RequestId(0), 1, Time::ZERO, None, 1).expect("room");
        h.push(RequestId(1), 1, Time::from_millis(1), Some(Time::from_millis(900)), 1)
            .expect("room");
        h.push(RequestId(2), 1, Time::from_millis(2), Some(Time::from_millis(500)), 1)
            .expect("room");
        assert_eq!(order(&h, Time::from_millis(3)), vec![2, 1, 0]);
        assert_eq!(order(&h, Time::from_millis(5000)), vec![0, 2, 1]);
    }

    // The bounds name themselves, and expiry is the oldest's.
    #[test]
    fn bounds_and_expiry() {
        let mut h = Held::new(HeldConfig { max: 2, max_per_tenant: 1, ..HeldConfig::default() });
        h.push(RequestId(0), 1, Time::ZERO, None, 1).expect("room");
        let full = h.push(RequestId(1), 1, Time::ZERO, None, 1);
        assert_eq!(full, Err(RejectWhy::TenantHeldFull { limit: 1 }));
        h.push(RequestId(2), 2, Time::from_millis(7), None, 1).expect("room");
        assert_eq!(
            h.push(RequestId(3), 3, Time::ZERO, None, 1),
            Err(RejectWhy::HeldFull { limit: 2 })
        );
        assert_eq!(h.next_expiry(), Some(Time::from_millis(10_000)));
        assert_eq!(h.expired(Time::from_millis(9_999)), None);
        assert_eq!(h.expired(Time::from_millis(10_000)), Some(RequestId(0)));
    }

    // Room is promised, and patience ends, while there is still time to be served.
    #[test]
    fn nobody_is_refused_for_waiting_for_better() {
        let max_wait = Duration::from_secs(4);
        let mut h = Held::new(HeldConfig { max_wait, ..HeldConfig::default() });
        h.push(RequestId(1), 1, Time::ZERO, None, 100).expect("room");
        let (before, half) = (Time::from_millis(1_999), Time::from_millis(2_000));
        assert_eq!((h.impatient(before), h.impatient(half)), (None, Some(RequestId(1))));
        assert_eq!(h.promise_due(), Some(half));
        assert_eq!(h.may_wait_until(Time::ZERO, None), half);
        let (deadline, soon) = (Some(Time::from_millis(1_000)), Time::from_millis(500));
        assert_eq!(h.may_wait_until(Time::ZERO, deadline), soon);
        h.push(RequestId(2), 1, Time::ZERO, deadline, 100).expect("room");
        assert_eq!(h.next_may_not_wait(Time::ZERO), Some(soon));
        assert_eq!(h.next_may_not_wait(soon), Some(half));
        assert_eq!(h.next_may_not_wait(half), None);
    }
}
