//! The response to a client: the head of an answer with the gateway's own headers, an engine's
//! error, or a refusal. Each of them ends the request's ticket or passes it to the relay.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Response, response};
use meridian_base::Duration;
use meridian_protocol::openai::Answer;
use meridian_protocol::peer::DIED;
use meridian_routing::{Outcome, RejectWhy};

use crate::fault::Fault;
use crate::http::headers;
use crate::inputs::residency::{self, RuleOutcome};
use crate::machine::ticket::{Details, Ticket};
use crate::refusal::{ENGINE_DIED, Refusal};
use crate::request::answer::audit::{self, audit};
use crate::request::answer::body::AnswerBody;
use crate::request::answer::delivery::{Delivery, Form};
use crate::request::answer::incoming::Incoming;
use crate::request::answer::mismatch::Mismatch;
use crate::request::answer::relay::Relay;
use crate::request::answer::scan::Scan;
use crate::request::answer::unread::Unread;
use crate::request::context::{Payload, RequestContext, Terms};
use crate::request::plane::DataPlane;
use crate::request::reserved::Reserved;
use crate::request::send::Attempts;
use crate::request::send::attempts::Unanswered;
use crate::request::send::beginning::is_stream;
use crate::request::send::destination::{Attempt, Destination};
use crate::request::send::engine_error::EngineError;
use crate::request::send::transport::{Failure, Opened, Started, undoes};

/// An answer has started: its head, with the gateway's own headers, and the body that follows.
pub(crate) fn answered(
    attempts: &Arc<Attempts>,
    context: RequestContext,
    payload: Payload,
    mut reserved: Reserved,
    mut ticket: Ticket,
    (attempt, started): (Attempt, Started),
) -> Response<AnswerBody> {
    let Started { mut head, opened } = started;
    let form = form(&context, &attempt.destination, &head);
    let ok = head.status.is_success();
    ticket.note(|record| record.status = Some(head.status));
    let alias = context.prompt.info.alias.clone().filter(|_| is_named(&context, &head));
    // An error event added at a break would exceed the length, and another name changes it.
    let length_changes = ok && (form == Form::Events || alias.is_some());
    let plane = &attempts.plane;
    dress(plane, &context, &attempt, &mut head.headers, length_changes);
    reserved.write(&mut head.headers);
    head.headers.insert(headers::REQUEST_ID, context.call.shown_id.clone());
    if !ok {
        reserved.unserved();
        let Opened { flow, first, by, .. } = opened;
        let silence = (&context.settings.timeouts, attempt.destination.member());
        let incoming = Incoming::new(flow, first, silence, None);
        let unread = Unread::new(incoming, ticket, by, reserved);
        return Response::from_parts(head, AnswerBody::Unread(Box::new(unread)));
    }
    let endpoint = context.call.endpoint;
    let here = matches!(attempt.destination, Destination::Replica(_));
    let asked = context.prompt.info.stream && endpoint.is_generation();
    if asked && form != Form::Events && here {
        plane.metrics.odd(Mismatch::JsonForStream.word());
    }
    ticket.matched(context.prompt.tokens, attempt.matched);
    let collect = plane.inputs.reading.follows_replies() && endpoint.is_generation();
    let events = form == Form::Events;
    let undo =
        events && undoes(&context.settings, &context.prompt.info, &payload, &attempt.destination);
    let choices = context.prompt.info.replies;
    let reader =
        Answer::new(endpoint, events, undo, collect).naming(alias.as_deref()).choices(choices);
    let (delivery, resume) = Delivery::new(attempts, context, payload, reserved, form, collect);
    // An error is not for the client if another replica continues the stream.
    let reader = if resume.is_some() { reader.keeping_errors() } else { reader };
    let scan = Scan::new(&delivery, &attempt.destination, opened, reader, ticket, resume);
    Response::from_parts(head, AnswerBody::Relay(Box::new(Relay::new(delivery, scan))))
}

/// Only generating endpoints have streams with a known end; the rest passes unread.
fn form(context: &RequestContext, destination: &Destination, head: &response::Parts) -> Form {
    let endpoint = context.call.endpoint;
    if is_stream(context, head) {
        return Form::Events;
    }
    let here = matches!(destination, Destination::Replica(_));
    match here && !endpoint.passes_unread() && headers::is_until_close(&head.headers) {
        true => Form::UntilClose,
        false => Form::Whole,
    }
}

/// Whether an answer may name its model: on an engine's own path it may be anything but JSON.
fn is_named(context: &RequestContext, head: &response::Parts) -> bool {
    !context.call.endpoint.passes_unread() || headers::is_json(&head.headers)
}

