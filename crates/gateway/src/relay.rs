//! Hops 7 and 8: an answer on its way to the client.
//!
//! Bytes go out as they come. On the side the relay notices the first token, the end, the usage
//! and (where the policy learns from it) the reply, and tells the machine. It ends in exactly one
//! of three ways: whole, cut short by the replica, or dropped by the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame};
use meridian_base::{Fingerprinter, ModelId, ReplicaId};
use meridian_routing::{Outcome, Usage};
use meridian_wire::openai::{self, Answer, Endpoint, Summary, error_event};
use meridian_wire::peer::usage_of;
use tokio::time::Sleep;

use crate::body::CutShort;
use crate::driver::{Ticket, Told};
use crate::limits::Permit;
use crate::peers::{Leg, LegEnd, Report};
use crate::pins::Home;
use crate::upstream::Flow;
use crate::worker::Worker;

/// What the relay needs to know of the request.
pub(crate) struct Follow {
    pub(crate) shared: Arc<Worker>,
    pub(crate) endpoint: Endpoint,
    pub(crate) streams: bool,
    /// The end of the connection would pass for the end of the answer.
    pub(crate) until_close: bool,
    pub(crate) model: ModelId,
    /// Who answers.
    pub(crate) home: Home,
    /// Of a peer's answer.
    pub(crate) away: Option<Away>,
    /// Of an answer for a peer.
    pub(crate) report: Option<Arc<Report>>,
    /// The prompt's fingerprint, where the reply is to be added to it.
    pub(crate) prompt: Option<Fingerprinter>,
    pub(crate) prompt_bytes: u64,
    /// When the request came, and when this attempt was sent.
    pub(crate) began: Instant,
    pub(crate) sent: Instant,
    /// Given back when the answer is out.
    pub(crate) permits: Vec<Permit>,
}

/// What there is beside a peer's answer.
pub(crate) struct Away {
    pub(crate) leg: Leg,
    /// The peer's own id of its replica.
    pub(crate) served: Option<ReplicaId>,
    /// Told in its trailers.
    pub(crate) usage: Option<openai::Usage>,
}

pub(crate) struct Relay {
    /// The replica's answer; none once it has ended.
    upstream: Option<Flow>,
    /// A piece that is here already.
    ready: Option<Bytes>,
    /// None once the answer's own end was seen.
    open: Option<(Answer, Ticket)>,
    follow: Follow,
    idle: Pin<Box<Sleep>>,
    last: tokio::time::Instant,
    saw_first: bool,
    /// A peer's answer came to its own end, and what the peer says of it has not come.
    saw_end: bool,
}

type Piece = Option<Result<Frame<Bytes>, CutShort>>;

