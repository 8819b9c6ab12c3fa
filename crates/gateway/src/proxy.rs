//! The life of a request: hops 1 to 6.
//!
//! Read the body whole, fingerprint it, ask the machine, send the bytes as they came. Until the
//! answer's first byte is here nothing has gone to the client, so a failed attempt may be repeated
//! on another replica; from then on [`crate::relay`] carries the answer and its end.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use meridian_base::{Duration, Fingerprinter, ModelId, ReplicaId};
use meridian_routing::{Outcome, RejectWhy, Why};
use meridian_wire::openai::{self, Answer, Endpoint, Reading, RequestInfo};

use crate::body::{Body, Parts};
use crate::collect::{Collected, collect};
use crate::driver::{Decision, Ticket, Told, Verdict};
use crate::error::{AttemptError, Source};
use crate::fleet::Member;
use crate::headers;
use crate::limits::Permit;
use crate::pins::Home;
use crate::refuse::{Refusal, json};
use crate::relay::{Follow, Relay};
use crate::shared::Shared;
use crate::upstream::{Answered, Flow};
use crate::worker::Worker;

/// Answers one request, whatever happens.
pub(crate) async fn answer(
    shared: Arc<Worker>,
    request: Request<Incoming>,
    peer: u64,
) -> Response<Body> {
    let shown_id = request.headers().get(headers::REQUEST_ID).cloned();
    let path = request.uri().path();
    let endpoint = Endpoint::of(path);
    let passes = endpoint != Endpoint::Other || shared.config.paths.iter().any(|p| p == path);
    let result = match (endpoint, request.method()) {
        _ if !passes => Err(Refusal::unknown_path()),
        (Endpoint::Models, &Method::GET) => Ok(models(&shared, path)),
        (Endpoint::Other, _) => generate(&shared, request, endpoint, peer).await,
        (Endpoint::Models, _) => Err(Refusal::wrong_method("GET")),
        (_, &Method::POST) => generate(&shared, request, endpoint, peer).await,
        _ => Err(Refusal::wrong_method("POST")),
    };
    result.unwrap_or_else(|refusal| {
        shared.metrics.refused(&refusal);
        let response = refusal.response(endpoint);
        match &shown_id {
            Some(id) => with_id(response, id),
            None => response,
        }
    })
}

/// `/v1/models`: every model that some replica serves, once.
fn models(shared: &Shared, path: &str) -> Response<Body> {
    let pages: Vec<_> = shared.fleet.all().iter().filter_map(|m| m.models_page()).collect();
    let pages: Vec<&[u8]> = pages.iter().map(AsRef::as_ref).collect();
    let merged = openai::merge_models(&pages);
    let Some(id) = path.strip_prefix("/v1/models/").filter(|id| !id.is_empty()) else {
        return json(StatusCode::OK, merged);
    };
    match openai::find_model(&merged, id) {
        Some(model) => json(StatusCode::OK, model),
        None => Refusal::unknown_model().response(Endpoint::Models),
    }
}

/// Everything about a request that outlives its head.
struct Job {
    endpoint: Endpoint,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Parts,
    info: RequestInfo,
    model: ModelId,
    prompt_tokens: u32,
    shown_id: HeaderValue,
    began: Instant,
    permits: Vec<Permit>,
}

