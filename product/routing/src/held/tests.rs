//! Tests of the held queue: by hand, and against a naive twin over random events.

use alloc::collections::BTreeMap;
use alloc::vec;
use meridian_base::{ModelId, Rng};

use super::*;

fn request(id: u64, tenant: u64, deadline: Option<Time>, tokens: u32) -> Request {
    Request { tenant, prompt_tokens: tokens, deadline, ..Request::plain(RequestId(id), ModelId(0)) }
}

fn of(priority: Priority, id: u64, tenant: u64) -> Request {
    Request { priority, ..request(id, tenant, None, 1) }
}

fn order(held: &Held, now: Time) -> Vec<u64> {
    let mut out = Vec::new();
    held.fronts(now, &mut out);
    out.into_iter().map(|id| id.0).collect()
}

fn held() -> Held {
    Held::new(HeldConfig::default())
}

fn at(ms: u64) -> Waited {
    Waited::since(Time::from_millis(ms))
}

fn push(held: &mut Held, request: &Request, ms: u64) {
    assert_eq!(held.push(request, at(ms)), Ok(None));
}

// One tenant: first come, first served.
#[test]
fn fifo_within_a_tenant() {
    let mut h = held();
    for id in 0..3 {
        push(&mut h, &request(id, 1, None, 100), id);
    }
    assert_eq!(order(&h, Time::from_millis(5)), vec![0, 1, 2]);
    assert!(h.remove(&request(1, 1, None, 100)));
    assert!(!h.remove(&request(1, 1, None, 100)), "it has left the queue");
    assert_eq!(order(&h, Time::from_millis(5)), vec![0, 2]);
}

// Tenant 1 asks for long prompts, tenant 2 for short ones: by tokens, tenant 2 gets several
// turns for each of tenant 1's.
#[test]
fn tenants_share_by_tokens() {
    let mut h = held();
    for id in 0..3 {
        push(&mut h, &request(id, 1, None, 300), 0);
        push(&mut h, &request(10 + id, 2, None, 100), 0);
    }
    assert_eq!(order(&h, Time::ZERO), vec![0, 10, 11, 12, 1, 2]);
}

/// A request of a session of tenant 1.
fn by(session: u64, id: u64, tokens: u32) -> Request {
    Request { session: Some(session), ..request(id, 1, None, tokens) }
}

// A session with many sub-agents takes turns with a small one, by the tokens that they were served before and are
// served now; a request without a session goes by its age beside the least served one.
#[test]
fn sessions_of_a_tenant_take_turns() {
    let mut h = held();
    for id in 0..4 {
        push(&mut h, &by(7, id, 100), id);
    }
    push(&mut h, &by(8, 10, 100), 5);
    push(&mut h, &request(11, 1, None, 100), 6);
    push(&mut h, &by(8, 12, 100), 7);
    assert_eq!(order(&h, Time::from_millis(9)), vec![0, 10, 1, 11, 12, 2, 3]);
    let large = by(7, 99, 0);
    h.charge(Time::from_millis(9), &large, 1000);
    assert_eq!(order(&h, Time::from_millis(9)), vec![10, 11, 12, 0, 1, 2, 3]);
    // What it was served counts half as much after each minute.
    h.charge(Time::ZERO + Duration::from_secs(600), &large, 0);
    assert_eq!(order(&h, Time::from_millis(9)), vec![0, 10, 1, 11, 12, 2, 3]);
}

// The table of sessions is bounded: a new one is counted whatever others there are, and a session that was served much
// is remembered longer than small ones.
#[test]
fn sessions_are_bounded() {
    let mut sessions = Sessions::default();
    sessions.charge(Time::ZERO, 1, Some(1), 1 << 20);
    for session in 2..20_000 {
        sessions.charge(Time::ZERO, 1, Some(session), 100);
        assert_eq!(sessions.served(1, session), 100);
        assert!(sessions.len() <= 4096);
    }
    assert_eq!(sessions.served(1, 1), 1 << 20);
}

// Deadlines go first, the tightest first; but a request that has waited past `patience` precedes
// all.
#[test]
fn deadlines_then_fairness_and_none_starves() {
    let mut h = held();
    let by = |ms| Some(Time::from_millis(ms));
    push(&mut h, &request(0, 1, None, 1), 0);
    push(&mut h, &request(1, 1, by(900), 1), 1);
    push(&mut h, &request(2, 1, by(500), 1), 2);
    assert_eq!(order(&h, Time::from_millis(3)), vec![2, 1, 0]);
    assert_eq!(order(&h, Time::from_millis(5000)), vec![0, 2, 1]);
}

