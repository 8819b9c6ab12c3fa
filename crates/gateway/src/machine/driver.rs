//! The routing machine, its clock, and those who wait for its outputs.
//!
//! Every call locks, hands one event in, and carries the outputs out: the caller's own decision
//! is returned, others' go to whoever waits for them, probes to the prober. Counts are kept under
//! the same lock, so accepted requests are at any moment exactly the ended ones and those in
//! flight.

use std::collections::HashMap;
use std::sync::Arc;

use meridian_base::{Duration, PeerId, ReplicaId, RequestId, Time};
use meridian_routing::{Digest, Holdings, Input, Output, RejectWhy, Routing, State, Why};
use meridian_wire::admin;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::lock::{Mutex, MutexGuard};
use crate::machine::clock::Clock;
use crate::machine::outbox::Outbox;
use crate::machine::samples::Samples;
use crate::replicas::fleet::Fleet;

/// What was decided about a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decision {
    Dispatch { replica: ReplicaId, why: Why, matched_tokens: u32 },
    Forward { peer: PeerId, why: Why, matched_tokens: u32 },
    Reject { why: RejectWhy, retry_after: Duration },
}

/// A decision, or the promise of one.
pub(crate) enum Verdict {
    Now(Decision),
    Later(oneshot::Receiver<Decision>),
}

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
    /// Told which replicas are down.
    fleet: Arc<Fleet>,
    probes: mpsc::UnboundedSender<ReplicaId>,
    pub(crate) requests: admin::Requests,
    pub(crate) prefix: admin::Prefix,
    pub(crate) ttft: Samples,
    pub(crate) attempts: u64,
    /// When the timer task will look again.
    armed: Time,
}

impl Driver {
    pub(crate) fn new(
        routing: Routing,
        probes: mpsc::UnboundedSender<ReplicaId>,
        fleet: Arc<Fleet>,
        outbox: Option<Arc<Outbox>>,
    ) -> Driver {
        Driver {
            clock: Clock::start(),
            wake: Notify::new(),
            outbox: outbox.clone(),
            inner: Mutex::new(Inner {
                routing,
                outbox,
                waiters: HashMap::new(),
                fleet,
                probes,
                requests: admin::Requests::default(),
                prefix: admin::Prefix::default(),
                ttft: Samples::default(),
                attempts: 0,
                armed: Time::MAX,
            }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Hands an event in that is nobody's own.
    pub(crate) fn tell(&self, input: Input) {
        self.tell_if(|| true, input);
    }

    /// The same, if `still` holds when its turn comes.
    pub(crate) fn tell_if(&self, still: impl FnOnce() -> bool, input: Input) {
        let mut inner = self.lock();
        if !still() {
            return;
        }
        let now = self.clock.now();
        inner.routing.handle(now, input);
        let none = inner.carry_out(None);
        debug_assert!(none.is_none());
        self.rearm(inner);
    }

    /// Hands in an event of request `id` that leads to a decision about it.
    pub(super) fn turn(&self, inner: &mut Inner, id: RequestId, input: Input) -> Verdict {
        let now = self.clock.now();
        inner.routing.handle(now, input);
        match inner.carry_out(Some(id)) {
            Some(decision) => Verdict::Now(decision),
            None => {
                let (tx, rx) = oneshot::channel();
                inner.waiters.insert(id, tx);
                Verdict::Later(rx)
            }
        }
    }

    /// A dispatched request's prompt and its expected match, for the status page.
    pub(crate) fn matched(&self, prompt_tokens: u32, matched_tokens: u32) {
        let prefix = &mut self.lock().prefix;
        prefix.prompt_tokens += u64::from(prompt_tokens);
        prefix.matched_tokens += u64::from(matched_tokens.min(prompt_tokens));
    }

    /// Wakes the timer task when the machine wants to be called before the task would look.
    pub(super) fn rearm(&self, inner: MutexGuard<'_, Inner>) {
        let sooner = inner.routing.poll_timeout().is_some_and(|t| t < inner.armed);
        drop(inner);
        if sooner {
            self.wake.notify_one();
        }
        self.touch();
    }

    /// The peers may want to know.
    fn touch(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.touch();
        }
    }

    /// How the region is, for its peers.
    pub(crate) fn digest(&self) -> Digest {
        self.lock().routing.digest()
    }

    /// What is known of a replica's cache and speed.
    pub(crate) fn holdings(&self, id: ReplicaId) -> Holdings {
        self.lock().routing.holdings(id)
    }

    /// Whether some replica takes requests.
    pub(crate) fn takes_requests(&self) -> bool {
        let now = self.clock.now();
        let inner = self.lock();
        let table = inner.routing.replicas();
        table.ids().iter().any(|id| {
            table.row(*id).closed.is_none()
                && table.spec(*id).is_some_and(|spec| !spec.models.is_empty())
                && table.status(*id, now).is_some_and(|status| status.state == State::Up)
        })
    }

    /// Calls the machine when it wants to be called, for ever.
    pub(crate) async fn keep_time(&self) {
        loop {
            let next = {
                let mut inner = self.lock();
                inner.routing.handle_timeout(self.clock.now());
                let none = inner.carry_out(None);
                debug_assert!(none.is_none());
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
    /// Carries the machine's outputs to whom they concern; the decision about `own` is returned.
    pub(super) fn carry_out(&mut self, own: Option<RequestId>) -> Option<Decision> {
        let mut mine = None;
        while let Some(output) = self.routing.poll() {
            let (id, decision) = match output {
                Output::Dispatch { id, replica, why, matched_tokens, .. } => {
                    self.attempts += 1;
                    (id, Decision::Dispatch { replica, why, matched_tokens })
                }
                Output::Forward { id, peer, why, matched_tokens, .. } => {
                    self.attempts += 1;
                    (id, Decision::Forward { peer, why, matched_tokens })
                }
                Output::Reject { id, why, retry_after } => {
                    (id, Decision::Reject { why, retry_after })
                }
                Output::Held(_) => continue,
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
                    if let Some(member) = self.fleet.get(id) {
                        tracing::warn!(replica = %member.name, url = %member.spec.url, "replica down");
                        member.life.ends();
                    }
                    continue;
                }
                Output::Up(id) => {
                    if let Some(member) = self.fleet.get(id) {
                        tracing::info!(replica = %member.name, url = %member.spec.url, "replica up again");
                        member.life.begins();
                    }
                    continue;
                }
            };
            if own == Some(id) {
                mine = Some(decision);
            } else if let Some(waiter) = self.waiters.remove(&id) {
                // Its client may just have gone; then its ticket tells the machine.
                let _ = waiter.send(decision);
            }
        }
        mine
    }
}
