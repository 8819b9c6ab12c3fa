//! The part of a request that its relay keeps until the answer is delivered. It outlives attempts:
//! a stream that breaks and resumes on another replica is one delivery.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body::Frame;
use meridian_base::{Fingerprinter, ModelId};
use meridian_protocol::openai::{self, Endpoint, error_event};
use meridian_routing::{Outcome, Usage};

use crate::inputs::pins::ResponseKey;
use crate::machine::ticket::{Ticket, narrow};
use crate::metrics::KvAlarm;
use crate::peers::report::Report;
use crate::replicas::member::Member;
use crate::request::answer::incoming::CutShort;
use crate::request::answer::mismatch::Mismatch;
use crate::request::answer::resume::Resume;
use crate::request::context::{Payload, RequestContext};
use crate::request::reserved::Reserved;
use crate::request::send::Attempts;
use crate::request::send::transport::AnsweredBy;
use crate::settings::Settings;

/// How to detect the end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A stream of events, with an end mark.
    Events,
    /// One body, whose end is marked by HTTP.
    Whole,
    /// One body, which ends when the replica closes the connection.
    UntilClose,
}

impl Form {
    /// The error if the bytes end before the answer does; none if HTTP marks the end.
    pub(crate) fn cut_short(self) -> Option<&'static str> {
        match self {
            Form::Events => Some("the replica ended the stream before its end marker"),
            Form::UntilClose => {
                Some("the replica closed the connection before the end of its answer")
            }
            Form::Whole => None,
        }
    }
}

/// The delivery of one answer to its client.
pub(crate) struct Delivery {
    pub(crate) attempts: Arc<Attempts>,
    /// The settings at the request's arrival.
    pub(crate) settings: Arc<Settings>,
    pub(crate) endpoint: Endpoint,
    pub(crate) form: Form,
    model: ModelId,
    /// Keyed hash of the tenant's name.
    tenant: u64,
    session: Option<u64>,
    /// Carries the usage to the peer that forwarded the request.
    report: Option<Arc<Report>>,
    /// The prompt's fingerprint, if the reply should be added to it.
    prompt: Option<Fingerprinter>,
    prompt_bytes: u64,
    /// Estimated tokens of the prompt.
    prompt_tokens: u32,
    began: Instant,
    pub(crate) reserved: Reserved,
    saw_first: bool,
}

impl Delivery {
    /// The delivery of an answer, with the state to resume it if it is a stream and `resume` is
    /// set. `collect`: the policy learns from the reply.
    pub(crate) fn new(
        attempts: &Arc<Attempts>,
        context: RequestContext,
        payload: Payload,
        reserved: Reserved,
        form: Form,
        collect: bool,
    ) -> (Delivery, Option<Box<Resume>>) {
        let mut delivery = Delivery {
            attempts: attempts.clone(),
            settings: context.settings.clone(),
            endpoint: context.call.endpoint,
            form,
            model: context.prompt.model,
            tenant: context.sender.tenant,
            session: context.sender.session,
            report: context.sender.report.clone(),
            prompt: None,
            prompt_bytes: context.prompt.info.prompt_bytes,
            prompt_tokens: context.prompt.tokens,
            began: context.began,
            reserved,
            saw_first: false,
        };
        if let Some(resume) = context.settings.resume.filter(|_| form == Form::Events) {
            delivery.prompt = collect.then(|| context.prompt.info.fingerprint.clone());
            return (delivery, Resume::new(&resume, context, payload));
        }
        delivery.prompt = collect.then_some(context.prompt.info.fingerprint);
        (delivery, None)
    }

    /// An attempt's first token arrived. The client sees one first token, but each attempt has its
    /// own.
    pub(crate) fn first_token(&mut self, ticket: &mut Ticket) {
        let first = !std::mem::replace(&mut self.saw_first, true) && self.form == Form::Events;
        let ttft = first.then(|| self.began.elapsed());
        ticket.first_token(ttft);
    }

