//! Hops 7 and 8: an answer on its way to the client.
//!
//! Bytes go out as they come. On the side the relay notices the first token, the end, the usage
//! and (where the policy learns from it) the reply, and tells the machine. It ends in exactly one
//! of three ways: whole, cut short by the replica, or dropped by the client. Where a stream that is
//! cut short may be gone on with, [`crate::request::resume`] looks for somebody who does.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame};
use meridian_base::{Fingerprinter, ModelId, ReplicaId};
use meridian_routing::{Outcome, Usage};
use meridian_wire::openai::{self, Answer, Endpoint, Summary, error_event};
use meridian_wire::peer::usage_of;

use crate::http::body::CutShort;
use crate::http::limits::Permit;
use crate::inputs::pins::{Home, ResponseKey};
use crate::inputs::rate::Charge;
use crate::machine::driver::{Ticket, Told};
use crate::peers::{Leg, LegEnd, Report};
use crate::replicas::fleet::Member;
use crate::replicas::upstream::Flow;
use crate::request::attempt::Begun;
use crate::request::lifecycle::{Job, Sending, source, undoes};
use crate::request::odd::{Odd, Oddity};
use crate::request::resume::{Going, Gone, Resume, go_on};
use crate::request::silence::Silence;
use crate::worker::Worker;

/// What the relay needs to know of the request.
pub(crate) struct Follow {
    shared: Arc<Worker>,
    endpoint: Endpoint,
    streams: bool,
    /// The end of the connection would pass for the end of the answer.
    until_close: bool,
    model: ModelId,
    /// The keyed hash of the tenant's name.
    tenant: u64,
    source: Source,
    /// Of an answer for a peer.
    report: Option<Arc<Report>>,
    /// The prompt's fingerprint, where the reply is to be added to it.
    prompt: Option<Fingerprinter>,
    prompt_bytes: u64,
    /// When the request came.
    began: Instant,
    /// Given back when the answer is out.
    permits: Vec<Permit>,
    /// Settled when the answer is out.
    charge: Option<Charge>,
    /// Where a broken stream may be gone on with.
    resume: Option<Box<Resume>>,
}

/// Who answers.
pub(crate) struct Source {
    pub(crate) home: Home,
    /// The replica; none of a peer's answer.
    pub(crate) member: Option<Arc<Member>>,
    /// Of a peer's answer.
    pub(crate) away: Option<Away>,
    /// When this attempt was sent.
    pub(crate) sent: Instant,
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
    /// Somebody is looked for who goes on with it.
    going: Option<Going>,
    /// A piece that is here already.
    ready: Option<Bytes>,
    /// None once the answer's own end was seen.
    open: Option<(Answer, Ticket)>,
    follow: Follow,
    silence: Silence,
    saw_first: bool,
    oddity: Oddity,
    /// A peer's answer came to its own end, and what the peer says of it has not come.
    saw_end: bool,
}

/// Of a stream that nobody goes on with.
const NOWHERE: &str = "the replica's answer broke off, and nobody could go on with it";

type Piece = Option<Result<Frame<Bytes>, CutShort>>;

