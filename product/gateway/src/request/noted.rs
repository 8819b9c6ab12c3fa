//! Copies the facts of a request into its record, as they become known.

use std::time::Instant;

use http::{HeaderValue, StatusCode, response};
use meridian_routing::{Ending, Outcome};

use crate::facts::hops::To;
use crate::facts::{Asked, DONE, Record};
use crate::http::headers;
use crate::record::Recording;
use crate::refusal::Refusal;
use crate::request::context::RequestContext;
use crate::request::send::destination::{Attempt, Destination};
use crate::request::send::transport::Failure;

/// The request is admitted, and given to a fallback if its model cannot serve it.
pub(crate) fn admitted(recording: &mut Recording, context: &RequestContext) {
    if context.prompt.fallback.is_some() {
        recording.note(|record| record.falls_back(context.prompt.fallback.clone()));
    }
    asked(recording, context);
    recording.note(|record| {
        record.id = Some(context.call.shown_id.clone());
        record.times.admitted = Some(Instant::now());
    });
}

/// The request is given to a fallback.
pub(crate) fn falls_back(recording: &mut Recording, context: &RequestContext) {
    recording.note(|record| record.falls_back(context.prompt.fallback.clone()));
    asked(recording, context);
}

/// The content of a request, as its model has it.
fn asked(recording: &mut Recording, context: &RequestContext) {
    let RequestContext { sender, prompt, .. } = context;
    let asked = || Asked {
        model: prompt.model,
        stream: prompt.info.stream,
        tokens: prompt.tokens,
        bytes: prompt.info.prompt_bytes,
        tenant: sender.tenant,
        session: sender.session,
    };
    recording.admitted(asked, &prompt.info.fingerprint);
    if let Some(alias) = &prompt.info.alias {
        recording.note_kept(|record| record.alias = Some(alias.as_str().into()));
    }
}

/// The machine has chosen the destination of an attempt.
pub(crate) fn attempt(record: &mut Record, attempt: &Attempt) {
    record.reason = Some(attempt.why.word());
    record.matched = Some(attempt.matched);
    record.prefill = attempt.prefill.as_ref().map(|member| member.label.clone());
    match &attempt.destination {
        Destination::Replica(member) => {
            record.replica = Some(member.label.clone());
            record.region = Some(member.region.clone());
            record.peer = None;
        }
        Destination::Peer(link) => {
            record.replica = None;
            record.peer = Some(link.label.clone());
            record.region = HeaderValue::from_str(link.region()).ok();
        }
    }
}

/// The hops of an attempt begin; nothing needs them without a log, traces, or a ring of the newest
/// requests.
pub(crate) fn hops(record: &mut Record, attempt: &Attempt) {
    let address = match &attempt.destination {
        Destination::Replica(member) => Some(member.authority.clone()),
        Destination::Peer(link) => link.authority.clone(),
    };
    let prefill = attempt.prefill.as_ref();
    record.times.begin(To {
        replica: record.replica.clone(),
        prefill: record.prefill.clone(),
        peer: record.peer.clone(),
        region: record.region.clone(),
        address,
        prefill_address: prefill.map(|member| member.authority.clone()),
        reason: attempt.why.word(),
        matched: attempt.matched,
    });
}

/// An answer has started. A peer reports the replicas and the region in its head.
pub(crate) fn started(record: &mut Record, attempt: &Attempt, head: &response::Parts) {
    if let Destination::Peer(_) = attempt.destination {
        record.replica = head.headers.get(headers::REPLICA).cloned();
        record.prefill = head.headers.get(headers::PREFILL).cloned();
        if let Some(region) = head.headers.get(headers::REGION) {
            record.region = Some(region.clone());
        }
    }
    if let Some(hop) = record.times.current() {
        let to = hop.answered(head.status);
        to.replica.clone_from(&record.replica);
        to.prefill.clone_from(&record.prefill);
        to.region.clone_from(&record.region);
    }
}

/// An attempt has failed.
pub(crate) fn failed(record: &mut Record, failure: &Failure) {
    record.retries += 1;
    let outcome = failure.prefill.unwrap_or_else(|| failure.error.outcome());
    let status = failure.said.as_ref().map(|said| said.head.status);
    if let Some(hop) = record.times.current() {
        hop.fail(Ending::Attempt(outcome).word(), status);
    }
}

/// A stream has broken off, and another attempt continues it.
pub(crate) fn broke_off(record: &mut Record, pieces: u32) {
    record.pieces += pieces;
    if let Some(hop) = record.times.current() {
        hop.fail(Ending::Attempt(Outcome::ReplicaError).word(), None);
    }
}

/// The gateway refuses the request.
pub(crate) fn refused(record: &mut Record, refusal: &Refusal) {
    record.status = Some(refusal.status);
    record.reason = Some(refusal.code);
}

/// The request ends with a refusal before the machine has it.
pub(crate) fn ends_refused(recording: &mut Recording, refusal: &Refusal) {
    recording.note(|record| refused(record, refusal));
    let status = refusal.status;
    let lacks_capacity = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    recording.end(if lacks_capacity { "rejected" } else { "client_error" });
}

/// The request ends with an answer of the gateway itself, and nothing was sent.
pub(crate) fn ends_answered(recording: &mut Recording, status: StatusCode) {
    recording.note(|record| record.status = Some(status));
    recording.end(if status.is_success() { DONE } else { "client_error" });
}