/// Prepares the headers of an answer for the client, with those of the gateway.
fn dress(
    plane: &DataPlane,
    context: &RequestContext,
    attempt: &Attempt,
    head: &mut HeaderMap,
    length_changes: bool,
) {
    let asked_orca = context.call.headers.contains_key(headers::ORCA_ASK);
    let place = audit(&plane.inputs.residency, &context.terms.residence, attempt, head);
    headers::to_client(head, asked_orca, length_changes);
    audit::write(head, attempt, place, context.prompt.tokens);
    // A peer knows prefixes by the replica's id, which a given name does not tell.
    if context.sender.hops > 0
        && let Destination::Replica(member) = &attempt.destination
        && member.spec.name.is_some()
    {
        head.insert(headers::REPLICA_ID, member.id.0.into());
    }
    name_fallback(context, head);
    if !context.terms.tells {
        headers::hide(head);
    }
}

/// Names the model that answers, if it is not the one that the client asked for.
fn name_fallback(context: &RequestContext, headers: &mut HeaderMap) {
    if let Some(model) = &context.prompt.fallback {
        headers.insert(headers::FALLBACK, model.clone());
    }
}

/// The response if no answer started.
pub(crate) fn unanswered(
    plane: &DataPlane,
    context: &RequestContext,
    mut reserved: Reserved,
    mut ticket: Ticket,
    why: Unanswered,
) -> Response<AnswerBody> {
    reserved.unserved();
    let died = ticket.died();
    let refusal = match why {
        Unanswered::SameFailure(attempt, said) => {
            let refusal = said.is_redirect().then(|| Refusal::redirected(said.head.status));
            ticket.note(|record| match &refusal {
                Some(refusal) => record.refused(refusal.status, refusal.code),
                None => record.status = Some(said.head.status),
            });
            ticket.finish(Outcome::ClientError, Details::default());
            match refusal {
                Some(refusal) => refusal,
                None => return engine_failed(plane, context, &reserved, &attempt, &said),
            }
        }
        Unanswered::Breach => {
            let refusal = residency::breached(&context.terms.residence);
            ticket.note(|record| record.refused(refusal.status, refusal.code));
            ticket.finish(Outcome::ReplicaError, Details::default());
            refusal
        }
        Unanswered::Refused { why, retry_after, last } => {
            let refusal = refusal(plane, &context.terms, why, retry_after, last.as_ref());
            ticket.note(|record| record.refused(refusal.status, refusal.code));
            ticket.rejected(why);
            refusal
        }
    };
    plane.metrics.refused(&refusal);
    let is_last = refusal.code == ENGINE_DIED;
    let mut response = refusal.response(context.call.endpoint);
    if died && !is_last && context.sender.hops > 0 {
        response.headers_mut().insert(DIED, HeaderValue::from_static("1"));
    }
    let headers = response.headers_mut();
    if let Some(names) = residency::names(&context.terms.residence) {
        headers.insert(headers::RESIDENCY, names);
    }
    name_fallback(context, headers);
    reserved.write(headers);
    headers.insert(headers::REQUEST_ID, context.call.shown_id.clone());
    response
}

/// The machine's refusal, worded for the client.
fn refusal(
    plane: &DataPlane,
    terms: &Terms,
    why: RejectWhy,
    retry_after: Duration,
    last: Option<&Failure>,
) -> Refusal {
    let residence = &terms.residence;
    let restricted = !residence.is_free();
    match why {
        RejectWhy::NotPermitted if restricted => {
            plane.inputs.residency.counts.count(residence, RuleOutcome::Refused);
            residency::not_permitted(residence)
        }
        RejectWhy::HeldTooLong { limit, closed } if restricted => {
            let peers = plane.peers.as_ref().filter(|_| terms.tells);
            let lost = peers.map(|peers| peers.lost(&plane.inputs.residency, residence));
            let lost = lost.unwrap_or_default();
            residency::held_too_long(residence, limit, retry_after, closed, &lost)
        }
        RejectWhy::RetriesExhausted { .. }
            if last.is_some_and(|failure| failure.error.fault == Fault::NotServed) =>
        {
            Refusal::unknown_model()
        }
        why => {
            let last = last.map(Failure::for_client);
            Refusal::of(why, retry_after, last.as_deref(), terms.tells)
        }
    }
}

/// Sends the engine's own error to the client.
fn engine_failed(
    plane: &DataPlane,
    context: &RequestContext,
    reserved: &Reserved,
    attempt: &Attempt,
    said: &EngineError,
) -> Response<AnswerBody> {
    let EngineError { mut head, body, .. } = said.clone();
    dress(plane, context, attempt, &mut head.headers, true);
    reserved.write(&mut head.headers);
    head.headers.insert(headers::REQUEST_ID, context.call.shown_id.clone());
    Response::from_parts(head, AnswerBody::from(body))
}