impl Relay {
    pub(crate) fn new(
        upstream: Flow,
        first: Option<Bytes>,
        open: (Answer, Ticket),
        follow: Follow,
    ) -> Relay {
        let silence = follow.silence();
        let upstream = Some(upstream);
        let oddity = follow.oddity();
        Relay {
            upstream,
            going: None,
            ready: first,
            open: Some(open),
            follow,
            silence,
            saw_first: false,
            oddity,
            saw_end: false,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.upstream.is_none() && self.ready.is_none() && self.going.is_none()
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        loop {
            if let Some(piece) = self.ready.take() {
                let pass = self.pass(piece);
                if !pass.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(pass))));
                }
            }
            if let Some(going) = &mut self.going {
                match ready!(going.as_mut().poll(cx)) {
                    Gone::On { resume, ticket, sending, begun } => {
                        self.go_on(resume, ticket, &sending, *begun);
                    }
                    Gone::Nowhere => {
                        self.going = None;
                        self.follow.permits.clear();
                        return Poll::Ready(Some(self.follow.failed(NOWHERE, &[])));
                    }
                }
                continue;
            }
            let Some(upstream) = &mut self.upstream else { return Poll::Ready(None) };
            let ended = match Pin::new(upstream).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    match frame.into_data() {
                        Ok(data) => self.ready = Some(data),
                        // Trailers end an answer; of the engines none sends any.
                        Err(frame) => self.trailers(frame.trailers_ref()),
                    }
                    continue;
                }
                Poll::Ready(None) => self.upstream_ended(),
                Poll::Ready(Some(Err(_))) => self.broken("the replica's answer broke off"),
                Poll::Pending => {
                    let why = ready!(self.silence.poll(cx));
                    self.broken(why)
                }
            };
            // Unless somebody is looked for who goes on with it, that was all.
            if self.going.is_none() {
                return Poll::Ready(ended);
            }
        }
    }

    /// Looks at a piece on its way through; what is returned goes out.
    fn pass(&mut self, piece: Bytes) -> Bytes {
        self.silence.heard();
        if let Some(away) = &self.follow.source.away {
            away.leg.answered(piece.len());
        }
        let Some((answer, ticket)) = &mut self.open else {
            self.follow.count(self.oddity.after_end(&piece));
            return piece;
        };
        self.follow.count(self.oddity.piece(&piece));
        let piece = match &mut self.follow.resume {
            Some(resume) => resume.thread.feed(piece),
            None => piece,
        };
        let feed = answer.feed(piece);
        if feed.ended {
            self.follow.count(self.oddity.last_piece(&feed.pass));
        }
        if feed.first_token || (!self.saw_first && !self.follow.streams) {
            // The client has one first token, each attempt its own.
            let first = !std::mem::replace(&mut self.saw_first, true) && self.follow.streams;
            let ttft = first.then(|| self.follow.began.elapsed());
            if let Some(ttft) = ttft {
                self.follow.shared.metrics.first_token(ttft);
            }
            ticket.first_token(ttft);
        }
        // A body of known length may never be asked for its end.
        let whole = self.upstream.as_ref().is_none_or(Flow::is_end_stream);
        // A foreign path's answer may be more than the one object that its beginning looks like.
        let ended = feed.ended && !self.follow.endpoint.passes_unread();
        if ended && self.follow.streams && self.follow.source.away.is_some() {
            self.saw_end = true;
        } else if ended || (whole && !self.follow.streams) {
            let rest = self.close(Outcome::Done);
            return join(feed.pass, rest);
        }
        feed.pass
    }

    /// Tells the machine how it ended; returns bytes that were still held back.
    fn close(&mut self, outcome: Outcome) -> Bytes {
        let Some((mut answer, ticket)) = self.open.take() else { return Bytes::new() };
        let follow = &mut self.follow;
        let mut resume = follow.resume.take();
        let held = resume
            .as_mut()
            .map_or_else(Bytes::new, |resume| answer.feed(resume.thread.rest()).pass);
        let summary = answer.finish();
        if outcome == Outcome::Done {
            follow.count(self.oddity.ended(summary.complete));
        }
        let away = follow.source.away.take();
        let later = resume.as_ref().filter(|resume| resume.is_later());
        let told = summary.usage.or_else(|| {
            let of_peer = away.as_ref()?.usage?;
            Some(later.map_or(of_peer, |resume| resume.whole(of_peer)))
        });
        if let (Some(report), Some(told)) = (&follow.report, told) {
            report.set(told);
        }
        let usage = told.map(usage);
        if let Some(usage) = usage {
            follow.shared.ratios.learn(follow.model, follow.prompt_bytes, usage.prompt_tokens);
            if let Some(charge) = &mut follow.charge {
                charge.counted(usage);
            }
        }
        follow.charge = None;
        if let Some(id) = &summary.response_id {
            let response = follow.shared.hash(Some(id.as_bytes()));
            follow
                .shared
                .pins
                .set(ResponseKey { tenant: follow.tenant, response }, follow.source.home);
        }
        let Summary { reply, rest, .. } = summary;
        let reply = later.map_or(reply, |resume| resume.thread.text().map(<[u8]>::to_vec));
        let extended = extended(follow.endpoint, follow.prompt.take(), reply.as_deref());
        follow.shared.metrics.ended(outcome, follow.began.elapsed(), follow.source.sent.elapsed());
        follow.permits.clear();
        let served = away.as_ref().and_then(|away| away.served);
        if let Some(away) = away {
            away.leg.end(leg_end(outcome));
        }
        // What the whole took is not what this replica had to do, so it is not judged by it.
        let usage = usage.filter(|_| later.is_none());
        ticket.finish(outcome, Told { usage, extended, served });
        join(held, rest)
    }

    /// What a peer says of its answer, after the last byte.
    fn trailers(&mut self, trailers: Option<&HeaderMap>) {
        if let (Some(away), Some(trailers)) = (&mut self.follow.source.away, trailers) {
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

    /// The replica cut the answer short. Somebody else goes on with it where that can be; else a
    /// stream ends with an error event, anything else with a closed connection.
    fn broken(&mut self, message: &'static str) -> Piece {
        self.upstream = None;
        // When its own end was seen, only the transfer's end is missing.
        self.open.as_ref()?;
        if self.saw_end {
            self.close(Outcome::Done);
            return None;
        }
        tracing::warn!(from = ?self.follow.source.home, message, "answer cut short");
        if self.look_for_another() {
            return None;
        }
        let rest = self.close(Outcome::ReplicaError);
        Some(self.follow.failed(message, &rest))
    }

    /// Begins to look for somebody who goes on with a broken stream; false where nobody can.
    fn look_for_another(&mut self) -> bool {
        let follow = &mut self.follow;
        let Some(mut resume) = follow.resume.take() else { return false };
        let blocks = match resume.take_up(&follow.shared) {
            Ok(blocks) => blocks,
            Err(why) => {
                follow.shared.metrics.resumed(why);
                tracing::info!(why, "the broken stream can't be gone on with");
                return false;
            }
        };
        let Some((_, ticket)) = self.open.take() else { return false };
        if let Some(away) = follow.source.away.take() {
            away.leg.end(LegEnd::Failed);
        }
        let verdict = ticket.go_on(blocks);
        self.going = Some(Box::pin(go_on(follow.shared.clone(), resume, ticket, verdict)));
        true
    }

    /// Another answer has begun.
    fn go_on(&mut self, resume: Box<Resume>, ticket: Ticket, sending: &Sending, begun: Begun) {
        let Begun { head, body, first, sent, leg } = begun;
        let follow = &mut self.follow;
        let undo = undoes(&follow.shared, &resume.job, &sending.target);
        self.open = Some((Answer::new(follow.endpoint, true, undo, false), ticket));
        follow.source = source(&sending.target, &head, leg, sent);
        follow.resume = Some(resume);
        (self.upstream, self.ready, self.going) = (Some(body), first, None);
        self.silence = self.follow.silence();
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
    /// Of an answer of which it is known whether it streams, whether it lasts until its connection
    /// closes, and whether its reply is wanted.
    pub(crate) fn new(
        shared: &Arc<Worker>,
        mut job: Job,
        source: Source,
        (streams, until_close, collect): (bool, bool, bool),
    ) -> Follow {
        let mut follow = Follow {
            shared: shared.clone(),
            endpoint: job.endpoint,
            streams,
            until_close,
            model: job.model,
            tenant: job.tenant_hash,
            source,
            report: job.report.clone(),
            prompt: None,
            prompt_bytes: job.info.prompt_bytes,
            began: job.began,
            permits: std::mem::take(&mut job.permits),
            charge: job.charge.take(),
            resume: None,
        };
        if streams && shared.config.resume.is_some() {
            follow.prompt = collect.then(|| job.info.fingerprint.clone());
            follow.resume = Resume::new(shared, job);
        } else {
            follow.prompt = collect.then_some(job.info.fingerprint);
        }
        follow
    }

    /// How a broken answer ends, `rest` being what was held back of it.
    fn failed(&self, message: &str, rest: &[u8]) -> Result<Frame<Bytes>, CutShort> {
        // A peer is told by the cut itself; its own relay writes the event.
        if !self.streams || self.report.is_some() {
            return Err(CutShort);
        }
        let message = format!("{message}; send the request again");
        let event = error_event(self.endpoint, 502, "replica_failed", &message);
        // A half-sent event is closed first, or the client would read the error as part of it.
        Ok(Frame::data([rest, b"\n\n", &event].concat().into()))
    }

    fn oddity(&self) -> Oddity {
        let whole = self.endpoint.is_generation() && !self.streams;
        Oddity::new(whole && self.source.member.is_some())
    }

    fn count(&self, odd: Option<Odd>) {
        if let Some(odd) = odd.filter(|_| self.source.member.is_some()) {
            self.shared.metrics.odd(odd);
        }
    }

    fn silence(&self) -> Silence {
        Silence::new(&self.shared.config.timeouts, self.source.member.clone())
    }
}

fn join(a: Bytes, b: Bytes) -> Bytes {
    match (a.is_empty(), b.is_empty()) {
        (_, true) => a,
        (true, _) => b,
        _ => Bytes::from([a, b].concat()),
    }
}

fn leg_end(outcome: Outcome) -> LegEnd {
    match outcome {
        Outcome::Done => LegEnd::Done,
        Outcome::ClientError => LegEnd::ClientError,
        Outcome::Full | Outcome::NoRoom => LegEnd::Refused,
        _ => LegEnd::Failed,
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
