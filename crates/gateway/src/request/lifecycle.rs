//! The life of a request between the machine's decisions and its answer.
//!
//! Until the answer's first byte is here nothing has gone to the client, so a failed attempt may be
//! repeated, at another replica or another peer, as the machine decides. From then on
//! [`crate::request::relay`] carries the answer and its end.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, response};
use meridian_base::{Duration, ModelId, RequestId, Time};
use meridian_routing::residency::Residence;
use meridian_routing::{self as routing, Outcome, Priority, RejectWhy, Why};
use meridian_wire::openai::{Answer, Endpoint, Purpose, RequestInfo};

use crate::error::{AttemptError, Source as Fault};
use crate::http::body::{Body, Pass};
use crate::http::headers;
use crate::http::limits::Permit;
use crate::http::refusal::Refusal;
use crate::inputs::pins::Home;
use crate::inputs::rate::Charge;
use crate::inputs::residency::{self, Kept, Known};
use crate::machine::driver::{Decision, Ticket, Told, Verdict};
use crate::peers::{Leg, LegEnd, Report};
use crate::request::attempt::{Begun, Target, attempt, served};
use crate::request::engine_error::EngineError;
use crate::request::odd::Odd;
use crate::request::relay::{Away, Follow, Relay, Source};
use crate::request::silence::Silence;
use crate::shared::Shared;
use crate::worker::Worker;

/// Everything about a request that outlives its head.
pub(crate) struct Job {
    pub(crate) endpoint: Endpoint,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// As it was read; what goes out are slices of it, around the splices of `info`.
    pub(crate) body: Bytes,
    pub(crate) info: RequestInfo,
    /// Keeps its tenant apart in an engine's prefix cache.
    pub(crate) salt: Option<String>,
    pub(crate) model: ModelId,
    pub(crate) prompt_tokens: u32,
    pub(crate) shown_id: HeaderValue,
    pub(crate) began: Instant,
    pub(crate) permits: Vec<Permit>,
    /// The tenant's name, kept where there are peers.
    pub(crate) tenant: Option<HeaderValue>,
    pub(crate) key: u64,
    pub(crate) deadline: Option<Time>,
    /// It goes on with a chat that broke off.
    pub(crate) continues: bool,
    /// Its client is told of prefix matches and of the fleet.
    pub(crate) tells: bool,
    /// The keyed hash of the tenant's name; 0 for none.
    pub(crate) tenant_hash: u64,
    pub(crate) priority: Priority,
    /// What it was charged, where its tenant has limits.
    pub(crate) charge: Option<Charge>,
    /// The residency rules that name it.
    pub(crate) residence: Residence,
    /// What the peer is told that sent it on.
    pub(crate) report: Option<Arc<Report>>,
}

/// A decision to send, with what is said of it.
pub(crate) struct Sending {
    pub(crate) target: Target,
    why: Why,
    matched: u32,
    /// What was known of regions when it was sent, where rules name it.
    known: Option<Arc<Known>>,
}

/// Why no answer began.
pub(crate) enum Ended {
    /// The gateway goes down.
    Draining,
    /// Two replicas failed of the same: it is the request's fault, and these are the engine's words.
    Said(Box<Sending>, Arc<EngineError>),
    /// The machine refused it; with the last attempt's failure.
    Rejected { why: RejectWhy, retry_after: Duration, last: Option<AttemptError> },
}

/// Follows the machine's decisions until an answer begins or the request is refused.
pub(crate) async fn route(
    shared: &Arc<Worker>,
    mut job: Job,
    ticket: Ticket,
    verdict: Verdict,
) -> Response<Body> {
    let begun = begin(shared, &job, &ticket, verdict).await;
    if let (Err(_), Some(charge)) = (&begun, &mut job.charge) {
        charge.nothing();
    }
    match begun {
        Ok((sending, begun)) => relay(shared, job, ticket, sending, begun),
        Err(Ended::Draining) => finish_refused(shared, &job, Refusal::draining(), ticket),
        Err(Ended::Said(sending, said)) => pass_on(shared, &job, ticket, &sending, &said),
        Err(Ended::Rejected { why, retry_after, last }) => {
            rejected(shared, &job, ticket, (why, retry_after), last.as_ref())
        }
    }
}