async fn generate(
    shared: &Arc<Worker>,
    request: Request<Incoming>,
    endpoint: Endpoint,
    peer: u64,
) -> Result<Response<Body>, Refusal> {
    let began = Instant::now();
    if shared.is_draining() {
        return Err(Refusal::draining());
    }
    let room = shared.requests.take(1).ok_or_else(|| Refusal::busy("limits.requests"))?;
    let (parts, body) = request.into_parts();
    let Collected { bytes, mut permits } = collect(shared, &parts.headers, body).await?;
    permits.push(room);
    let tenant = tenant(shared, &parts);
    let reading =
        Reading { tenant_scope: shared.isolates().then_some(tenant), ..shared.reading.clone() };
    let info = openai::read(endpoint, &bytes, &reading).map_err(Refusal::bad_request)?;
    let model = model(shared, endpoint, &info)?;
    let id = shared.ids.next();
    let shown_id = headers::request_id(shared, &parts.headers, id);
    let tokens = shared.ratios.get(model) * info.prompt_bytes as f32;
    let mut request = meridian_routing::Request {
        id,
        model,
        tenant,
        key: key(shared, &parts, &info, tenant, peer),
        head: info.head,
        blocks: info.fingerprint.blocks().to_vec(),
        prompt_tokens: tokens as u32,
        block_tokens: shared.ratios.get(model) * reading.block_bytes as f32,
        deadline: deadline(shared, &parts.headers),
        pinned: pin(shared, &info)?,
        streams: info.stream,
        hops: 0,
        peers: 0,
        places: u64::MAX,
        dry_run: false,
    };
    if asks_dry_run(&parts.headers) {
        request.dry_run = true;
        return Ok(crate::explain::dry_run(shared, request));
    }
    let body = match &info.usage_splice {
        Some(splice) => splice.apply(&bytes),
        None => [bytes, Bytes::new(), Bytes::new()],
    };
    let prompt_tokens = request.prompt_tokens;
    shared.explained.note(&shown_id, id, shared);
    let (ticket, verdict) = shared.driver.arrive(request);
    let mut job = Job {
        endpoint,
        path: path_of(&parts),
        method: parts.method,
        headers: parts.headers,
        body: Parts::new(body),
        info,
        model,
        prompt_tokens,
        shown_id: shown_id.clone(),
        began,
        permits,
    };
    headers::to_replica(&mut job.headers, &shown_id);
    Ok(route(shared, job, ticket, verdict).await)
}

fn path_of(parts: &request::Parts) -> String {
    parts.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned()
}

fn asks_dry_run(headers: &HeaderMap) -> bool {
    headers.get(headers::DRY_RUN).is_some_and(|v| v == "true" || v == "1")
}

fn tenant(shared: &Shared, parts: &request::Parts) -> u64 {
    let header = shared.tenant_header.as_ref().and_then(|name| parts.headers.get(name));
    shared.hash(header.map(HeaderValue::as_bytes))
}

/// The affinity key, first found: a configured header, the body's own, the tenant, the client.
fn key(shared: &Shared, parts: &request::Parts, info: &RequestInfo, tenant: u64, peer: u64) -> u64 {
    let header = shared.key_headers.iter().find_map(|name| parts.headers.get(name));
    match (header, info.session) {
        (Some(value), _) => shared.hash(Some(value.as_bytes())),
        (None, Some(session)) => session,
        (None, None) if tenant != 0 => tenant,
        (None, None) => peer,
    }
}

/// A TTFT objective in the request becomes its deadline.
fn deadline(shared: &Shared, headers: &HeaderMap) -> Option<meridian_base::Time> {
    let ms: u64 = headers.get(headers::TTFT_SLO)?.to_str().ok()?.parse().ok()?;
    Some(shared.driver.clock.now() + Duration::from_millis(ms))
}

fn pin(shared: &Shared, info: &RequestInfo) -> Result<Option<ReplicaId>, Refusal> {
    let Some(previous) = &info.previous_response_id else { return Ok(None) };
    match shared.pins.get(shared.hash(Some(previous.as_bytes()))) {
        None => Ok(None),
        Some(Home::At(replica)) => Ok(Some(replica)),
        Some(Home::Gone) => Err(Refusal::of(RejectWhy::PinnedGone, Duration::ZERO, None)),
    }
}

