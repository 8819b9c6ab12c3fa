//! A request in flight: a ticket enters it into the machine, and the ticket's end removes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use http::HeaderValue;
use meridian_base::{Duration, ReplicaId, RequestId, mix};
use meridian_protocol::openai;
use meridian_routing::{Input, Outcome, RejectWhy, Request, Target, Usage};

use crate::facts::timeline::{Mark, Part};
use crate::facts::{DONE, Record, Shadowed};
use crate::machine::driver::{Driver, Inner, Verdict};
use crate::record::Recording;

/// How a request ended, in the terms of the status page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    ClientError,
    Rejected,
    Failed,
    Cancelled,
}

impl End {
    /// Its word in the access log and in the journal.
    fn word(self) -> &'static str {
        match self {
            End::Done => DONE,
            End::ClientError => "client_error",
            End::Rejected => "rejected",
            End::Failed => "failed",
            End::Cancelled => "cancelled",
        }
    }
}

/// Details of an ended attempt, besides its outcome.
#[derive(Default)]
pub(crate) struct Details {
    pub(crate) usage: Option<Usage>,
    pub(crate) extended: Option<Vec<u64>>,
    /// For a forward: the peer's own id of the replica that served it.
    pub(crate) served: Option<ReplicaId>,
}

/// An engine's token counts in the machine's width.
pub(crate) fn narrow(usage: openai::Usage) -> Usage {
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Usage {
        prompt_tokens: narrow(usage.prompt_tokens),
        cached_tokens: usage.cached_tokens.map(narrow),
        completion_tokens: narrow(usage.completion_tokens),
        prefill_us: usage.prefill_us.map(narrow),
    }
}

/// How a request leaves one model for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The machine refused it and already dropped it.
    Refused,
    /// After an attempt with this outcome.
    Failed(Outcome),
    /// It waits in the queue, or for the answer of an attempt.
    Waiting,
}

/// A request in flight. If it is dropped without an end, it counts as cancelled by its client. A
/// handler that stops early, after a disconnect, a timeout or a panic, drops it, so nothing leaks.
pub(crate) struct Ticket {
    driver: Arc<Driver>,
    pub(crate) id: RequestId,
    open: bool,
    /// Whether an attempt was sent.
    sent: bool,
    /// Whether an engine died under it, also under another model or in another region: exactly one
    /// more may get it.
    died: bool,
    /// Numbers given to attempts.
    given: AtomicU64,
    /// Whether a connection to a replica has ended during an attempt, before an answer.
    pub(crate) cut: AtomicBool,
    /// Emitted when the request ends.
    recording: Recording,
}

impl Ticket {
    /// Reports that the answer started; with its TTFT if it is a stream, since the first byte of a
    /// non-streamed answer says nothing about its first token.
    pub(crate) fn first_token(&mut self, ttft: Option<Duration>) {
        if let Some(ttft) = ttft {
            self.recording.first_token(ttft);
        }
        assert!(self.sent, "a first token of a request of which no attempt was sent");
        self.mark(Mark::First, None);
        let mut inner = self.driver.lock();
        if let Some(ttft) = ttft {
            inner.ttft.add(ttft.as_secs_f32() * 1e3);
        }
        let now = self.driver.clock.now();
        inner.routing.handle(now, Input::FirstToken(self.id));
        let _ = inner.carry_out(None);
        self.driver.rearm(inner);
    }

    fn new(driver: Arc<Driver>, id: RequestId, died: bool, recording: Recording) -> Ticket {
        let (given, cut) = (AtomicU64::new(0), AtomicBool::new(false));
        Ticket { driver, id, open: true, sent: false, died, given, cut, recording }
    }

    /// Whether an engine died under it.
    pub(crate) fn died(&self) -> bool {
        self.died
    }

    /// An engine died under it at a peer, which is the last before one more.
    pub(crate) fn died_elsewhere(&mut self) {
        self.died = true;
        self.driver.tell(Input::DiedElsewhere(self.id));
    }

    /// An attempt is sent.
    pub(crate) fn sends(&mut self) {
        self.sent = true;
    }