/// Follows the machine's decisions until an answer begins.
pub(crate) async fn begin(
    shared: &Arc<Worker>,
    job: &Job,
    ticket: &Ticket,
    mut verdict: Verdict,
) -> Result<(Sending, Begun), Ended> {
    let mut said: Vec<Arc<EngineError>> = Vec::new();
    let mut last: Option<AttemptError> = None;
    loop {
        let decision = match verdict {
            Verdict::Now(decision) => decision,
            // Only the end of the gateway drops a promise.
            Verdict::Later(promise) => promise.await.map_err(|_| Ended::Draining)?,
        };
        let sending = match sending(shared, &job.residence, decision) {
            Sent::To(sending) => sending,
            Sent::Nowhere => {
                verdict = ticket.again(Outcome::ReplicaError);
                continue;
            }
            // The machine knows of it by now, and decides by what is so.
            Sent::Forbidden => {
                verdict = ticket.again(Outcome::NoRoom);
                continue;
            }
            Sent::Refused(why, retry_after) => {
                return Err(Ended::Rejected { why, retry_after, last });
            }
        };
        shared.metrics.decided(&sending.why);
        match attempt(shared, job, &sending.target).await {
            Ok(begun) => return Ok((sending, begun)),
            Err(error) => {
                log(shared, ticket.id, &sending.target, &error);
                if let Some(new) = &error.said {
                    if said.iter().any(|old| old.is_same(new)) {
                        return Err(Ended::Said(Box::new(sending), new.clone()));
                    }
                    // Each took an attempt, so they are few.
                    said.push(new.clone());
                }
                shared.metrics.retried(error.fault);
                verdict = ticket.again(error.outcome());
                last = Some(error);
            }
        }
    }
}

enum Sent {
    To(Sending),
    /// Whom it names is not there any more.
    Nowhere,
    /// Its rules do not permit it any more: labels changed since it was decided about.
    Forbidden,
    Refused(RejectWhy, Duration),
}

fn sending(shared: &Shared, residence: &Residence, decision: Decision) -> Sent {
    let (target, chosen, why, matched) = match decision {
        Decision::Dispatch { replica, why, matched_tokens } => {
            let member = shared.fleet.get(replica).map(Target::Replica);
            (member, routing::Target::Replica(replica), why, matched_tokens)
        }
        Decision::Forward { peer, why, matched_tokens } => {
            let link = shared.peers.as_ref().and_then(|peers| peers.link(peer)).cloned();
            (link.map(Target::Peer), routing::Target::Peer(peer), why, matched_tokens)
        }
        Decision::Reject { why, retry_after } => return Sent::Refused(why, retry_after),
    };
    let Some(target) = target else { return Sent::Nowhere };
    if residence.is_free() {
        return Sent::To(Sending { target, why, matched, known: None });
    }
    let known = shared.residency.known();
    // A replica may have left since, and its id may be another's by now.
    let stands_there = match &target {
        Target::Replica(member) => known.permits(residence, &member.place),
        Target::Peer(_) => true,
    };
    match stands_there && shared.driver.lock().routing.permits(residence, chosen) {
        true => Sent::To(Sending { target, why, matched, known: Some(known) }),
        false => Sent::Forbidden,
    }
}

/// Logs a failed attempt, under the gateway's own id of the request: the client's may be anything. A
/// full peer is ordinary.
fn log(shared: &Shared, id: RequestId, target: &Target, error: &AttemptError) {
    let request = shared.ids.show(id);
    match target {
        Target::Replica(member) => {
            tracing::warn!(request, replica = %member.name, error = %error, "attempt failed");
        }
        Target::Peer(link) if matches!(error.fault, Fault::PeerFull | Fault::PeerNoRoom) => {
            tracing::debug!(request, peer = ?link.label, error = %error, "a peer has no room");
        }
        Target::Peer(link) => {
            tracing::warn!(request, peer = ?link.label, error = %error, "attempt failed");
        }
    }
}

