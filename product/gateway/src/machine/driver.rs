//! Drives the routing machine: its lock, its clock, and delivery of its outputs.
//!
//! Every call locks the machine, passes in one event, and delivers the outputs: the caller's own
//! decision is returned, other decisions go to their waiting requests, probes to the prober. Counts
//! are kept under the same lock, so at any moment the accepted requests are exactly the ended ones
//! plus those in flight.

use std::collections::HashMap;
use std::sync::Arc;

use http::uri::Authority;
use meridian_base::{Duration, PeerId, ReplicaId, RequestId, Time};
use meridian_protocol::admin;
use meridian_routing::{
    Digest, Holdings, Input, Output, RejectWhy, ReplicaSpec, Routing, SiblingRecord, State, Why,
};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::facts::name::ReplicaName;
use crate::lock::{Mutex, MutexGuard};
use crate::machine::clock::Clock;
use crate::machine::outbox::Outbox;
use crate::machine::samples::Samples;
use crate::machine::siblings::{QueuedRecord, SiblingQueue};

/// A decision about a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decision {
    Dispatch { replica: ReplicaId, prefill: Option<ReplicaId>, why: Why, matched_tokens: u32 },
    Forward { peer: PeerId, why: Why, matched_tokens: u32 },
    Reject { why: RejectWhy, retry_after: Duration },
}

/// A decision, or the promise of a later one.
pub(crate) enum Verdict {
    Now(Decision),
    Later(oneshot::Receiver<Decision>),
}

/// The replicas that the machine knows by number.
pub(crate) trait Replicas: Send + Sync {
    /// The machine takes a replica for down.
    fn down(&self, id: ReplicaId);

    /// A replica that was down answers again.
    fn up(&self, id: ReplicaId);

    /// Its name for people; none if it has left.
    fn name(&self, id: ReplicaId) -> Option<ReplicaName>;

    /// Its host and port; none if it has left.
    fn authority(&self, id: ReplicaId) -> Option<Authority>;
}

/// Most events that are passed in before others may lock the machine: a sibling's restart with what follows.
const MOST_AT_ONCE: usize = 2;

pub(crate) struct Driver {
    pub(crate) clock: Clock,
    inner: Mutex<Inner>,
    wake: Notify,
    outbox: Option<Arc<Outbox>>,
}

pub(crate) struct Inner {
    pub(crate) routing: Routing,
    outbox: Option<Arc<Outbox>>,
    pub(super) waiters: HashMap<RequestId, oneshot::Sender<Decision>>,
    pub(super) replicas: Arc<dyn Replicas>,
    probes: mpsc::UnboundedSender<ReplicaId>,
    pub(crate) requests: admin::Requests,
    pub(crate) prefix: admin::Prefix,
    pub(crate) ttft: Samples,
    /// Generated tokens of answers that ended, as engines reported them.
    pub(crate) output_tokens: u64,
    pub(crate) attempts: u64,
    /// When the timer task will next call the machine.
    armed: Time,
}