// Higher classes go first, whatever the deadlines and patience in lower classes.
#[test]
fn classes_are_strict() {
    let mut h = held();
    let urgent = Some(Time::from_millis(6000));
    push(&mut h, &Request { deadline: urgent, ..of(Priority::Low, 0, 1) }, 0);
    push(&mut h, &of(Priority::Normal, 1, 1), 1);
    push(&mut h, &of(Priority::High, 2, 2), 2);
    push(&mut h, &of(Priority::High, 3, 1), 3);
    assert_eq!(order(&h, Time::from_millis(4)), vec![3, 2, 1, 0]);
    assert_eq!(order(&h, Time::from_millis(5_002)), vec![2, 3, 1, 0]);
    assert!(h.priorities().eq(Priority::ALL));
    assert_eq!(h.expired(Time::from_millis(10_000)), Some(RequestId(0)), "the oldest of all");
}

// A refusal names the bound that was reached, and expiry is the oldest request's.
#[test]
fn bounds_and_expiry() {
    let mut h = Held::new(HeldConfig { max: 2, max_per_tenant: 1, ..HeldConfig::default() });
    push(&mut h, &request(0, 1, None, 1), 0);
    let full = h.push(&request(1, 1, None, 1), Waited::since(Time::ZERO));
    assert_eq!(full, Err(RejectWhy::TenantHeldFull { limit: 1 }));
    push(&mut h, &request(2, 2, None, 1), 7);
    let full = h.push(&request(3, 3, None, 1), Waited::since(Time::ZERO));
    assert_eq!(full, Err(RejectWhy::HeldFull { limit: 2 }));
    assert_eq!(h.next_expiry(), Some(Time::from_millis(10_000)));
    assert_eq!(h.expired(Time::from_millis(9_999)), None);
    assert_eq!(h.expired(Time::from_millis(10_000)), Some(RequestId(0)));
}

// A full queue evicts for a higher class: the newest of the lowest class goes or, when a tenant's
// share is full, one of that tenant's own. Among equals the latest arrival is refused.
#[test]
fn higher_classes_displace() {
    let mut h = Held::new(HeldConfig { max: 4, max_per_tenant: 3, ..HeldConfig::default() });
    let at = Time::from_millis(9);
    push(&mut h, &of(Priority::Low, 0, 1), 0);
    push(&mut h, &of(Priority::Low, 1, 2), 1);
    push(&mut h, &of(Priority::Normal, 2, 1), 2);
    push(&mut h, &of(Priority::Low, 3, 1), 3);
    assert_eq!(
        h.push(&of(Priority::Normal, 4, 1), Waited::since(at)),
        Ok(Some(RequestId(3))),
        "its share"
    );
    assert_eq!(
        h.push(&of(Priority::Normal, 5, 3), Waited::since(at)),
        Ok(Some(RequestId(1))),
        "the newest"
    );
    assert_eq!(
        h.push(&of(Priority::High, 6, 1), Waited::since(at)),
        Ok(Some(RequestId(0))),
        "its own"
    );
    let full = Err(RejectWhy::HeldFull { limit: 4 });
    assert_eq!(h.push(&of(Priority::Low, 7, 4), Waited::since(at)), full);
    assert_eq!(h.push(&of(Priority::Normal, 8, 4), Waited::since(at)), full);
    assert_eq!(h.push(&of(Priority::High, 9, 4), Waited::since(at)), Ok(Some(RequestId(5))));
    assert_eq!((h.len(), order(&h, at)), (4, vec![6, 9, 2, 4]));
}

// Defect scaled-to-zero: requests whose model has no replica count in the queue's bounds, and in nothing that other
// models' requests pay for.
#[test]
fn the_absent_delay_no_others() {
    let mut h = held();
    push(&mut h, &request(1, 1, None, 100), 0);
    let absent = request(2, 1, None, 100);
    assert_eq!(h.push_absent(&absent, at(0)), Ok(None));
    assert_eq!((h.len(), h.served()), (2, 1));
    assert!(h.place(&absent, at(0), false));
    assert_eq!((h.len(), h.served()), (2, 2));
}

