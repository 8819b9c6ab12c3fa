//! Hop 6: one attempt, at a replica or at a peer, until the first piece of its answer is here.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, response};
use http_body_util::BodyExt;
use meridian_base::ReplicaId;
use meridian_routing::RejectWhy;
use meridian_wire::openai::Purpose;

use crate::error::{AttemptError, Source};
use crate::http::body::Parts;
use crate::http::headers;
use crate::http::refusal::ENGINE_DIED;
use crate::peers::{Leg, LegEnd, Link, Outgoing, REFUSED};
use crate::replicas::fleet::Member;
use crate::replicas::name::ReplicaName;
use crate::replicas::upstream::{Answered, Flow, is_cut};
use crate::request::engine_error::{EngineError, Meaning, meaning};
use crate::request::lifecycle::{Job, asks_peers};
use crate::worker::Worker;

/// Where an attempt goes.
pub(crate) enum Target {
    Replica(Arc<Member>),
    Peer(Arc<Link>),
}

/// The head of an answer and its first piece.
pub(crate) struct Begun {
    pub(crate) head: response::Parts,
    pub(crate) body: Flow,
    pub(crate) first: Option<Bytes>,
    pub(crate) sent: Instant,
    /// Of a peer's answer.
    pub(crate) leg: Option<Leg>,
}

/// One attempt: sends the request and waits for the first piece of the answer.
pub(crate) async fn attempt(
    shared: &Worker,
    job: &Job,
    target: &Target,
) -> Result<Begun, AttemptError> {
    let patience = shared.config.timeouts.first_byte.0;
    let late = |ms| format!("no first byte within {ms} ms (timeouts.first_byte)");
    match target {
        Target::Replica(member) => {
            let body = body(shared, job, target);
            let down = member.life.down();
            tokio::select! {
                biased;
                begun = tokio::time::timeout(patience, at_replica(shared, job, member, body)) => {
                    begun.unwrap_or_else(|_| Err(AttemptError::replica(late(patience.as_millis()))))
                }
                () = down.cancelled() => {
                    let message = "the replica stopped answering its probes";
                    Err(AttemptError::of(Source::Unreached, message))
                }
            }
        }
        Target::Peer(link) => {
            let body = body(shared, job, target);
            let leg = link.sent.begin(body.left());
            let lost = link.lost();
            let begun = tokio::select! {
                begun = tokio::time::timeout(patience, at_peer(shared, job, link, body)) => match begun {
                    Ok(result) => result,
                    Err(_) => Err(AttemptError::peer(late(patience.as_millis()))),
                },
                () = lost.cancelled() => Err(AttemptError::peer("the peer is gone")),
            };
            match begun {
                Ok(begun) => Ok(Begun { leg: Some(leg), ..begun }),
                Err(error) => {
                    leg.end(match error.fault {
                        Source::Full | Source::PeerFull | Source::PeerNoRoom => LegEnd::Refused,
                        _ => LegEnd::Failed,
                    });
                    Err(error)
                }
            }
        }
    }
}

/// The body as it goes to `target`. A peer gets what the client sent, less what is the engines', and
/// adds the rest itself.
fn body(shared: &Worker, job: &Job, target: &Target) -> Parts {
    let wanted = |purpose| match (purpose, target) {
        (Purpose::Strip(_), _) | (Purpose::Usage, Target::Replica(_)) => true,
        (Purpose::Usage, Target::Peer(_)) => asks_peers(shared),
        (Purpose::CacheSalt, Target::Replica(member)) => member.reads_salts(),
        (Purpose::CacheSalt, Target::Peer(_)) => false,
    };
    Parts::new(job.info.splices.apply(&job.body, wanted))
}

async fn at_replica(
    shared: &Worker,
    job: &Job,
    member: &Member,
    body: Parts,
) -> Result<Begun, AttemptError> {
    let mut headers = job.headers.clone();
    if member.speaks_orca() && !headers.contains_key(headers::ORCA_ASK) {
        headers.insert(headers::ORCA_ASK, HeaderValue::from_static("TEXT"));
    }
    let sent = Instant::now();
    let upstream = shared.upstream(member);
    let answered = upstream.send(&member.dial, &job.method, &job.path, &headers, &body);
    let Answered { head, mut body } = answered.await?;
    member.life.answered();
    // The head may be here long before the first piece: its report is of now.
    crate::replicas::probes::piggyback(shared, member, &head.headers);
    let status = head.status;
    match meaning(status) {
        Meaning::Passes => {}
        Meaning::Full => {
            return Err(AttemptError::of(Source::Full, format!("the engine answered {status}")));
        }
        Meaning::Fails => return Err(failed(EngineError::read(head, body).await)),
        Meaning::Unfinished => {
            let message = format!("the engine answered {status}, which was not asked for");
            return Err(AttemptError::replica(message));
        }
    }
    let first = first(job, status, &mut body).await.map_err(|e| e.at(Source::Replica))?;
    Ok(Begun { head, body, first, sent, leg: None })
}