/// The model's id. Paths that need not name one go to whatever the region serves.
fn model(shared: &Shared, endpoint: Endpoint, info: &RequestInfo) -> Result<ModelId, Refusal> {
    if let Some(id) = shared.fleet.model(&info.model) {
        return Ok(id);
    }
    let named = endpoint != Endpoint::Other || !info.model.is_empty();
    match shared.fleet.any_model() {
        Some(any) if !named => Ok(any),
        Some(_) if !shared.fleet.is_unknown() => Err(Refusal::unknown_model()),
        // Who has not said yet what it serves may serve it.
        _ => Err(Refusal::of(RejectWhy::NoReplica, Duration::from_secs(1), None)),
    }
}

/// Follows the machine's decisions until an answer begins or the request is refused.
async fn route(
    shared: &Arc<Worker>,
    job: Job,
    ticket: Ticket,
    mut verdict: Verdict,
) -> Response<Body> {
    let mut last: Option<AttemptError> = None;
    loop {
        let decision = match verdict {
            Verdict::Now(decision) => decision,
            Verdict::Later(promise) => match promise.await {
                Ok(decision) => decision,
                // Only the end of the gateway drops a promise.
                Err(_) => return finish_refused(shared, &job, Refusal::draining(), ticket),
            },
        };
        let (replica, why, matched) = match decision {
            Decision::Dispatch { replica, why, matched_tokens, .. } => {
                (replica, why, matched_tokens)
            }
            Decision::Reject { why, retry_after } => {
                ticket.rejected(why);
                let refusal =
                    Refusal::of(why, retry_after, last.as_ref().map(|e| e.message.as_str()));
                shared.metrics.refused(&refusal);
                return with_id(refusal.response(job.endpoint), &job.shown_id);
            }
        };
        shared.metrics.decided(&why);
        let Some(member) = shared.fleet.get(replica) else {
            verdict = ticket.again(Outcome::ReplicaError);
            continue;
        };
        match attempt(shared, &job, &member).await {
            Ok(begun) => return relay(shared, job, ticket, &member, begun, why, matched),
            Err(error) => {
                shared.metrics.retried(error.fault);
                tracing::warn!(request = ?job.shown_id, replica = %member.id, error = %error, "attempt failed");
                verdict = ticket.again(match error.fault {
                    Source::Full => Outcome::Full,
                    Source::Replica => Outcome::ReplicaError,
                });
                last = Some(error);
            }
        }
    }
}

fn finish_refused(shared: &Shared, job: &Job, refusal: Refusal, ticket: Ticket) -> Response<Body> {
    drop(ticket);
    shared.metrics.refused(&refusal);
    with_id(refusal.response(job.endpoint), &job.shown_id)
}

/// The head of an answer and its first piece.
struct Begun {
    head: http::response::Parts,
    body: Flow,
    first: Option<Bytes>,
    sent: Instant,
}

/// One attempt: sends the request and waits for the first piece of the answer.
async fn attempt(shared: &Worker, job: &Job, member: &Member) -> Result<Begun, AttemptError> {
    let patience = shared.config.timeouts.first_byte.0;
    match tokio::time::timeout(patience, begin(shared, job, member)).await {
        Ok(result) => result,
        Err(_) => {
            let ms = patience.as_millis();
            Err(AttemptError::replica(format!(
                "no first byte within {ms} ms (timeouts.first_byte)"
            )))
        }
    }
}

async fn begin(shared: &Worker, job: &Job, member: &Member) -> Result<Begun, AttemptError> {
    let mut headers = job.headers.clone();
    if member.speaks_orca() && !headers.contains_key(headers::ORCA_ASK) {
        headers.insert(headers::ORCA_ASK, HeaderValue::from_static("TEXT"));
    }
    let sent = Instant::now();
    let answered =
        shared.upstream.send(&member.authority, &job.method, &job.path, &headers, &job.body);
    let Answered { head, mut body } = answered.await?;
    // The head may be here long before the first piece: its report is of now.
    crate::probe::piggyback(shared, member, &head.headers);
    refused_by_engine(head.status)?;
    // Every endpoint that generates says something, if only that it is done.
    let speaks = job.endpoint.is_generation() && head.status.is_success();
    let first = loop {
        match body.frame().await {
            None if speaks => return Err(AttemptError::replica("the answer is empty")),
            None => break None,
            Some(Err(e)) => {
                return Err(AttemptError::replica(format!("the answer broke off: {e}")));
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => break Some(data),
                Err(_trailers) => break None,
            },
        }
    };
    Ok(Begun { head, body, first, sent })
}

