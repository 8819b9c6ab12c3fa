//! One priority class of the held queue.
//!
//! Between tenants, the one that was served
//! the fewest tokens goes next (a deficit, so that long prompts do not take more than their share).
//! A returning tenant starts level with the least-served tenant present, so absence earns no
//! credit. `turns.rs` orders the requests of one tenant. Requests with a deadline go before those
//! without, least laxity first.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use meridian_base::{Duration, ModelId, RequestId, Time};

use super::HeldConfig;
use super::sessions::Sessions;
use super::turns::{InTurn, Turns};
use super::waited::{Ends, Waited};
use crate::request::Request;

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) id: RequestId,
    pub(super) since: Time,
    /// From when its usual time counts.
    pub(super) from: Time,
    ends: Ends,
    pub(super) deadline: Option<Time>,
    pub(super) session: Option<u64>,
    pub(super) model: ModelId,
    /// Whether it would fit, and waits for a better replica.
    pub(super) by_choice: bool,
    tokens: u32,
}

impl Entry {
    /// What it counts when it is served, at least 1.
    pub(super) fn tokens(&self) -> u64 {
        u64::from(self.tokens.max(1))
    }
}

#[derive(Debug, Default)]
struct Tenant {
    queue: VecDeque<Entry>,
    served: u64,
    /// Whether siblings hold requests of it.
    is_elsewhere: bool,
}

#[derive(Debug, Default)]
pub(super) struct Class {
    tenants: BTreeMap<u64, Tenant>,
    /// All of them with their tenants, oldest first. The next request to refuse or to promise
    /// capacity is looked up at every event, and there may be a thousand tenants.
    ages: BTreeMap<(Time, RequestId), u64>,
    /// Those with the usual time, by its begin, and the others by its end.
    usual: BTreeSet<(Time, RequestId)>,
    until: BTreeSet<(Time, RequestId)>,
}

impl Class {
    pub(super) fn len(&self) -> u32 {
        self.ages.len() as u32
    }

    /// Number of held requests of a tenant.
    pub(super) fn of_tenant(&self, tenant: u64) -> usize {
        self.tenants.get(&tenant).map_or(0, |line| line.queue.len())
    }

    /// Whether a request is here.
    pub(super) fn holds(&self, request: &Request) -> bool {
        let line = self.tenants.get(&request.tenant);
        line.is_some_and(|line| line.queue.iter().any(|entry| entry.id == request.id))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.tenants.values().flat_map(|t| t.queue.iter())
    }

    pub(super) fn by_tenant(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.tenants.iter().flat_map(|(tenant, line)| line.queue.iter().map(|e| (*tenant, e)))
    }

    pub(super) fn by_age(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.ages.keys().map(|(_, id)| *id)
    }

    /// The begin of the usual time that began first.
    pub(super) fn first_usual(&self) -> Option<Time> {
        self.usual.first().map(|(from, _)| *from)
    }

    /// The first request to refuse, and when.
    pub(super) fn first_end(&self, max_wait: Duration) -> Option<(Time, RequestId)> {
        let usual = self.usual.first().map(|(from, id)| (*from + max_wait, *id));
        usual.into_iter().chain(self.until.first().copied()).min()
    }

    pub(super) fn push(&mut self, request: &Request, waited: Waited, ends: Ends) {
        let level = self.level();
        let line = self.tenants.entry(request.tenant).or_default();
        if line.queue.is_empty() {
            line.served = line.served.max(level);
        }
        let Request { id, deadline, session, model, prompt_tokens: tokens, .. } = *request;
        let (by_choice, Waited { since, from }) = (false, waited);
        let entry = Entry { id, since, from, ends, deadline, session, model, by_choice, tokens };
        line.queue.push_back(entry);
        let before = self.ages.insert((since, id), request.tenant);
        assert!(before.is_none(), "{id} is held once");
        match ends {
            Ends::After(from) => self.usual.insert((from, id)),
            Ends::At(until) => self.until.insert((until, id)),
        };
    }

    /// Removes a request; if it is `served`, its tokens count against its tenant.
    pub(super) fn take(&mut self, id: RequestId, tenant: u64, served: bool) -> bool {
        let Some(line) = self.tenants.get_mut(&tenant) else { return false };
        let Some(at) = line.queue.iter().position(|e| e.id == id) else { return false };
        let Some(entry) = line.queue.remove(at) else { return false };
        if served {
            line.served += entry.tokens();
        }
        if line.queue.is_empty() && !line.is_elsewhere {
            self.tenants.remove(&tenant);
        }
        let age = self.ages.remove(&(entry.since, id));
        assert_eq!(age, Some(tenant), "{id} leaves its line and the ages together");
        let ended = match entry.ends {
            Ends::After(from) => self.usual.remove(&(from, id)),
            Ends::At(until) => self.until.remove(&(until, id)),
        };
        assert!(ended, "{id} leaves its line and the ends together");
        true
    }

    /// Removes the newest request, or the last one in a tenant's line.
    pub(super) fn take_newest(&mut self, tenant: Option<u64>) -> Option<RequestId> {
        let (id, tenant) = match tenant {
            Some(tenant) => (self.tenants.get(&tenant)?.queue.back()?.id, tenant),
            None => self.ages.last_key_value().map(|((_, id), tenant)| (*id, *tenant))?,
        };
        self.take(id, tenant, false).then_some(id)
    }

