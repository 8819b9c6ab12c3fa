//! The held queue: the gateway's queue of requests for which no replica has free capacity yet.
//!
//! There is a queue for each priority class, and in each a line for each tenant. A higher class
//! goes before all lower ones; `class.rs` orders the requests within a class, `turns.rs` those of a
//! tenant. The queue is bounded
//! in total length, in length per tenant, and in waiting time. When it is full, a request of a
//! higher class replaces the newest request of the lowest class.
//!
//! Requests whose model has no replica wait apart, in at most half of the queue: no free capacity
//! releases them, and they do not stand in the way of others. They may wait longer, if their model is
//! scaled to zero (`waited.rs`).

mod class;
mod elsewhere;
mod pace;
mod sessions;
#[cfg(test)]
mod tests;
mod turns;
mod waited;

use alloc::vec::Vec;
use meridian_base::{Duration, Priority, RequestId, Time};

use self::class::Class;
use self::pace::ServedPace;
use self::sessions::Sessions;
use self::turns::MUCH_MORE;
use self::waited::Ends;
pub(crate) use self::waited::Waited;
use crate::request::Request;
use crate::why::RejectWhy;

/// Bounds of the held queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldConfig {
    /// Most requests held.
    pub max: u32,
    /// Most requests held for one tenant.
    pub max_per_tenant: u32,
    /// Longest time a request is held before it is rejected.
    pub max_wait: Duration,
    /// How many requests at the front of a class are examined when capacity frees up.
    pub look_ahead: u32,
    /// After waiting this long, the oldest request of the least-served tenant goes before requests
    /// that fit better. This and the next are at most half of `max_wait`.
    pub patience: Duration,
    /// After waiting this long, a request that fits nowhere is promised the next free capacity of a
    /// full replica.
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

#[derive(Debug)]
pub(crate) struct Held {
    config: HeldConfig,
    /// One for each priority, in the order of [`Priority`].
    classes: [Class; 3],
    /// The same for requests whose model has no replica.
    absent: [Class; 3],
    sessions: Sessions,
    pace: ServedPace,
}

impl Held {
    pub(crate) fn new(config: HeldConfig) -> Held {
        let (classes, absent, sessions, pace) = Default::default();
        let mut held = Held { config, classes, absent, sessions, pace };
        held.configured(config);
        held
    }

    /// Changes the bounds. Requests that are held already stay, even if there are more than `max`.
    pub(crate) fn configured(&mut self, config: HeldConfig) {
        // Any later and the request would be refused first.
        let most = config.max_wait / 2;
        let (patience, promise) = (config.patience.min(most), config.promise.min(most));
        self.config = HeldConfig { patience, promise, ..config };
    }

    pub(crate) fn len(&self) -> u32 {
        self.served() + self.absent_len()
    }

    /// The known sessions, and the share of the largest one.
    pub(crate) fn sessions(&self) -> (u32, f64) {
        (self.sessions.len() as u32, self.sessions.largest_share())
    }

    /// Whether a request's session was served much more than the mean one lately.
    pub(crate) fn was_served_much(&self, request: &Request) -> bool {
        let above = |session| self.sessions.above_mean(request.tenant, session);
        request.session.is_some_and(|session| above(session) > MUCH_MORE)
    }

    /// Without the requests whose model has no replica.
    pub(crate) fn served(&self) -> u32 {
        self.classes.iter().map(Class::len).sum()
    }

    fn absent_len(&self) -> u32 {
        self.absent.iter().map(Class::len).sum()
    }

    fn all_classes(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter().chain(&self.absent)
    }

    /// All requests, in the order of their arrival within each class.
    pub(crate) fn all(&self, out: &mut Vec<RequestId>) {
        out.extend(self.all_classes().flat_map(Class::by_age));
    }