/// The machine refused it.
fn rejected(
    shared: &Shared,
    job: &Job,
    ticket: Ticket,
    (why, retry_after): (RejectWhy, Duration),
    last: Option<&AttemptError>,
) -> Response<Body> {
    let told = || shared.peers.as_ref().is_some_and(|peers| peers.models.knows(job.model));
    let why = match why {
        // It is served elsewhere, only not now.
        RejectWhy::UnknownModel if told() => RejectWhy::NoReplica,
        why => why,
    };
    ticket.rejected(why);
    let restricted = !job.residence.is_free();
    let refusal = match why {
        RejectWhy::NotPermitted if restricted => {
            shared.residency.counts.count(&job.residence, Kept::Refused);
            residency::not_permitted(&job.residence)
        }
        RejectWhy::HeldTooLong { limit, .. } if restricted => {
            residency::held_too_long(&job.residence, limit, retry_after)
        }
        why => Refusal::of(why, retry_after, last.map(AttemptError::for_client).as_deref()),
    };
    answer_refused(shared, job, refusal)
}

fn answer_refused(shared: &Shared, job: &Job, refusal: Refusal) -> Response<Body> {
    shared.metrics.refused(&refusal);
    let mut response = refusal.response(job.endpoint);
    if let Some(names) = residency::names(&job.residence) {
        response.headers_mut().insert(headers::RESIDENCY, names);
    }
    if let Some(charge) = &job.charge {
        charge.write(response.headers_mut());
    }
    with_id(response, &job.shown_id)
}

/// Passes the engine's own failure to the client.
fn pass_on(
    shared: &Shared,
    job: &Job,
    ticket: Ticket,
    sending: &Sending,
    said: &EngineError,
) -> Response<Body> {
    ticket.finish(Outcome::ClientError, Told::default());
    let status = said.head.status;
    if said.is_redirect() {
        return answer_refused(shared, job, Refusal::redirected(status));
    }
    let EngineError { mut head, body, .. } = said.clone();
    let told = audit(shared, &job.residence, sending, &head.headers);
    headers::to_client(&mut head.headers, job.headers.contains_key(headers::ORCA_ASK), true);
    say(&mut head.headers, sending, job.prompt_tokens);
    told.into_iter().flatten().for_each(|(name, value)| drop(head.headers.insert(name, value)));
    if !job.tells {
        headers::hide(&mut head.headers);
    }
    with_id(Response::from_parts(head, Body::whole(body)), &job.shown_id)
}

fn finish_refused(shared: &Shared, job: &Job, refusal: Refusal, ticket: Ticket) -> Response<Body> {
    drop(ticket);
    answer_refused(shared, job, refusal)
}

/// Hands the begun answer to the relay, with the gateway's own headers on it.
fn relay(
    shared: &Arc<Worker>,
    mut job: Job,
    ticket: Ticket,
    sending: Sending,
    begun: Begun,
) -> Response<Body> {
    let Begun { mut head, body, first, sent, leg } = begun;
    let asked_orca = job.headers.contains_key(headers::ORCA_ASK);
    let ok = head.status.is_success();
    // Only the generating endpoints have streams whose end is known; the rest passes unread.
    let events = job.endpoint.is_generation() && !headers::is_json(&head.headers);
    let streams = job.info.stream && ok && events;
    let here = matches!(sending.target, Target::Replica(_));
    if job.info.stream && ok && !events && here && job.endpoint.is_generation() {
        shared.metrics.odd(Odd::JsonForStream);
    }
    let undo = undoes(shared, &job, &sending.target) && streams;
    let until_close =
        here && !job.endpoint.passes_unread() && headers::is_until_close(&head.headers);
    let source = source(&sending.target, &head, leg, sent);
    let told = audit(shared, &job.residence, &sending, &head.headers);
    // What is added at a break would be more than the length.
    headers::to_client(&mut head.headers, asked_orca, undo || streams);
    say(&mut head.headers, &sending, job.prompt_tokens);
    told.into_iter().flatten().for_each(|(name, value)| drop(head.headers.insert(name, value)));
    if !job.tells {
        headers::hide(&mut head.headers);
    }
    if let Some(charge) = &mut job.charge {
        charge.write(&mut head.headers);
        if !ok {
            charge.nothing();
        }
    }
    head.headers.insert(headers::REQUEST_ID, job.shown_id.clone());
    if !ok {
        if let Some(away) = source.away {
            away.leg.end(LegEnd::ClientError);
        }
        ticket.finish(Outcome::ClientError, Told::default());
        // A client's mistake: the engine's own words go back; nothing is learned from them.
        let silence = Silence::new(&shared.config.timeouts, source.member);
        return Response::from_parts(
            head,
            Body::Pass(Box::new(Pass { first, rest: body, silence })),
        );
    }
    shared.driver.matched(job.prompt_tokens, sending.matched);
    let collect = shared.reading.follows_replies() && job.endpoint.is_generation();
    let answer = Answer::new(job.endpoint, streams, undo, collect);
    let follow = Follow::new(shared, job, source, (streams, until_close, collect));
    let relay = Relay::new(body, first, (answer, ticket), follow);
    Response::from_parts(head, Body::Relay(Box::new(relay)))
}