/// An engine's answer that is worth another try elsewhere: full, or failed. Any other 4xx is the
/// client's mistake and goes back to it as the engine worded it.
fn refused_by_engine(status: StatusCode) -> Result<(), AttemptError> {
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Err(AttemptError {
            fault: Source::Full,
            message: format!("the engine answered {status}"),
        }),
        s if s.is_server_error() => {
            Err(AttemptError::replica(format!("the engine answered {status}")))
        }
        _ => Ok(()),
    }
}

/// Hands the begun answer to the relay, with the gateway's own headers on it.
fn relay(
    shared: &Arc<Worker>,
    job: Job,
    ticket: Ticket,
    member: &Arc<Member>,
    begun: Begun,
    why: Why,
    matched: u32,
) -> Response<Body> {
    let Begun { mut head, body, first, sent } = begun;
    let asked_orca = job.headers.contains_key(headers::ORCA_ASK);
    let ok = head.status.is_success();
    // Only the generating endpoints have streams whose end is known; the rest passes unread.
    let events = job.endpoint.is_generation() && !headers::is_json(&head.headers);
    let streams = job.info.stream && ok && events;
    let undo = job.info.usage_splice.is_some() && streams;
    let until_close = job.endpoint != Endpoint::Other && headers::is_until_close(&head.headers);
    headers::to_client(&mut head.headers, asked_orca, undo);
    head.headers.insert(headers::REPLICA, member.label.clone());
    head.headers.insert(headers::REASON, HeaderValue::from_static(why.word()));
    head.headers.insert(headers::PREFIX_MATCH, headers::prefix_match(matched, job.prompt_tokens));
    if !ok {
        ticket_client_error(ticket, first, head, body, job)
    } else {
        shared.driver.matched(job.prompt_tokens, matched);
        let collect = shared.follow_replies && job.endpoint.is_generation();
        let follow = Follow {
            shared: shared.clone(),
            endpoint: job.endpoint,
            streams,
            until_close,
            model: job.model,
            replica: member.id,
            prompt: collect.then_some(job.info.fingerprint),
            prompt_bytes: job.info.prompt_bytes,
            began: job.began,
            sent,
            permits: job.permits,
        };
        let answer = Answer::new(job.endpoint, streams, undo, collect);
        let relay = Relay::new(body, first, answer, ticket, follow);
        head.headers.insert(headers::REQUEST_ID, job.shown_id);
        Response::from_parts(head, Body::Relay(Box::new(relay)))
    }
}

/// A client's mistake: the engine's own words go back; nothing is learned from them.
fn ticket_client_error(
    ticket: Ticket,
    first: Option<Bytes>,
    mut head: http::response::Parts,
    body: Flow,
    job: Job,
) -> Response<Body> {
    ticket.finish(Outcome::ClientError, Told::default());
    head.headers.insert(headers::REQUEST_ID, job.shown_id);
    Response::from_parts(head, Body::Pass { first, rest: Box::new(body) })
}

fn with_id(mut response: Response<Body>, id: &HeaderValue) -> Response<Body> {
    response.headers_mut().insert(headers::REQUEST_ID, id.clone());
    response
}

/// The prompt's fingerprint, extended by the reply: what the next turn begins with.
pub(crate) fn extended(
    endpoint: Endpoint,
    prompt: Option<Fingerprinter>,
    reply: Option<&[u8]>,
) -> Option<Vec<u64>> {
    let (mut prompt, reply) = (prompt?, reply?);
    openai::push_reply(endpoint, &mut prompt, reply);
    Some(prompt.into_blocks())
}
