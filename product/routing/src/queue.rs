//! The queue table: the requests that wait for capacity, and when to look at them again.
//!
//! Decisions read it and cannot write it. [`Held`] has the order of requests, and [`Search`] the
//! result of the last look at them.
//!
//! Not here: which request goes next, and where (`machine/release.rs`).

mod elsewhere;
mod search;
mod share;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use meridian_base::{Duration, Priority, RequestId, Time};

use self::elsewhere::Elsewhere;
use self::search::Search;
use self::share::Shared;
use crate::held::{Held, HeldConfig, Waited};
use crate::request::Request;
use crate::row::Row;
use crate::why::RejectWhy;

/// Held requests are examined at least this often: a policy may depend on time alone.
const RETICK: Duration = Duration::from_millis(50);
/// The interval while no replica has free capacity: only an event can free some.
const CLOSED_RETICK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct WaitingQueue {
    held: Held,
    search: Search,
    /// When held requests are examined again without any event.
    retick: Option<Time>,
    /// Whether a request waits for other sessions' prompts, although it would fit.
    is_giving_way: bool,
    elsewhere: Elsewhere,
    /// Until when capacity is left to siblings, if it is.
    left_until: Option<Time>,
    shared: Shared,
}

/// What decisions and reports read.
impl WaitingQueue {
    pub(crate) fn new(config: HeldConfig) -> WaitingQueue {
        WaitingQueue {
            held: Held::new(config),
            search: Search::default(),
            retick: None,
            is_giving_way: false,
            elsewhere: Elsewhere::default(),
            left_until: None,
            shared: Shared::default(),
        }
    }

    /// Requests that wait for capacity. Those whose model has no replica take none from the others, so no price, no
    /// peer and no time to retry counts them.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.held.served()
    }

    /// All requests.
    pub(crate) fn len(&self) -> u32 {
        self.held.len()
    }

    /// The known sessions, and the share of the largest one.
    pub(crate) fn sessions(&self) -> (u32, f64) {
        self.held.sessions()
    }

    /// Whether a request's session was served much more than the mean one lately.
    #[inline]
    pub(crate) fn was_served_much(&self, request: &Request) -> bool {
        self.held.was_served_much(request)
    }

    /// Whether one more request of a tenant would be held without displacing another.
    pub(crate) fn has_place(&self, tenant: u64) -> bool {
        self.held.has_place(tenant)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.len() == 0
    }

    /// Until when a request whose time counts from then may be held although it could be dispatched.
    pub(crate) fn may_wait_until(&self, from: Time, deadline: Option<Time>) -> Time {
        self.held.may_wait_until(from, deadline)
    }

    /// The classes that hold a request, the highest first.
    pub(crate) fn priorities(&self) -> impl Iterator<Item = Priority> + use<> {
        self.held.priorities()
    }

    /// The first requests of a class in serving order, written to `out`. Returns how many of them a policy may choose
    /// from while one of them fits.
    pub(crate) fn front(&self, now: Time, priority: Priority, out: &mut Vec<RequestId>) -> usize {
        self.held.front(now, priority, out)
    }

    /// The first requests of every class, the highest class first, written to `out`.
    pub(crate) fn fronts(&self, now: Time, out: &mut Vec<RequestId>) {
        self.held.fronts(now, out);
    }

    /// All requests, in the order of their arrival within each class, written to `out`.
    pub(crate) fn all(&self, out: &mut Vec<RequestId>) {
        self.held.all(out);
    }

    /// Of a class's requests that have waited past their patience, the one that goes first.
    pub(crate) fn impatient(&self, now: Time, priority: Priority) -> Option<RequestId> {
        self.held.impatient(now, priority)
    }

    /// When the oldest request will have waited long enough to be promised capacity.
    pub(crate) fn promise_due(&self) -> Option<Time> {
        self.held.promise_due()
    }

    /// Whether a request whose time counts from then has waited long enough to be promised capacity.
    pub(crate) fn is_due(&self, now: Time, from: Time) -> bool {
        self.held.is_due(now, from)
    }

    /// Whether a request waits among those whose model has no replica.
    pub(crate) fn is_absent(&self, request: &Request) -> bool {
        self.held.is_absent(request)
    }

    /// A request that has been held for longer than allowed, if any.
    pub(crate) fn expired(&self, now: Time) -> Option<RequestId> {
        self.held.expired(now)
    }

    /// When time alone changes something: a request expires, or all are examined again.
    pub(crate) fn next_event(&self) -> Option<Time> {
        let shared = self.shared.due;
        [self.held.next_expiry(), self.retick, self.left_until, shared].into_iter().flatten().min()
    }

    /// Whether the last search released nothing, so that the next one waits for a reason.
    pub(crate) fn searched_in_vain(&self) -> bool {
        self.search.again().is_some()
    }

    /// Whether a search is due although no capacity has grown.
    pub(crate) fn is_search_due(&self, now: Time) -> bool {
        self.search.again().is_none_or(|again| again <= now)
    }

    /// Whether one of these peers, a bit each, accepted requests at the last search without result;
    /// `None` if the last one released a request.
    pub(crate) fn took(&self, peers: u64) -> Option<bool> {
        self.search.took(peers)
    }
}