// Capacity is promised, and patience ends, while there is still time to be served.
#[test]
fn none_is_refused_for_waiting_for_better() {
    let max_wait = Duration::from_secs(4);
    let mut h = Held::new(HeldConfig { max_wait, ..HeldConfig::default() });
    push(&mut h, &request(1, 1, None, 100), 0);
    let (before, half) = (Time::from_millis(1_999), Time::from_millis(2_000));
    let impatient = |h: &Held, now| h.impatient(now, Priority::Normal);
    assert_eq!((impatient(&h, before), impatient(&h, half)), (None, Some(RequestId(1))));
    assert_eq!(h.promise_due(), Some(half));
    assert_eq!(h.may_wait_until(Time::ZERO, None), half);
    let (deadline, soon) = (Some(Time::from_millis(1_000)), Time::from_millis(500));
    assert_eq!(h.may_wait_until(Time::ZERO, deadline), soon);
    push(&mut h, &request(2, 1, deadline, 100), 0);
    assert_eq!(h.next_may_not_wait(Time::ZERO), Some(soon));
    assert_eq!(h.next_may_not_wait(soon), Some(half));
    assert_eq!(h.next_may_not_wait(half), None);
}

/// The queue written without regard for speed: one list, in the order of arrival.
#[derive(Default)]
struct Twin {
    list: Vec<(Request, Time)>,
    /// Tokens that each class served to each tenant that has a request here.
    served: BTreeMap<(Priority, u64), u64>,
}

impl Twin {
    fn forget(&mut self, id: RequestId, served: bool) {
        let at = self.list.iter().position(|(r, _)| r.id == id).expect("is held");
        let (request, _) = self.list.remove(at);
        let line = (request.priority, request.tenant);
        if served {
            *self.served.entry(line).or_default() += u64::from(request.prompt_tokens.max(1));
        }
        if !self.list.iter().any(|(r, _)| (r.priority, r.tenant) == line) {
            self.served.remove(&line);
        }
    }

    fn push(
        &mut self,
        config: &HeldConfig,
        request: Request,
        since: Time,
    ) -> Result<Option<RequestId>, RejectWhy> {
        let own = self.list.iter().filter(|(r, _)| r.tenant == request.tenant).count();
        let is_full = self.list.len() >= config.max as usize;
        let is_share_full = own >= config.max_per_tenant as usize;
        let mut displaced = None;
        if is_full || is_share_full {
            let below = |r: &Request| {
                r.priority < request.priority && (!is_share_full || r.tenant == request.tenant)
            };
            let below = self.list.iter().filter(|(r, _)| below(r));
            let victim = below.min_by_key(|(r, at)| (r.priority, core::cmp::Reverse((*at, r.id))));
            displaced = match victim.map(|(r, _)| r.id) {
                Some(id) => Some(id),
                None if is_full => return Err(RejectWhy::HeldFull { limit: config.max }),
                None => {
                    return Err(RejectWhy::TenantHeldFull { limit: config.max_per_tenant });
                }
            };
        }
        displaced.into_iter().for_each(|id| self.forget(id, false));
        let class = |line: &(Priority, u64)| line.0 == request.priority;
        let level = self.served.iter().filter(|(line, _)| class(line)).map(|(_, n)| *n).min();
        let line = self.served.entry((request.priority, request.tenant));
        line.or_insert(level.unwrap_or(0));
        self.list.push((request, since));
        Ok(displaced)
    }