impl Relay {
    pub(crate) fn new(
        upstream: Flow,
        first: Option<Bytes>,
        answer: Answer,
        ticket: Ticket,
        follow: Follow,
    ) -> Relay {
        let last = tokio::time::Instant::now();
        let idle = Box::pin(tokio::time::sleep_until(last + follow.patience()));
        let upstream = Some(upstream);
        Relay {
            upstream,
            ready: first,
            open: Some((answer, ticket)),
            follow,
            idle,
            last,
            saw_first: false,
            saw_end: false,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.upstream.is_none() && self.ready.is_none()
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        loop {
            if let Some(piece) = self.ready.take() {
                let pass = self.pass(piece);
                if !pass.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(pass))));
                }
            }
            let Some(upstream) = &mut self.upstream else { return Poll::Ready(None) };
            match Pin::new(upstream).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.ready = Some(data),
                    // Trailers end an answer; of the engines none sends any.
                    Err(frame) => self.trailers(frame.trailers_ref()),
                },
                Poll::Ready(None) => return Poll::Ready(self.upstream_ended()),
                Poll::Ready(Some(Err(_))) => {
                    return Poll::Ready(self.broken("the replica's answer broke off"));
                }
                Poll::Pending => match self.is_idle_too_long(cx) {
                    true => {
                        return Poll::Ready(self.broken("the replica fell silent (timeouts.idle)"));
                    }
                    false => return Poll::Pending,
                },
            }
        }
    }

    /// Looks at a piece on its way through; what is returned goes out.
    fn pass(&mut self, piece: Bytes) -> Bytes {
        self.last = tokio::time::Instant::now();
        if let Some(away) = &self.follow.away {
            away.leg.answered(piece.len());
        }
        let Some((answer, ticket)) = &mut self.open else { return piece };
        let feed = answer.feed(piece);
        if feed.first_token || (!self.saw_first && !self.follow.streams) {
            self.saw_first = true;
            let ttft = self.follow.streams.then(|| self.follow.began.elapsed());
            if let Some(ttft) = ttft {
                self.follow.shared.metrics.first_token(ttft);
            }
            ticket.first_token(ttft);
        }
        // A body of known length may never be asked for its end.
        let whole = self.upstream.as_ref().is_none_or(Flow::is_end_stream);
        // A foreign path's answer may be more than the one object that its beginning looks like.
        let ended = feed.ended && self.follow.endpoint != Endpoint::Other;
        if ended && self.follow.streams && self.follow.away.is_some() {
            self.saw_end = true;
        } else if ended || (whole && !self.follow.streams) {
            let rest = self.close(Outcome::Done);
            if !rest.is_empty() {
                return [feed.pass, rest].concat().into();
            }
        }
        feed.pass
    }

    /// Tells the machine how it ended; returns bytes that were still held back.
    fn close(&mut self, outcome: Outcome) -> Bytes {
        let Some((answer, ticket)) = self.open.take() else { return Bytes::new() };
        let summary = answer.finish();
        let follow = &mut self.follow;
        let away = follow.away.take();
        let told = summary.usage.or(away.as_ref().and_then(|away| away.usage));
        if let (Some(report), Some(told)) = (&follow.report, told) {
            report.set(told);
        }
        let usage = told.map(usage);
        if let Some(usage) = usage {
            follow.shared.ratios.learn(follow.model, follow.prompt_bytes, usage.prompt_tokens);
        }
        if let Some(id) = &summary.response_id {
            follow.shared.pins.set(follow.shared.hash(Some(id.as_bytes())), follow.home);
        }
        let Summary { reply, rest, .. } = summary;
        let extended = extended(follow.endpoint, follow.prompt.take(), reply.as_deref());
        follow.shared.metrics.ended(outcome, follow.began.elapsed(), follow.sent.elapsed());
        follow.permits.clear();
        let served = away.as_ref().and_then(|away| away.served);
        if let Some(away) = away {
            away.leg.end(leg_end(outcome));
        }
        ticket.finish(outcome, Told { usage, extended, served });
        rest
    }

    /// What a peer says of its answer, after the last byte.
    fn trailers(&mut self, trailers: Option<&HeaderMap>) {
        if let (Some(away), Some(trailers)) = (&mut self.follow.away, trailers) {
            away.usage = usage_of(trailers);
        }
    }

    fn upstream_ended(&mut self) -> Piece {
        if self.open.is_some() && !self.saw_end {
            if self.follow.streams {
                return self.broken("the replica ended the stream before its end marker");
            }
            if self.follow.until_close {
                return self.broken("the replica closed the connection before its answer's end");
            }
        }
        self.upstream = None;
        let rest = self.close(Outcome::Done);
        (!rest.is_empty()).then(|| Ok(Frame::data(rest)))
    }

    /// The replica cut the answer short: a stream ends with an error event, anything else with a
    /// closed connection.
    fn broken(&mut self, message: &str) -> Piece {
        self.upstream = None;
        // When its own end was seen, only the transfer's end is missing.
        self.open.as_ref()?;
        if self.saw_end {
            self.close(Outcome::Done);
            return None;
        }
        tracing::warn!(from = ?self.follow.home, message, "answer cut short");
        let rest = self.close(Outcome::ReplicaError);
        // A peer is told by the cut itself; its own relay writes the event.
        if !self.follow.streams || self.follow.report.is_some() {
            return Some(Err(CutShort));
        }
        let message = format!("{message}; send the request again");
        let event = error_event(self.follow.endpoint, 502, "replica_failed", &message);
        // A half-sent event is closed first, or the client would read the error as part of it.
        Some(Ok(Frame::data([&rest[..], b"\n\n", &event].concat().into())))
    }

    /// The sleep is set anew only when it fires, not with every piece.
    fn is_idle_too_long(&mut self, cx: &mut Context<'_>) -> bool {
        while self.idle.as_mut().poll(cx).is_ready() {
            let due = self.last + self.follow.patience();
            if due <= tokio::time::Instant::now() {
                return true;
            }
            self.idle.as_mut().reset(due);
        }
        false
    }
}

impl Drop for Relay {
    /// A client that has the whole answer need not wait for what a peer says of it.
    fn drop(&mut self) {
        if self.saw_end {
            self.close(Outcome::Done);
        }
    }
}

impl Follow {
    fn patience(&self) -> Duration {
        self.shared.config.timeouts.idle.0
    }
}

fn leg_end(outcome: Outcome) -> LegEnd {
    match outcome {
        Outcome::Done => LegEnd::Done,
        Outcome::ClientError => LegEnd::ClientError,
        Outcome::Full => LegEnd::Refused,
        Outcome::ReplicaError => LegEnd::Failed,
    }
}

/// The prompt's fingerprint, extended by the reply: what the next turn begins with.
fn extended(
    endpoint: Endpoint,
    prompt: Option<Fingerprinter>,
    reply: Option<&[u8]>,
) -> Option<Vec<u64>> {
    let (mut prompt, reply) = (prompt?, reply?);
    openai::push_reply(endpoint, &mut prompt, reply);
    Some(prompt.into_blocks())
}

fn usage(usage: openai::Usage) -> Usage {
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Usage {
        prompt_tokens: narrow(usage.prompt_tokens),
        cached_tokens: usage.cached_tokens.map(narrow),
        completion_tokens: narrow(usage.completion_tokens),
        prefill_us: usage.prefill_us.map(narrow),
    }
}