impl Driver {
    pub(crate) fn new(
        routing: Routing,
        probes: mpsc::UnboundedSender<ReplicaId>,
        (clock, replicas): (Clock, Arc<dyn Replicas>),
        outbox: Option<Arc<Outbox>>,
    ) -> Driver {
        Driver {
            clock,
            wake: Notify::new(),
            outbox: outbox.clone(),
            inner: Mutex::new(Inner {
                routing,
                outbox,
                waiters: HashMap::new(),
                replicas,
                probes,
                requests: admin::Requests::default(),
                prefix: admin::Prefix::default(),
                ttft: Samples::default(),
                output_tokens: 0,
                attempts: 0,
                armed: Time::MAX,
            }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Passes in an event that belongs to no request.
    pub(crate) fn tell(&self, input: Input) {
        self.tell_if(|| true, input);
    }

    /// The same, if `still` holds once the lock is taken.
    pub(crate) fn tell_if(&self, still: impl FnOnce() -> bool, input: Input) {
        let mut inner = self.lock();
        if !still() {
            return;
        }
        let now = self.clock.now();
        inner.routing.handle(now, input);
        let none = inner.carry_out(None);
        assert!(none.is_none(), "an event of no request decided about one: {none:?}");
        self.rearm(inner);
    }

    /// Passes in events that belong to no request of this gateway, in their order. They are made while
    /// the machine is locked.
    pub(crate) fn tell_each(&self, inputs: impl IntoIterator<Item = Input>) {
        let mut inputs = inputs.into_iter();
        loop {
            let mut inner = self.lock();
            let now = self.clock.now();
            let mut count = 0;
            for input in inputs.by_ref().take(MOST_AT_ONCE) {
                count += 1;
                inner.routing.handle(now, input);
                let none = inner.carry_out(None);
                assert!(none.is_none(), "an event of no request decided about one: {none:?}");
            }
            self.rearm(inner);
            if count < MOST_AT_ONCE {
                return;
            }
        }
    }

    /// The records for a sibling now, and whether that is everything about the requests in flight.
    pub(crate) fn untold(&self, queue: &SiblingQueue) -> (bool, Vec<QueuedRecord>) {
        if let Some(records) = queue.take() {
            return (false, records);
        }
        let inner = self.lock();
        queue.restarted();
        let told = |record: SiblingRecord| {
            let replica = inner.named_by(&record);
            QueuedRecord { record: Arc::new(record), replica }
        };
        (true, inner.routing.at_replicas(self.clock.now()).into_iter().map(told).collect())
    }

    /// Passes in an event of request `id` that leads to a decision about it.
    pub(super) fn turn(&self, inner: &mut Inner, id: RequestId, input: Input) -> Verdict {
        let now = self.clock.now();
        inner.routing.handle(now, input);
        match inner.carry_out(Some(id)) {
            Some(decision) => Verdict::Now(decision),
            None => {
                let (tx, rx) = oneshot::channel();
                let before = inner.waiters.insert(id, tx);
                assert!(before.is_none(), "request {id:?} waits for two decisions");
                Verdict::Later(rx)
            }
        }
    }

    /// Wakes the timer task if the machine needs a call before its timer fires.
    pub(super) fn rearm(&self, inner: MutexGuard<'_, Inner>) {
        let sooner = inner.routing.poll_timeout().is_some_and(|t| t < inner.armed);
        drop(inner);
        if sooner {
            self.wake.notify_one();
        }
        self.touch();
    }

    /// Wakes the task that informs peers.
    fn touch(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.touch();
        }
    }

    /// The region's state, for its peers.
    pub(crate) fn digest(&self) -> Digest {
        self.lock().routing.digest()
    }

    /// A replica's assumed cache contents and speed.
    pub(crate) fn holdings(&self, id: ReplicaId) -> Holdings {
        self.lock().routing.holdings(id)
    }

    /// Whether at least one replica takes and answers requests.
    pub(crate) fn takes_requests(&self) -> bool {
        let now = self.clock.now();
        let inner = self.lock();
        let table = inner.routing.replicas();
        table.ids().iter().any(|id| {
            let answers = |spec: &ReplicaSpec| !spec.models.is_empty() && spec.pool.role.answers();
            table.row(*id).closed.is_none()
                && table.spec(*id).is_some_and(answers)
                && table.status(*id, now).is_some_and(|status| status.state == State::Up)
        })
    }

    /// Calls the machine at the times it asks for; never returns.
    pub(crate) async fn keep_time(&self) {
        loop {
            let next = {
                let mut inner = self.lock();
                inner.routing.handle_timeout(self.clock.now());
                let none = inner.carry_out(None);
                assert!(none.is_none(), "the timer decided for a caller: {none:?}");
                inner.armed = inner.routing.poll_timeout().unwrap_or(Time::MAX);
                inner.armed
            };
            self.touch();
            let far = self.clock.now() + Duration::from_secs(3600);
            let sleep = tokio::time::sleep_until(self.clock.instant(next.min(far)));
            tokio::select! {
                () = sleep => {}
                () = self.wake.notified() => {}
            }
        }
    }
}

impl Inner {
    /// Queues an event for the siblings.
    fn share(&self, record: SiblingRecord) {
        if let Some(outbox) = &self.outbox {
            let replica = self.named_by(&record);
            outbox.siblings.push(record, replica);
        }
    }

    /// The replica that a record names.
    fn named_by(&self, record: &SiblingRecord) -> Option<Authority> {
        match record {
            SiblingRecord::Sent(request) => self.replicas.authority(request.replica),
            _ => None,
        }
    }

    /// Delivers the machine's outputs; returns the decision about `own`.
    pub(super) fn carry_out(&mut self, own: Option<RequestId>) -> Option<Decision> {
        let mut mine = None;
        while let Some(output) = self.routing.poll() {
            let (id, decision) = match output {
                Output::Dispatch { id, replica, prefill, why, matched_tokens, .. } => {
                    self.attempts += 1;
                    (id, Decision::Dispatch { replica, prefill, why, matched_tokens })
                }
                Output::Forward { id, peer, why, matched_tokens, .. } => {
                    self.attempts += 1;
                    (id, Decision::Forward { peer, why, matched_tokens })
                }
                Output::Reject { id, why, retry_after } => {
                    (id, Decision::Reject { why, retry_after })
                }
                Output::Held(_) => continue,
                Output::Share(record) => {
                    self.share(record);
                    continue;
                }
                Output::Steal { from, count } => {
                    if let Some(outbox) = &self.outbox {
                        outbox.steal(from, count);
                    }
                    continue;
                }
                Output::Probe(id) => {
                    // The prober lives as long as the gateway.
                    let _ = self.probes.send(id);
                    continue;
                }
                Output::Down(id) => {
                    self.replicas.down(id);
                    continue;
                }
                Output::Up(id) => {
                    self.replicas.up(id);
                    continue;
                }
            };
            if own == Some(id) {
                assert!(mine.is_none(), "two decisions about request {id:?} for one event");
                mine = Some(decision);
            } else if let Some(waiter) = self.waiters.remove(&id) {
                // The client may have just left; its ticket then informs the machine.
                let _ = waiter.send(decision);
            }
        }
        mine
    }
}