    /// The first requests of a class, by choosing the next one repeatedly.
    fn front(&self, config: &HeldConfig, now: Time, priority: Priority) -> Vec<RequestId> {
        let mut left: Vec<&(Request, Time)> =
            self.list.iter().filter(|(r, _)| r.priority == priority).collect();
        let mut served = self.served.clone();
        let mut out = Vec::new();
        let head = |tenant: u64| left.iter().find(|(r, _)| r.tenant == tenant);
        let heads = served.keys().filter(|line| line.0 == priority).filter_map(|l| head(l.1));
        let late = heads.filter(|(_, since)| now.since(*since) >= config.patience);
        let key = |(r, since): &&&(Request, Time)| (served[&(priority, r.tenant)], *since, r.id);
        let first = late.min_by_key(key).map(|(r, _)| r.id);
        out.extend(first);
        let mut urgent: Vec<&(Request, Time)> =
            left.iter().copied().filter(|(r, _)| r.deadline.is_some()).collect();
        urgent.sort_by_key(|(r, _)| (r.deadline, r.id));
        let urgent = urgent.iter().map(|(r, _)| r.id).filter(|id| Some(*id) != first);
        out.extend(urgent.take(config.look_ahead as usize));
        left.retain(|(r, _)| r.deadline.is_none());
        let turns = (config.look_ahead as usize).saturating_sub(out.len());
        let mut sessions: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for _ in 0..turns.min(left.len()) {
            let tenant = left.iter().map(|(r, _)| (served[&(priority, r.tenant)], r.tenant)).min();
            let tenant = tenant.expect("one is left").1;
            let own = || left.iter().enumerate().filter(|(_, (r, _))| r.tenant == tenant);
            let plain = own().find(|(_, (r, _))| r.session.is_none()).map(|(at, _)| at);
            let named = own().filter_map(|(at, (r, _))| {
                Some((sessions.get(&(tenant, r.session?)).copied().unwrap_or(0), at))
            });
            let named = named.min().map(|(_, at)| at);
            let at = [plain, named].into_iter().flatten().min().expect("the tenant has one");
            let request = &left[at].0;
            if let Some(session) = request.session {
                *sessions.entry((tenant, session)).or_default() += u64::from(request.prompt_tokens);
            }
            *served.get_mut(&(priority, request.tenant)).expect("has a line") +=
                u64::from(request.prompt_tokens.max(1));
            if Some(request.id) != first {
                out.push(request.id);
            }
            left.remove(at);
        }
        out
    }
}

/// A request drawn from a seed: of a few tenants, some with a deadline.
fn drawn(rng: &mut Rng, id: u64, now: Time) -> Request {
    let deadline =
        (rng.below(4) == 0).then(|| now + Duration::from_millis(rng.below(5_000) as u64));
    let tokens = 1 + rng.below(300) as u32;
    let priority = Priority::ALL[rng.below(3)];
    let session = (rng.below(3) > 0).then(|| rng.below(3) as u64);
    Request { priority, session, ..request(id, rng.below(4) as u64, deadline, tokens) }
}

// Over random arrivals, releases and departures the queue and its twin agree after each event: on
// evictions from a full queue, on the serving order of every class, on length and on expiry.
#[test]
fn agrees_with_a_naive_twin() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let config = HeldConfig {
            max: 12,
            max_per_tenant: 6,
            look_ahead: 1 + rng.below(16) as u32,
            ..HeldConfig::default()
        };
        let (mut held, mut twin) = (Held::new(config), Twin::default());
        let config = held.config;
        let mut now = Time::ZERO;
        for id in 0..400 {
            now = now + Duration::from_millis(rng.below(400) as u64);
            if rng.below(3) > 0 || twin.list.is_empty() {
                let request = drawn(&mut rng, id, now);
                let real = held.push(&request, Waited::since(now));
                assert_eq!(real, twin.push(&config, request, now), "seed {seed}");
            } else {
                let at = rng.below(twin.list.len());
                let request = twin.list[at].0.clone();
                let served = rng.below(2) == 0;
                if served {
                    held.release(&request);
                } else {
                    assert!(held.remove(&request));
                }
                twin.forget(request.id, served);
            }
            assert_eq!(held.len() as usize, twin.list.len());
            let mut out = Vec::new();
            for priority in Priority::ALL {
                held.front(now, priority, &mut out);
                assert_eq!(out, twin.front(&config, now, priority), "seed {seed}, {now:?}");
            }
            let oldest = twin.list.iter().map(|(_, since)| *since).min();
            assert_eq!(held.next_expiry(), oldest.map(|since| since + config.max_wait));
        }
    }
}

// A policy may choose among the requests of sessions that were served about as much, and not a large one's before them.
#[test]
fn a_large_session_comes_after_others_that_fit() {
    let mut h = held();
    push(&mut h, &by(7, 0, 100), 0);
    push(&mut h, &by(8, 1, 100), 1);
    let front = |h: &Held| {
        let mut out = Vec::new();
        let free = h.front(Time::from_millis(9), Priority::Normal, &mut out);
        (out.into_iter().map(|id| id.0).collect::<Vec<_>>(), free)
    };
    h.charge(Time::ZERO, &by(7, 99, 0), 1 << 16);
    assert_eq!(front(&h), (vec![1, 0], 2));
    h.charge(Time::ZERO, &by(7, 99, 0), 1);
    assert_eq!(front(&h), (vec![1, 0], 1));
    assert!(h.remove(&by(8, 1, 100)));
    assert_eq!(front(&h), (vec![0], 1), "alone it is late to none");
}
