//! The times of a request's hops: admission, the queue, and each attempt with its connection, its
//! legs and its first token.
//!
//! The parts of an attempt only share the record with the request's task, so its times are atomic:
//! nanoseconds since it began. They are kept even if the client disconnects in
//! the middle of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::uri::Authority;
use http::{HeaderValue, Method, StatusCode};

use super::detach;
use super::trace::Trace;

/// Spans that one attempt may have: their ids must not change while it runs.
const SPANS: u64 = 16;

/// The hops of one request.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Its place in a trace, if it is traced.
    pub(crate) trace: Option<Trace>,
    pub(crate) method: Method,
    /// When its body had been read.
    pub(crate) received: Option<Instant>,
    /// When the routing machine got it.
    pub(crate) admitted: Option<Instant>,
    /// Waits in the queue.
    pub(crate) waits: Vec<(Instant, Instant)>,
    pub(crate) attempts: Vec<AttemptTimes>,
}

/// A moment in an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    /// The prefill leg is being sent.
    PrefillSent,
    /// Its answer has arrived.
    Prefilled,
    /// The request, or its decode leg, is being sent.
    Sent,
    /// A connection to the replica was there.
    Connected,
    /// The head of the answer has arrived.
    Head,
    /// The first token has arrived, or the first piece of an answer that does not stream.
    First,
}

/// The number of marks.
const MARKS: usize = Mark::First as usize + 1;

/// One attempt.
#[derive(Debug)]
pub(crate) struct AttemptTimes {
    pub(crate) began: Instant,
    /// Nanoseconds since then, by mark; 0 for a moment that was not seen.
    marks: [AtomicU64; MARKS],
    pub(crate) ended: Option<Instant>,
    /// How it failed; none for the last attempt, which ends with the request.
    pub(crate) failed: Option<&'static str>,
    pub(crate) to: To,
    /// The status of its answer.
    pub(crate) status: Option<StatusCode>,
}

/// The destination of an attempt.
#[derive(Debug, Default)]
pub(crate) struct To {
    /// The replica, by its name in its region. A peer reports it with the answer.
    pub(crate) replica: Option<HeaderValue>,
    /// The replica that computes the prompt, if it is another one.
    pub(crate) prefill: Option<HeaderValue>,
    pub(crate) peer: Option<HeaderValue>,
    pub(crate) region: Option<HeaderValue>,
    /// The address of the replica, or of the peer.
    pub(crate) address: Option<Authority>,
    /// The address of the replica that computes the prompt.
    pub(crate) prefill_address: Option<Authority>,
    /// The policy's reason.
    pub(crate) reason: &'static str,
    /// Tokens of the prompt expected in its cache.
    pub(crate) matched: u32,
}

/// A part of an attempt that has an id of its own for the receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Part {
    #[default]
    Whole,
    Prefill,
    Decode,
}

impl Timeline {
    /// Copies the values that came in a head ([`Record::detach`](super::Record::detach)).
    pub(crate) fn detach(&mut self) {
        let state = self.trace.iter_mut().filter_map(|trace| trace.state.as_mut());
        let to = self.attempts.iter_mut().map(|times| &mut times.to);
        let named = to.flat_map(|to| [&mut to.replica, &mut to.prefill, &mut to.region]);
        state.chain(named.flatten()).for_each(detach);
    }

    /// An attempt begins.
    pub(crate) fn begin(&mut self, to: To) {
        let ended = self.attempts.last().is_none_or(|times| times.ended.is_some());
        assert!(ended, "an attempt begins, and the one before has no end");
        // Most requests have one.
        self.attempts.reserve_exact(1);
        self.attempts.push(AttemptTimes {
            began: Instant::now(),
            marks: Default::default(),
            ended: None,
            failed: None,
            to,
            status: None,
        });
    }

    /// The attempt in progress.
    pub(crate) fn current(&mut self) -> Option<&mut AttemptTimes> {
        self.attempts.last_mut()
    }

    /// Notes a moment of the attempt in progress.
    pub(crate) fn mark(&self, mark: Mark, at: Instant) {
        if let Some(times) = self.attempts.last() {
            let since = at.saturating_duration_since(times.began).as_nanos();
            let since = u64::try_from(since).unwrap_or(u64::MAX).max(1);
            times.marks[mark as usize].store(since, Ordering::Relaxed);
        }
    }

    /// The `traceparent` for the receiver of a part of the attempt in progress.
    pub(crate) fn header(&self, part: Part) -> Option<HeaderValue> {
        let (trace, attempt) = (self.trace.as_ref()?, self.attempts.len().checked_sub(1)?);
        Some(trace.header(span_number(attempt, part as u64)))
    }
}

/// The number of an attempt's span.
pub(crate) fn span_number(attempt: usize, span: u64) -> u64 {
    assert!(span < SPANS, "span {span} would have the number of another attempt's");
    (attempt as u64 + 1) * SPANS + span
}

impl AttemptTimes {
    /// The attempt failed.
    pub(crate) fn fail(&mut self, why: &'static str, status: Option<StatusCode>) {
        self.ended.get_or_insert_with(Instant::now);
        self.failed = Some(why);
        self.status = status.or(self.status);
    }

    /// Its answer has started; a peer names the replicas.
    pub(crate) fn answered(&mut self, status: StatusCode) -> &mut To {
        self.status = Some(status);
        &mut self.to
    }

    /// When a moment was seen.
    pub(crate) fn at(&self, mark: Mark) -> Option<Instant> {
        let since = self.marks[mark as usize].load(Ordering::Relaxed);
        (since > 0).then(|| self.began + Duration::from_nanos(since))
    }
}