    /// The classes that hold a request, the highest first.
    pub(crate) fn priorities(&self) -> impl Iterator<Item = Priority> + use<> {
        let holds = self.classes.each_ref().map(|class| class.len() > 0);
        Priority::ALL.into_iter().filter(move |priority| holds[*priority as usize])
    }

    /// How long a request whose time counts from then may be held although it could be dispatched:
    /// the first half of the time until it is refused or misses its deadline.
    pub(crate) fn may_wait_until(&self, from: Time, deadline: Option<Time>) -> Time {
        let expires = from + self.config.max_wait;
        let ends = deadline.map_or(expires, |deadline| deadline.min(expires));
        from + ends.since(from) / 2
    }

    /// The earliest time at which one of the held requests may no longer wait for a better replica.
    pub(crate) fn next_may_not_wait(&self, now: Time) -> Option<Time> {
        let all = self.classes.iter().flat_map(Class::entries);
        let until = all.map(|e| self.may_wait_until(e.from, e.deadline));
        until.filter(|until| *until > now).min()
    }

    /// Adds a request at the back of its tenant's line. When the queue or the tenant's share of it
    /// is full, evicts the newest request of the lowest class below and returns its id.
    pub(crate) fn push(
        &mut self,
        request: &Request,
        waited: Waited,
    ) -> Result<Option<RequestId>, RejectWhy> {
        let of_tenant = self.of_tenant(request.tenant);
        let (max, share) = (self.config.max, self.config.max_per_tenant);
        let is_full = self.len() >= max;
        let is_share_full = of_tenant >= share as usize;
        let mut displaced = None;
        if is_full || is_share_full {
            let why = match is_full {
                true => RejectWhy::HeldFull { limit: max },
                false => RejectWhy::TenantHeldFull { limit: share },
            };
            let own = is_share_full.then_some(request.tenant);
            displaced = Some(displace(&mut self.classes, request.priority, own).ok_or(why)?);
        }
        let ends = Ends::After(waited.from);
        self.classes[request.priority as usize].push(request, waited, ends);
        Ok(displaced)
    }

    /// Adds a request whose model has no replica. When the queue, the half of it for such requests, or
    /// the tenant's share of it is full, evicts the newest request of the lowest class below among
    /// them and returns its id.
    pub(crate) fn push_absent(
        &mut self,
        request: &Request,
        waited: Waited,
    ) -> Result<Option<RequestId>, RejectWhy> {
        let HeldConfig { max, max_per_tenant, .. } = self.config;
        let most = max.div_ceil(2);
        let is_share_full = self.of_tenant(request.tenant) >= max_per_tenant as usize;
        let mut displaced = None;
        if is_share_full || self.len() >= max || self.absent_len() >= most {
            let why = match is_share_full {
                true => RejectWhy::TenantHeldFull { limit: max_per_tenant },
                false => RejectWhy::HeldFull { limit: if self.len() >= max { max } else { most } },
            };
            let own = is_share_full.then_some(request.tenant);
            displaced = Some(displace(&mut self.absent, request.priority, own).ok_or(why)?);
        }
        let ends = self.ends(request, waited, true);
        self.absent[request.priority as usize].push(request, waited, ends);
        Ok(displaced)
    }

    /// Moves a request to those whose model has no replica, or back; false if it is there already.
    pub(crate) fn place(&mut self, request: &Request, waited: Waited, is_absent: bool) -> bool {
        let ends = self.ends(request, waited, is_absent);
        let class = request.priority as usize;
        let (served, absent) = (&mut self.classes[class], &mut self.absent[class]);
        let (from, to) = if is_absent { (served, absent) } else { (absent, served) };
        let moves = from.take(request.id, request.tenant, false);
        if moves {
            to.push(request, waited, ends);
        }
        moves
    }

    /// When a request is refused.
    fn ends(&self, request: &Request, waited: Waited, is_absent: bool) -> Ends {
        match request.scale_from_zero.filter(|_| is_absent) {
            Some(span) => Ends::At(waited.until(span, self.config.max_wait)),
            None => Ends::After(waited.from),
        }
    }

