//! The routing machine, its clock, and those who wait for its outputs.
//!
//! Every call locks, hands one event in, and carries the outputs out: the caller's own decision
//! is returned, others' go to whoever waits for them, probes to the prober. Counts are kept under
//! the same lock, so accepted requests are at any moment exactly the ended ones and those in
//! flight.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use meridian_base::{Duration, PeerId, ReplicaId, RequestId, Time};
use meridian_routing::{
    Digest, Holdings, Input, Outcome, Output, RejectWhy, Request, Routing, State, Usage, Why,
};
use meridian_wire::admin;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::lock::{Mutex, MutexGuard};
use crate::machine::clock::Clock;
use crate::machine::outbox::Outbox;
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
    waiters: HashMap<RequestId, oneshot::Sender<Decision>>,
    /// Told which replicas are down.
    fleet: Arc<Fleet>,
    probes: mpsc::UnboundedSender<ReplicaId>,
    pub(crate) requests: admin::Requests,
    pub(crate) prefix: admin::Prefix,
    pub(crate) ttft: Window,
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
                ttft: Window::default(),
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

    /// A request enters. The ticket ends it, whatever happens to its holder.
    pub(crate) fn arrive(self: &Arc<Self>, request: Request) -> (Ticket, Verdict) {
        let id = request.id;
        let mut inner = self.lock();
        inner.requests.accepted += 1;
        inner.requests.in_flight += 1;
        let verdict = self.turn(&mut inner, id, Input::Arrived(request));
        self.rearm(inner);
        let ticket = Ticket { driver: self.clone(), id, open: true };
        (ticket, verdict)
    }

    /// Hands in an event of request `id` that leads to a decision about it.
    fn turn(&self, inner: &mut Inner, id: RequestId, input: Input) -> Verdict {
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
    fn rearm(&self, inner: MutexGuard<'_, Inner>) {
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
    fn carry_out(&mut self, own: Option<RequestId>) -> Option<Decision> {
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

/// How a request ended, in the words of the status page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    ClientError,
    Rejected,
    Failed,
    Cancelled,
}

/// What became of an attempt, beyond its outcome.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) usage: Option<Usage>,
    pub(crate) extended: Option<Vec<u64>>,
    /// Of a forward: the peer's own id of the replica that served it.
    pub(crate) served: Option<ReplicaId>,
}

/// A request in flight. Dropped without an end, it counts as cancelled by its client: that is the
/// only way a handler stops early, be it by a hang-up, a timeout or a panic, so nothing leaks.
pub(crate) struct Ticket {
    driver: Arc<Driver>,
    pub(crate) id: RequestId,
    open: bool,
}

impl Ticket {
    /// The answer began; with its TTFT where it streams, since a whole answer's first byte says
    /// nothing of its first token.
    pub(crate) fn first_token(&self, ttft: Option<Duration>) {
        let mut inner = self.driver.lock();
        if let Some(ttft) = ttft {
            inner.ttft.add(ttft.as_secs_f32() * 1e3);
        }
        let now = self.driver.clock.now();
        inner.routing.handle(now, Input::FirstToken(self.id));
        let _ = inner.carry_out(None);
        self.driver.rearm(inner);
    }

    /// An attempt failed before a byte went out: the machine decides again.
    pub(crate) fn again(&self, outcome: Outcome) -> Verdict {
        self.retry(outcome, None)
    }

    /// An answer broke off: the machine decides who goes on with it. Its prompt has these blocks
    /// now.
    pub(crate) fn go_on(&self, blocks: Vec<u64>) -> Verdict {
        self.retry(Outcome::ReplicaError, Some(blocks))
    }

    fn retry(&self, outcome: Outcome, extended: Option<Vec<u64>>) -> Verdict {
        let (id, retry) = (self.id, true);
        let input = Input::Finished { id, outcome, retry, usage: None, extended, served: None };
        let mut inner = self.driver.lock();
        let verdict = self.driver.turn(&mut inner, self.id, input);
        self.driver.rearm(inner);
        verdict
    }

    /// The request is over after an attempt.
    pub(crate) fn finish(mut self, outcome: Outcome, told: Told) {
        let end = match outcome {
            Outcome::Done => End::Done,
            Outcome::ClientError => End::ClientError,
            Outcome::Full | Outcome::NoRoom => End::Rejected,
            _ => End::Failed,
        };
        let Told { usage, extended, served } = told;
        let input = Input::Finished { id: self.id, outcome, retry: false, usage, extended, served };
        self.close(end, Some(input), usage);
    }

    /// Nobody went on with a broken answer: for its client it has failed. `outcome` is that of the
    /// attempt; none where the machine is done with it.
    pub(crate) fn broke_off(mut self, outcome: Option<Outcome>) {
        let id = self.id;
        let input = outcome.map(|outcome| Input::Finished {
            id,
            outcome,
            retry: false,
            usage: None,
            extended: None,
            served: None,
        });
        self.close(End::Failed, input, None);
    }

    /// The machine refused it: it is over there already.
    pub(crate) fn rejected(mut self, why: RejectWhy) {
        let end = match why {
            RejectWhy::RetriesExhausted { .. } | RejectWhy::EngineDied { .. } => End::Failed,
            _ => End::Rejected,
        };
        self.close(end, None, None);
    }

    fn close(&mut self, end: End, input: Option<Input>, usage: Option<Usage>) {
        self.open = false;
        let mut inner = self.driver.lock();
        inner.count(end);
        if let Some((usage, cached)) = usage.and_then(|u| u.cached_tokens.map(|c| (u, c))) {
            inner.prefix.known_prompt_tokens += u64::from(usage.prompt_tokens);
            inner.prefix.cached_tokens += u64::from(cached);
        }
        inner.waiters.remove(&self.id);
        if let Some(input) = input {
            let now = self.driver.clock.now();
            inner.routing.handle(now, input);
            let _ = inner.carry_out(None);
        }
        self.driver.rearm(inner);
    }
}

impl Inner {
    fn count(&mut self, end: End) {
        let r = &mut self.requests;
        r.in_flight -= 1;
        match end {
            End::Done => r.done += 1,
            End::ClientError => r.client_error += 1,
            End::Rejected => r.rejected += 1,
            End::Failed => r.failed += 1,
            End::Cancelled => r.cancelled += 1,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open {
            let input = Input::Cancelled(self.id);
            self.close(End::Cancelled, Some(input), None);
        }
    }
}

/// The newest samples of something, for quantiles on a status page.
#[derive(Debug, Default)]
pub(crate) struct Window {
    samples: VecDeque<f32>,
    count: u64,
}

/// Samples a window remembers.
const WINDOW: usize = 4096;

impl Window {
    pub(crate) fn add(&mut self, sample: f32) {
        if self.samples.len() == WINDOW {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.count += 1;
    }

    pub(crate) fn quantiles(&self) -> admin::Quantiles {
        let mut sorted: Vec<f32> = self.samples.iter().copied().collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let at = |q: f64| match sorted.len() {
            0 => 0.0,
            n => f64::from(sorted[((n - 1) as f64 * q).round() as usize]),
        };
        admin::Quantiles { p50: at(0.5), p99: at(0.99), count: self.count }
    }
}