    /// Whether the first piece of a non-streamed body has yet to be reported as the first token.
    pub(crate) fn is_unseen(&self) -> bool {
        !self.saw_first && self.form != Form::Events
    }

    pub(crate) fn count(&self, found: Option<Mismatch>) {
        if let Some(found) = found {
            self.attempts.plane.metrics.odd(found.word());
        }
    }

    /// Takes the engine's token count: reports it to the peer that forwarded the request, and
    /// learns the ratio of tokens to bytes from it.
    pub(crate) fn counted(&self, usage: openai::Usage) -> Usage {
        if let Some(report) = &self.report {
            report.set(usage);
        }
        let usage = narrow(usage);
        self.attempts.plane.inputs.ratios.learn(self.model, self.prompt_bytes, usage.prompt_tokens);
        usage
    }

    /// The tokens of an answer that ended before its count: a part of the count, as far as the engine
    /// reported it, and the pieces that passed. None if nothing passed.
    pub(crate) fn estimated(&self, part: Option<openai::Usage>, pieces: u32) -> Option<Usage> {
        let part = part.map(narrow);
        let completion_tokens = part.map_or(0, |part| part.completion_tokens).max(pieces);
        let of_prompt = part.map(|part| part.prompt_tokens).filter(|tokens| *tokens > 0);
        (part.is_some() || pieces > 0).then(|| Usage {
            prompt_tokens: of_prompt.unwrap_or(self.prompt_tokens),
            cached_tokens: part.and_then(|part| part.cached_tokens),
            completion_tokens,
            prefill_us: None,
        })
    }

    /// Raises an alarm if a replica found more tokens in its cache than the prompt has: it used the
    /// KV of another prompt.
    pub(crate) fn check_cached(&self, usage: &openai::Usage, member: &Member) {
        let (prompt, cached) = (usage.prompt_tokens, usage.cached_tokens.unwrap_or(0));
        if cached > prompt {
            self.attempts.plane.metrics.kv_alarm(KvAlarm::Cached, 1);
            tracing::warn!(
                replica = %member.name, cached, prompt,
                "more cached tokens than prompt tokens: the answer was written from another prompt's KV, which may still be in the replica's cache; restart the replica"
            );
        }
    }

    /// Remembers the location of this response, for requests that continue it.
    pub(crate) fn pin(&self, response: &str, by: &AnsweredBy) {
        let response = self.attempts.plane.inputs.reading.hash(Some(response.as_bytes()));
        let pin = ResponseKey { tenant: self.tenant, response };
        // The first response of a chain names its session.
        let session = self.session.unwrap_or(response);
        if !self.attempts.plane.inputs.pins.set(pin, session, || by.home()) {
            self.count(Some(Mismatch::TakenId));
        }
    }

    /// The prompt's fingerprint extended by the reply: the prefix of the next turn.
    pub(crate) fn extended(&mut self, reply: Option<&[u8]>) -> Option<Vec<u64>> {
        let (mut prompt, reply) = (self.prompt.take()?, reply?);
        openai::push_reply(self.endpoint, &mut prompt, reply);
        Some(prompt.into_blocks())
    }

    /// Ends the answer; its last attempt was sent at `sent`.
    pub(crate) fn over(&mut self, outcome: Outcome, sent: Instant) {
        self.attempts.plane.metrics.answered(outcome, sent.elapsed());
        assert!(!self.reserved.is_charged(), "an answer ends before its charges are corrected");
        self.reserved.release();
    }

    /// The end of a broken answer: an error event for a stream, a closed connection for anything
    /// else. `rest` is its buffered part.
    pub(crate) fn failed(&self, message: &str, rest: &[u8]) -> Result<Frame<Bytes>, CutShort> {
        // A peer sees the cut itself; its own relay writes the event.
        if self.form != Form::Events || self.report.is_some() {
            return Err(CutShort);
        }
        let message = format!("{message}; retry the request");
        let event = error_event(self.endpoint, 502, "replica_failed", &message);
        // A half-sent event is ended first, or the client would read the error as part of it.
        Ok(Frame::data([rest, b"\n\n", &event].concat().into()))
    }
}