    /// Adds the first requests in serving order to `out`, at most `look_ahead`. Returns how many of them a policy may
    /// choose from while one of them fits.
    pub(super) fn front(
        &self,
        now: Time,
        (config, sessions): (&HeldConfig, &Sessions),
        out: &mut Vec<RequestId>,
    ) -> usize {
        if self.ages.is_empty() {
            return 0;
        }
        let begin = out.len();
        let first = self.impatient(now, config.patience);
        out.extend(first);
        let limit = config.look_ahead as usize;
        let mut urgent: Vec<(Time, RequestId)> = self.with_deadline().collect();
        urgent.sort_unstable();
        out.extend(
            urgent.into_iter().map(|(_, id)| id).filter(|id| Some(*id) != first).take(limit),
        );
        let mut late = Vec::new();
        self.fair_order(sessions, limit.saturating_sub(out.len() - begin), |turn| {
            if Some(turn.entry.id) != first {
                let order = if turn.is_late { &mut late } else { &mut *out };
                order.push(turn.entry.id);
            }
        });
        let free = out.len() - begin;
        out.append(&mut late);
        free
    }

    /// Of the requests that have waited past `patience`, the oldest of the least-served tenant:
    /// patience overrides a better fit, but not fairness.
    pub(super) fn impatient(&self, now: Time, patience: Duration) -> Option<RequestId> {
        let waited = |e: &Entry| now.since(e.since) >= patience;
        let heads = self.tenants.values().filter_map(|t| Some((t.served, t.queue.front()?)));
        let late = heads.filter(|(_, e)| waited(e));
        late.min_by_key(|(served, e)| (*served, e.since, e.id)).map(|(_, e)| e.id)
    }

    /// Checks that all orders have the same requests.
    pub(super) fn check(&self) {
        let lines: usize = self.tenants.values().map(|line| line.queue.len()).sum();
        assert_eq!(lines, self.ages.len(), "each held request is in one line and has one age");
        assert_eq!(lines, self.usual.len() + self.until.len(), "and its time ends once");
        let waits = |line: &Tenant| line.is_elsewhere || !line.queue.is_empty();
        assert!(self.tenants.values().all(waits), "no tenant without one");
    }

    /// What the least served tenant was served, of those that have a request here if any has.
    fn level(&self) -> u64 {
        let all = || self.tenants.values();
        let here = all().filter(|line| !line.queue.is_empty()).map(|line| line.served).min();
        here.or_else(|| all().map(|line| line.served).min()).unwrap_or(0)
    }

    fn with_deadline(&self) -> impl Iterator<Item = (Time, RequestId)> + '_ {
        self.entries().filter_map(|e| e.deadline.map(|d| (d, e.id)))
    }

    /// Visits the requests without a deadline in the order in which the deficits would serve them.
    fn fair_order(&self, sessions: &Sessions, limit: usize, mut visit: impl FnMut(InTurn<'_>)) {
        let mut heads: Vec<(u64, Option<InTurn<'_>>, Turns<'_>)> =
            Vec::with_capacity(self.tenants.len());
        for (tenant, line) in &self.tenants {
            let mut turns = Turns::new(&line.queue, *tenant, sessions);
            heads.push((line.served, turns.next(), turns));
        }
        for _ in 0..limit {
            let waiting = heads.iter_mut().filter(|(_, next, _)| next.is_some());
            let Some((served, next, turns)) = waiting.min_by_key(|head| head.0) else { return };
            let Some(turn) = core::mem::replace(next, turns.next()) else { return };
            *served += turn.entry.tokens();
            visit(turn);
        }
    }
}

/// The requests of this class at siblings.
impl Class {
    /// Sets the tenants of which siblings hold requests: they take turns with the others.
    pub(super) fn set_elsewhere(&mut self, tenants: &BTreeSet<u64>) {
        let level = self.level();
        for tenant in tenants {
            let starts = || Tenant { served: level, ..Tenant::default() };
            self.tenants.entry(*tenant).or_insert_with(starts);
        }
        self.tenants.retain(|tenant, line| {
            line.is_elsewhere = tenants.contains(tenant);
            line.is_elsewhere || !line.queue.is_empty()
        });
    }

    /// A sibling served a tenant so many tokens.
    pub(super) fn served_elsewhere(&mut self, tenant: u64, tokens: u64) {
        if let Some(line) = self.tenants.get_mut(&tenant) {
            line.served += tokens;
        }
    }

    /// How many tokens more one tenant was served than another; one that is not here counts as one that
    /// comes now.
    pub(super) fn served_more(&self, one: u64, other: u64) -> i64 {
        let served = |tenant| self.tenants.get(&tenant).map(|line| line.served);
        let or_level = |served: Option<u64>| served.unwrap_or_else(|| self.level()) as i64;
        match one == other {
            true => 0,
            false => or_level(served(one)) - or_level(served(other)),
        }
    }

    /// Notes whether a request waits by choice.
    pub(super) fn note_choice(&mut self, request: &Request, by_choice: bool) {
        let Some(line) = self.tenants.get_mut(&request.tenant) else { return };
        if let Some(entry) = line.queue.iter_mut().find(|entry| entry.id == request.id) {
            entry.by_choice = by_choice;
        }
    }
}