    fn of_tenant(&self, tenant: u64) -> usize {
        self.all_classes().map(|class| class.of_tenant(tenant)).sum()
    }

    /// Removes a request to dispatch it: its tokens count against its tenant.
    /// False if it is not held.
    pub(crate) fn release(&mut self, request: &Request) -> bool {
        self.classes[request.priority as usize].take(request.id, request.tenant, true)
    }

    /// Counts tokens that a request's session was served, held before or not.
    pub(crate) fn charge(&mut self, now: Time, request: &Request, tokens: u32) {
        self.pace.add(now, tokens);
        self.sessions.charge(now, request.tenant, request.session, tokens);
    }

    /// Whether one more request of a tenant would be held without displacing another.
    pub(crate) fn has_place(&self, tenant: u64) -> bool {
        let HeldConfig { max, max_per_tenant, .. } = self.config;
        self.len() < max && self.of_tenant(tenant) < max_per_tenant as usize
    }

    /// Removes a request that will not be served. False if it is not held.
    pub(crate) fn remove(&mut self, request: &Request) -> bool {
        self.classes[request.priority as usize].take(request.id, request.tenant, false)
            || self.absent[request.priority as usize].take(request.id, request.tenant, false)
    }

    /// The first requests of a class in serving order, at most `look_ahead`, written to `out`. Returns how many of them
    /// a policy may choose from while one of them fits.
    pub(crate) fn front(&self, now: Time, priority: Priority, out: &mut Vec<RequestId>) -> usize {
        out.clear();
        self.classes[priority as usize].front(now, (&self.config, &self.sessions), out)
    }

    /// The first requests of every class, the highest class first.
    pub(crate) fn fronts(&self, now: Time, out: &mut Vec<RequestId>) {
        out.clear();
        for priority in Priority::ALL {
            self.classes[priority as usize].front(now, (&self.config, &self.sessions), out);
        }
    }

    /// Of a class's requests that have waited past `patience`, the oldest of the least-served
    /// tenant.
    pub(crate) fn impatient(&self, now: Time, priority: Priority) -> Option<RequestId> {
        self.classes[priority as usize].impatient(now, self.config.patience)
    }

    /// When the oldest request will have waited long enough to be promised capacity.
    pub(crate) fn promise_due(&self) -> Option<Time> {
        let oldest = self.classes.iter().filter_map(Class::first_usual).min();
        oldest.map(|from| from + self.config.promise)
    }

    /// Whether a request whose time counts from then has waited long enough to be promised capacity.
    pub(crate) fn is_due(&self, now: Time, from: Time) -> bool {
        now.since(from) >= self.config.promise
    }

    /// When the first request reaches the longest waiting time.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.first_end().map(|(at, _)| at)
    }

    /// A request that has been held for longer than allowed, if any.
    pub(crate) fn expired(&self, now: Time) -> Option<RequestId> {
        self.first_end().filter(|(at, _)| *at <= now).map(|(_, id)| id)
    }

    /// Whether a request waits among those whose model has no replica.
    pub(crate) fn is_absent(&self, request: &Request) -> bool {
        self.absent[request.priority as usize].holds(request)
    }

    /// Checks each class.
    pub(crate) fn check(&self) {
        self.all_classes().for_each(Class::check);
    }

    fn first_end(&self) -> Option<(Time, RequestId)> {
        self.all_classes().filter_map(|class| class.first_end(self.config.max_wait)).min()
    }
}

/// Removes the newest request of the lowest class below `priority`, of one tenant if it is its `own`
/// share that is full.
fn displace(classes: &mut [Class; 3], priority: Priority, own: Option<u64>) -> Option<RequestId> {
    let below = classes.iter_mut().take(priority as usize);
    below.filter_map(|class| class.take_newest(own)).next()
}