async fn at_peer(
    shared: &Worker,
    job: &Job,
    link: &Link,
    body: Parts,
) -> Result<Begun, AttemptError> {
    let sent = Instant::now();
    let model = job.info.model.is_empty().then(|| shared.fleet.name(job.model)).flatten();
    let answer = link.forward(Outgoing {
        method: &job.method,
        path: &job.path,
        headers: &job.headers,
        body,
        tenant: job.tenant.clone(),
        key: job.key,
        left: job.deadline.map(|at| at.since(shared.driver.clock.now())),
        continues: job.continues,
        priority: job.priority,
        residence: &job.residence,
        model: model.and_then(|name| HeaderValue::from_bytes(name.as_bytes()).ok()),
    });
    let (head, body) = answer.await?.into_parts();
    refused_by_peer(&head)?;
    let mut body = Flow::of_peer(body);
    let first = first(job, head.status, &mut body).await.map_err(|e| e.at(Source::Peer))?;
    Ok(Begun { head, body, first, sent, leg: None })
}

/// Why there is no first piece.
enum NoFirst {
    Empty,
    Broke(hyper::Error),
}

impl NoFirst {
    fn at(self, whose: Source) -> AttemptError {
        match (self, whose) {
            (NoFirst::Empty, _) => AttemptError::of(whose, "the answer is empty"),
            (NoFirst::Broke(e), Source::Replica) if is_cut(&e) => {
                AttemptError::of(Source::Died, format!("the answer broke off: {e}"))
            }
            (NoFirst::Broke(e), _) => AttemptError::of(whose, format!("the answer broke off: {e}")),
        }
    }
}

/// An engine's failure, as the end of an attempt.
fn failed(said: EngineError) -> AttemptError {
    let status = said.head.status;
    let message = match said.is_redirect() {
        true => format!(
            "the engine answered {status}, and redirects are not followed; correct the replica's url or the request's path"
        ),
        false => format!("the engine answered {status}"),
    };
    AttemptError { said: Some(Arc::new(said)), ..AttemptError::of(Source::Engine, message) }
}

/// The first piece that is not empty.
async fn first(job: &Job, status: StatusCode, body: &mut Flow) -> Result<Option<Bytes>, NoFirst> {
    // Every endpoint that generates says something, if only that it is done.
    let speaks = job.endpoint.is_generation() && status.is_success();
    loop {
        match body.frame().await {
            None if speaks => return Err(NoFirst::Empty),
            None => return Ok(None),
            Some(Err(e)) => return Err(NoFirst::Broke(e)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Ok(Some(data)),
                Err(_trailers) => return Ok(None),
            },
        }
    }
}

/// A peer's own refusal is worth another try elsewhere, whatever its status: what that gateway has
/// no room for, does not serve or may not serve, another one may. Only when its replicas failed has
/// it failed too. An engine's answer that a peer passes on, a failure among them, is passed on here.
fn refused_by_peer(head: &response::Parts) -> Result<(), AttemptError> {
    let status = head.status;
    let Some(code) = head.headers.get(&REFUSED) else { return Ok(()) };
    let code = code.to_str().unwrap_or_default();
    let fault = match code {
        ENGINE_DIED => Source::PeerDied,
        _ if status == StatusCode::BAD_GATEWAY => Source::Peer,
        code if code == RejectWhy::NoRoom.word() => Source::PeerNoRoom,
        _ => Source::PeerFull,
    };
    Err(AttemptError::of(fault, format!("the peer refused with {status} ({code})")))
}

/// The peer's own id of the replica that answered.
pub(crate) fn served(head: &response::Parts) -> Option<ReplicaId> {
    let label = head.headers.get(headers::REPLICA)?.to_str().ok()?;
    ReplicaName::id(label)
}