/// Whether usage was asked for that the client did not ask for.
pub(crate) fn undoes(shared: &Shared, job: &Job, target: &Target) -> bool {
    let asked = job.info.splices.has(Purpose::Usage) && !job.info.include_usage;
    asked && (matches!(target, Target::Replica(_)) || asks_peers(shared))
}

/// A peer gets the client's body and asks for usage itself, unless a stream that breaks there is
/// gone on with from here: then the count in each chunk is wanted here.
pub(crate) fn asks_peers(shared: &Shared) -> bool {
    shared.config.resume.is_some()
}

/// Who answers, for the relay.
pub(crate) fn source(
    target: &Target,
    head: &response::Parts,
    leg: Option<Leg>,
    sent: Instant,
) -> Source {
    let (home, member, served) = match target {
        Target::Replica(member) => (Home::At(member.id), Some(member.clone()), None),
        Target::Peer(link) => (Home::Away(link.id), None, served(head)),
    };
    Source { home, member, away: leg.map(|leg| Away { leg, served, usage: None }), sent }
}

/// Holds an answer, or what goes on with one, against the rules.
pub(crate) fn check_kept(
    shared: &Shared,
    residence: &Residence,
    sending: &Sending,
    head: &HeaderMap,
) {
    let region = head.get(headers::REGION);
    let kept = match (&sending.known, &sending.target) {
        (None, _) => true,
        (Some(known), Target::Replica(member)) => known.permits(residence, &member.place),
        (Some(known), Target::Peer(_)) => {
            known.was_kept(residence, region, head.get(headers::RESIDENCY))
        }
    };
    if !kept {
        shared.residency.counts.breach();
        let rules = residency::names(residence);
        tracing::error!(?rules, ?region, "a residency rule was not kept");
    }
}

/// Where an answer was given, and by which rules it may have been: for its headers, and counted. Of a
/// peer's answer where it was given is the peer's word.
fn audit(
    shared: &Shared,
    residence: &Residence,
    sending: &Sending,
    head: &HeaderMap,
) -> [Option<(HeaderName, HeaderValue)>; 2] {
    let (region, kept) = match &sending.target {
        Target::Replica(member) => (Some(member.region.clone()), Kept::Served),
        Target::Peer(link) => {
            let region = head.get(headers::REGION).cloned();
            let region = region.or_else(|| HeaderValue::from_str(link.region()).ok());
            (region, Kept::Sent)
        }
    };
    check_kept(shared, residence, sending, head);
    let names = residency::names(residence);
    if names.is_some() {
        shared.residency.counts.count(residence, kept);
    }
    [names.map(|names| (headers::RESIDENCY, names)), region.map(|region| (headers::REGION, region))]
}

/// Says in an answer's headers who gave it, and why. Of a peer's answer the replica and what was
/// expected in its cache are the peer's words.
fn say(headers: &mut HeaderMap, sending: &Sending, prompt: u32) {
    match &sending.target {
        Target::Replica(member) => {
            headers.insert(headers::REPLICA, member.label.clone());
            headers.insert(headers::PREFIX_MATCH, headers::prefix_match(sending.matched, prompt));
        }
        Target::Peer(link) => {
            headers.insert(headers::PEER, link.label.clone());
        }
    }
    headers.insert(headers::REASON, HeaderValue::from_static(sending.why.word()));
}

pub(crate) fn with_id(mut response: Response<Body>, id: &HeaderValue) -> Response<Body> {
    response.headers_mut().insert(headers::REQUEST_ID, id.clone());
    response
}