    /// Whether an engine may have worked on the request.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent
    }

    /// Notes facts in the request's record, if it has one.
    pub(crate) fn note(&mut self, fill: impl FnOnce(&mut Record)) {
        self.recording.note(fill);
    }

    /// Notes facts of its record that the metrics do not need.
    pub(crate) fn note_kept(&mut self, fill: impl FnOnce(&mut Record)) {
        self.recording.note_kept(fill);
    }

    /// Notes a moment of the attempt in progress: now, or `at`.
    pub(crate) fn mark(&self, mark: Mark, at: Option<Instant>) {
        self.recording.mark(mark, at);
    }

    /// The `traceparent` for the receiver of a part of the attempt in progress; none if the request
    /// is not traced.
    pub(crate) fn traceparent(&self, part: Part) -> Option<HeaderValue> {
        self.recording.traceparent(part)
    }

    /// Counts the request's prompt and its expected match, for the status page.
    pub(crate) fn matched(&self, prompt_tokens: u32, matched_tokens: u32) {
        let prefix = &mut self.driver.lock().prefix;
        prefix.prompt_tokens += u64::from(prompt_tokens);
        prefix.matched_tokens += u64::from(matched_tokens.min(prompt_tokens));
        let (matched, all) = (prefix.matched_tokens, prefix.prompt_tokens);
        assert!(matched <= all, "{matched} tokens match of prompts that have {all}");
    }

    /// Reports an attempt that failed before a byte was sent: the machine decides again.
    pub(crate) fn again(&mut self, outcome: Outcome) -> Verdict {
        self.died |= outcome == Outcome::Died;
        self.retry(outcome, None)
    }

    /// A number for an attempt, which no other attempt of this process has.
    pub(crate) fn fresh(&self) -> u64 {
        mix(self.id.0, self.given.fetch_add(1, Ordering::Relaxed))
    }

    /// Reports that the prefill leg succeeded.
    pub(crate) fn prefilled(&self, usage: Option<Usage>) {
        self.driver.tell(Input::Prefilled { id: self.id, usage });
    }

    /// Reports a prefill leg that failed: the machine decides again.
    pub(crate) fn prefill_failed(&mut self, outcome: Outcome) -> Verdict {
        self.died |= outcome == Outcome::Died;
        self.decide_again(Input::PrefillFailed { id: self.id, outcome })
    }

    /// Reports an answer that broke off: the machine decides which replica resumes it. `blocks` are
    /// those of the extended prompt.
    pub(crate) fn go_on(&mut self, blocks: Vec<u64>) -> Verdict {
        self.retry(Outcome::ReplicaError, Some(blocks))
    }

    fn retry(&mut self, outcome: Outcome, extended: Option<Vec<u64>>) -> Verdict {
        let (id, retry) = (self.id, true);
        self.decide_again(Input::Finished {
            id,
            outcome,
            retry,
            usage: None,
            extended,
            served: None,
        })
    }

    /// Lets the machine decide after an attempt. If it refuses, it drops the request together with the
    /// shadow's decision, which is therefore noted before.
    fn decide_again(&mut self, input: Input) -> Verdict {
        assert!(self.open, "request {:?} has ended, and is decided again", self.id);
        let mut inner = self.driver.lock();
        if let Some(shadowed) = inner.shadowed(self.id) {
            self.recording.note_kept(|record| record.shadow = Some(shadowed));
        }
        let verdict = self.driver.turn(&mut inner, self.id, input);
        self.driver.rearm(inner);
        verdict
    }

    /// Ends the request after an attempt.
    pub(crate) fn finish(mut self, outcome: Outcome, details: Details) {
        let end = match outcome {
            Outcome::Done => End::Done,
            Outcome::ClientError => End::ClientError,
            Outcome::Full | Outcome::NoRoom => End::Rejected,
            _ => End::Failed,
        };
        let Details { usage, extended, served } = details;
        let input = Input::Finished { id: self.id, outcome, retry: false, usage, extended, served };
        self.close(end, Some(input), usage);
    }

    /// Ends a request whose broken answer was not resumed: for its client it has failed. `outcome`
    /// is that of the attempt; none if the machine already dropped the request.
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

    /// Ends a request that the machine refused and already dropped.
    pub(crate) fn rejected(mut self, why: RejectWhy) {
        let end = match why {
            RejectWhy::RetriesExhausted { .. } | RejectWhy::EngineDied { .. } => End::Failed,
            _ => End::Rejected,
        };
        self.close(end, None, None);
    }

    /// Ends the request in the machine and enters it again with another model. It stays one request:
    /// the counts do not change, and the record goes on.
    pub(crate) fn instead(
        mut self,
        left: Left,
        request: Request,
        note: impl FnOnce(&mut Recording),
    ) -> (Ticket, Verdict) {
        assert!(self.open, "request {:?} has ended, and continues with another model", self.id);
        assert_ne!(self.id, request.id, "each run of a request has an id of its own");
        self.open = false;
        let mut recording = std::mem::take(&mut self.recording);
        note(&mut recording);
        let (driver, old, id) = (self.driver.clone(), self.id, request.id);
        let request = Request { died: self.died || request.died, ..request };
        let died = request.died;
        let input = match left {
            Left::Refused => None,
            Left::Failed(outcome) => Some(Input::Finished {
                id: old,
                outcome,
                retry: false,
                usage: None,
                extended: None,
                served: None,
            }),
            Left::Waiting => Some(Input::Cancelled(old)),
        };
        let mut inner = driver.lock();
        inner.waiters.remove(&old);
        if let Some(input) = input {
            inner.routing.handle(driver.clock.now(), input);
            let _ = inner.carry_out(None);
        }
        let verdict = driver.turn(&mut inner, id, Input::Arrived(request));
        driver.rearm(inner);
        (Ticket::new(driver, id, died, recording), verdict)
    }

    fn close(&mut self, end: End, input: Option<Input>, usage: Option<Usage>) {
        assert!(self.open, "request {:?} ends twice, the second time as {end:?}", self.id);
        self.open = false;
        let mut inner = self.driver.lock();
        inner.count(end);
        inner.output_tokens += usage.map_or(0, |usage| u64::from(usage.completion_tokens));
        if let Some((usage, cached)) = usage.and_then(|u| u.cached_tokens.map(|c| (u, c))) {
            inner.prefix.known_prompt_tokens += u64::from(usage.prompt_tokens);
            inner.prefix.cached_tokens += u64::from(cached);
        }
        inner.waiters.remove(&self.id);
        if let Some(shadowed) = inner.shadowed(self.id) {
            self.recording.note_kept(|record| record.shadow = Some(shadowed));
        }
        if let Some(input) = input {
            let now = self.driver.clock.now();
            inner.routing.handle(now, input);
            let _ = inner.carry_out(None);
        }
        self.driver.rearm(inner);
        self.recording.end(end.word());
    }
}