/// What the machine's steps change.
impl WaitingQueue {
    /// Changes the bounds.
    pub(crate) fn configured(&mut self, config: HeldConfig) {
        self.held.configured(config);
    }

    /// Adds a request; returns the id of the one that it displaces.
    ///
    /// # Errors
    ///
    /// When the queue is full.
    pub(crate) fn push(
        &mut self,
        now: Time,
        request: &Request,
        waited: Waited,
    ) -> Result<Option<RequestId>, RejectWhy> {
        let displaced = self.held.push(request, waited)?;
        self.shared.changed();
        self.search.look_by(self.held.may_wait_until(waited.from, request.deadline).max(now));
        self.retick.get_or_insert(now + RETICK);
        Ok(displaced)
    }

    /// Adds a request whose model has no replica; returns the id of the one that it displaces.
    ///
    /// # Errors
    ///
    /// When the queue, or the half of it that such requests may take, is full.
    pub(crate) fn push_absent(
        &mut self,
        now: Time,
        request: &Request,
        waited: Waited,
    ) -> Result<Option<RequestId>, RejectWhy> {
        let displaced = self.held.push_absent(request, waited)?;
        self.shared.changed();
        self.retick.get_or_insert(now + CLOSED_RETICK);
        Ok(displaced)
    }

    /// Moves a request to those whose model has no replica, or back; false if it is there already. The
    /// queue is then searched for it.
    pub(crate) fn place(&mut self, request: &Request, waited: Waited, is_absent: bool) -> bool {
        let moved = self.held.place(request, waited, is_absent);
        if moved {
            self.shared.changed();
        }
        if moved && !is_absent {
            self.search.look_by(Time::ZERO);
        }
        moved
    }

    /// A request waits for other sessions' prompts.
    pub(crate) fn gives_way(&mut self) {
        self.is_giving_way = true;
    }

    /// A replica has computed a prompt: the queue is searched if a request may have waited for that.
    pub(crate) fn prompt_computed(&mut self) {
        if core::mem::take(&mut self.is_giving_way) {
            self.search.look_by(Time::ZERO);
        }
    }

    /// Removes a request to dispatch it: its tokens count against its tenant.
    pub(crate) fn release(&mut self, request: &Request) {
        self.shared.changed();
        let is_held = self.held.release(request);
        assert!(is_held, "{} leaves the queue once", request.id);
    }

    /// Counts tokens that a request's session was served, held before or not.
    pub(crate) fn charge(&mut self, now: Time, request: &Request, tokens: u32) {
        self.held.charge(now, request, tokens);
    }

    /// Removes a request that will not be served.
    pub(crate) fn remove(&mut self, request: &Request) {
        self.shared.changed();
        let is_held = self.held.remove(request);
        assert!(is_held, "{} leaves the queue once", request.id);
    }

    /// Whether requests are due to be examined without an event; they then count as examined.
    pub(crate) fn retick(&mut self, now: Time) -> bool {
        let is_due = self.retick.is_some_and(|at| at <= now);
        if is_due {
            self.retick = None;
        }
        self.take_back(now) || is_due
    }

    /// Sets when to examine requests again without an event. While no replica is `open`, time alone
    /// opens none, but it may bring a promise, if there is a replica to promise.
    pub(crate) fn look_again(&mut self, now: Time, open: bool, is_promisable: bool) {
        let next = match (self.search.again(), open) {
            (None, true) => now + RETICK,
            (again, _) => {
                let promise = self.promise_due().filter(|_| is_promisable);
                let promise = promise.map_or(Time::MAX, |due| due.max(now + RETICK));
                again.unwrap_or(now + CLOSED_RETICK).min(promise)
            }
        };
        self.retick = Some(self.retick.unwrap_or(Time::MAX).min(next));
    }

    /// Records that no request is held.
    pub(crate) fn look_no_more(&mut self) {
        assert!(self.is_empty(), "held requests are examined again");
        self.retick = None;
        self.left_until = None;
    }

    /// Saves all free capacities, and the peers that accept requests; true if one has grown since
    /// the last time.
    pub(crate) fn note_rooms(&mut self, rooms: &[f32], rows: &[Row], peers: u64) -> bool {
        self.search.note(rooms, rows, peers)
    }

    /// Records that the queue was searched and no further request goes; if that was `in_vain`, the
    /// next search waits for a reason.
    pub(crate) fn searched(&mut self, now: Time, in_vain: bool) {
        let in_vain = in_vain && !self.is_empty();
        let ends = in_vain.then(|| self.held.next_may_not_wait(now)).flatten();
        self.search.ended(now, in_vain, ends);
    }

    /// Checks the invariants between events; `held` counts the requests that say they are here.
    ///
    /// # Panics
    ///
    /// When one does not hold.
    pub(crate) fn check_invariants(&self, held: usize) {
        assert_eq!(self.len() as usize, held, "a held request has not left");
        assert!(self.is_empty() || self.retick.is_some(), "held requests are examined again");
        self.held.check();
    }
}