impl Driver {
    /// Enters a request. The ticket removes it again, whatever happens to its owner.
    pub(crate) fn arrive(
        self: &Arc<Self>,
        request: Request,
        mut recording: Recording,
    ) -> (Ticket, Verdict) {
        let (id, died) = (request.id, request.died);
        let mut inner = self.lock();
        inner.requests.accepted += 1;
        inner.requests.in_flight += 1;
        recording.note(|record| record.policy = Some(inner.routing.config().policy.name));
        let verdict = self.turn(&mut inner, id, Input::Arrived(request));
        self.rearm(inner);
        (Ticket::new(self.clone(), id, died, recording), verdict)
    }
}

impl Inner {
    /// The shadow's newest decision about a request that the machine has.
    fn shadowed(&self, id: RequestId) -> Option<Shadowed> {
        let seen = self.routing.shadowed(id)?;
        let replica = match seen.pick {
            Some((Target::Replica(id), _)) => self.replicas.name(id),
            _ => None,
        };
        Some(Shadowed { seen, replica })
    }

    fn count(&mut self, end: End) {
        let r = &mut self.requests;
        assert!(r.in_flight > 0, "more requests end than were accepted");
        r.in_flight -= 1;
        match end {
            End::Done => r.done += 1,
            End::ClientError => r.client_error += 1,
            End::Rejected => r.rejected += 1,
            End::Failed => r.failed += 1,
            End::Cancelled => r.cancelled += 1,
        }
        let ended = r.done + r.client_error + r.rejected + r.failed + r.cancelled;
        assert_eq!(r.accepted, ended + r.in_flight, "each accepted request ends once");
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
