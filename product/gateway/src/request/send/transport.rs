//! One attempt, at a replica or at a peer, up to the first piece of its answer.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, response};
use http_body_util::BodyExt;
use meridian_base::{PeerId, ReplicaId};
use meridian_protocol::openai::{self, Endpoint, Purpose, RequestInfo};
use meridian_routing::{Outcome, RejectWhy};
use smallvec::SmallVec;
use tokio::time::timeout;

use crate::facts::hops::{Mark, Part};
use crate::facts::name::ReplicaName;
use crate::facts::trace::TRACEPARENT;
use crate::fault::{AttemptError, Fault};
use crate::http::headers;
use crate::http::parts::Parts;
use crate::inputs::pins::Home;
use crate::machine::driver::Driver;
use crate::machine::ticket::Ticket;
use crate::metrics::Metrics;
use crate::peers::forward::Outgoing;
use crate::peers::link::Link;
use crate::peers::traffic::{self, LegEnd};
use crate::refusal::ENGINE_DIED;
use crate::refusal::REFUSED;
use crate::replicas::fleet::Fleet;
use crate::replicas::http1::Broken;
use crate::replicas::member::Member;
use crate::replicas::reports;
use crate::replicas::upstream::{Answered, Flow, Request, Upstream};
use crate::request::context::{Payload, RequestContext};
use crate::request::send::destination::{Attempt, Destination};
use crate::request::send::engine_error::{EngineError, Meaning, meaning};
use crate::request::send::leg::{Leg, leg_body};
use crate::request::send::legs::Legs;
use crate::settings::Settings;

/// An answer that has started.
pub(crate) struct Started {
    pub(crate) head: response::Parts,
    pub(crate) opened: Opened,
}

/// The same without its head.
pub(crate) struct Opened {
    pub(crate) flow: Flow,
    /// The first piece.
    pub(crate) first: Option<Bytes>,
    /// When this attempt was sent.
    pub(crate) sent: Instant,
    pub(crate) by: AnsweredBy,
}

/// The source of an answer.
pub(crate) enum AnsweredBy {
    Replica(Arc<Member>),
    Peer {
        peer: PeerId,
        leg: traffic::Leg,
        /// The peer's own id of the replica that answered.
        served: Option<ReplicaId>,
    },
}

impl AnsweredBy {
    /// The location for requests that continue the conversation. A replica that left has none: its
    /// id may be another's.
    pub(crate) fn home(&self) -> Home {
        match self {
            AnsweredBy::Replica(member) if member.gone.is_cancelled() => Home::Gone,
            AnsweredBy::Replica(member) => Home::At(member.id),
            AnsweredBy::Peer { peer, .. } => Home::Away(*peer),
        }
    }

    /// Ends the answer. Returns the peer's own id of the replica that answered.
    pub(crate) fn end(self, outcome: Outcome) -> Option<ReplicaId> {
        let AnsweredBy::Peer { leg, served, .. } = self else { return None };
        leg.end(match outcome {
            Outcome::Done => LegEnd::Done,
            Outcome::ClientError => LegEnd::ClientError,
            Outcome::Full | Outcome::NoRoom => LegEnd::Refused,
            _ => LegEnd::Failed,
        });
        served
    }
}

impl fmt::Display for AnsweredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnsweredBy::Replica(member) => member.name.fmt(f),
            AnsweredBy::Peer { peer, .. } => peer.fmt(f),
        }
    }
}

/// A failed attempt.
pub(crate) struct Failure {
    pub(crate) error: AttemptError,
    /// The engine's own message, which only the client may see.
    pub(crate) said: Option<Arc<EngineError>>,
    /// The outcome of the prefill leg, if that is what failed.
    pub(crate) prefill: Option<Outcome>,
}

impl From<AttemptError> for Failure {
    fn from(error: AttemptError) -> Failure {
        Failure { error, said: None, prefill: None }
    }
}

impl Failure {
    /// The message for the client.
    pub(crate) fn for_client(&self) -> String {
        match self.said.as_ref().and_then(|said| said.words()) {
            Some(words) => format!("{}: {words}", self.error),
            None => self.error.to_string(),
        }
    }
}

/// Header fields that replace a client's of the same name.
pub(crate) type Added = SmallVec<[(HeaderName, HeaderValue); 4]>;

/// Sends the attempts of one thread.
pub(crate) struct Transport {
    /// This thread's connections to replicas of this region.
    pub(crate) near: Upstream,
    /// Connections to replicas of other regions, which all threads share.
    pub(crate) far: Upstream,
    pub(crate) driver: Arc<Driver>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) metrics: Arc<Metrics>,
    /// For the ids by which two engines match the legs of a request.
    pub(crate) seed: u64,
}

impl Transport {
    /// Sends a request and waits for the first piece of the answer.
    pub(crate) async fn send(
        &self,
        context: &RequestContext,
        payload: &Payload,
        attempt: &Attempt,
        ticket: &Ticket,
    ) -> Result<Started, Failure> {
        match (&attempt.destination, &attempt.prefill) {
            (Destination::Replica(to), Some(from)) => {
                // Larger than an ordinary attempt, and rarer.
                Box::pin(self.to_pair(context, payload, Legs { from, to }, ticket)).await
            }
            (Destination::Replica(member), None) => {
                self.to_replica(context, payload, member, &Leg::default(), ticket).await
            }
            (Destination::Peer(link), _) => {
                Ok(self.to_peer(context, payload, link, ticket).await?)
            }
        }
    }

    pub(crate) async fn to_replica(
        &self,
        context: &RequestContext,
        payload: &Payload,
        member: &Arc<Member>,
        leg: &Leg,
        ticket: &Ticket,
    ) -> Result<Started, Failure> {
        let patience = context.settings.timeouts.first_byte.0;
        let down = member.life.down();
        // Pinned here: the timeout and the selection would each move it, and it is large.
        let asked = pin!(self.at_replica(context, payload, member, leg, ticket));
        tokio::select! {
            biased;
            started = timeout(patience, asked) => {
                started.unwrap_or_else(|_| Err(AttemptError::replica(late(patience)).into()))
            }
            () = down.cancelled() => {
                let message = "the replica stopped answering its probes";
                Err(AttemptError::of(Fault::Unreached, message).into())
            }
        }
    }

    async fn to_peer(
        &self,
        context: &RequestContext,
        payload: &Payload,
        link: &Link,
        ticket: &Ticket,
    ) -> Result<Started, AttemptError> {
        let patience = context.settings.timeouts.first_byte.0;
        let body = body(payload, |purpose| match purpose {
            Purpose::Model | Purpose::Strip(_) => true,
            Purpose::Usage => asks_peers(&context.settings),
            // A peer makes its own salt, and its own legs.
            Purpose::CacheSalt | Purpose::Prefill | Purpose::Leg => false,
        });
        let leg = link.sent.begin(body.left());
        let (lost, continues) = (link.lost(), payload.continues);
        let asked = pin!(self.at_peer(context, continues, link, body, ticket));
        let started = tokio::select! {
            started = timeout(patience, asked) => {
                started.unwrap_or_else(|_| Err(AttemptError::peer(late(patience))))
            }
            () = lost.cancelled() => Err(AttemptError::peer("the peer is gone")),
        };
        match started {
            Ok(FromPeer { head, flow, first, sent }) => {
                let by = AnsweredBy::Peer { peer: link.id, leg, served: served(&head) };
                Ok(Started { head, opened: Opened { flow, first, sent, by } })
            }
            Err(error) => {
                leg.end(match error.fault {
                    Fault::Full | Fault::PeerFull | Fault::PeerNoRoom => LegEnd::Refused,
                    _ => LegEnd::Failed,
                });
                Err(error)
            }
        }
    }

    async fn at_replica(
        &self,
        context: &RequestContext,
        payload: &Payload,
        member: &Arc<Member>,
        leg: &Leg,
        ticket: &Ticket,
    ) -> Result<Started, Failure> {
        let (call, Leg { added, taken, part }) = (&context.call, leg);
        let body = leg_body(payload, &payload.splices, added, member).noting(taken.clone());
        let mut headers = self.headers(context, &added.headers, *part, ticket);
        if member.speaks_orca() && !call.headers.contains_key(headers::ORCA_ASK) {
            headers.push((headers::ORCA_ASK, HeaderValue::from_static("TEXT")));
        }
        let request = Request {
            method: &call.method,
            path: &call.path,
            headers: &call.headers,
            added: &headers,
            body: &body,
        };
        let sent = Instant::now();
        ticket.mark(Mark::Sent, Some(sent));
        let answered = self.upstream(member).send(&member.dial, request);
        let Answered { head, body: mut flow, connected } = answered.await?;
        ticket.mark(Mark::Connected, Some(connected));
        ticket.mark(Mark::Head, None);
        member.life.answered();
        // Used at once: the first piece may arrive long after the head and its load report.
        reports::piggyback(&self.driver, member, &head.headers);
        let status = head.status;
        match meaning(status) {
            Meaning::Passes => {}
            Meaning::Full => {
                let message = format!("the engine answered {status}");
                return Err(AttemptError::of(Fault::Full, message).into());
            }
            Meaning::Fails => return Err(failed(EngineError::read(head, flow).await)),
            Meaning::Unfinished => {
                let message = format!("the engine sent an unexpected {status}");
                return Err(AttemptError::replica(message).into());
            }
        }
        let first = first(call.endpoint, status, &mut flow).await;
        let first = first.map_err(|e| e.at(Fault::Replica))?;
        let is_missing = status == StatusCode::NOT_FOUND
            && member.lists(&context.prompt.info.model)
            && first.as_deref().is_some_and(openai::is_model_missing);
        if is_missing {
            // Its adapter was unloaded after the list was read.
            member.lacks_model();
            let message = "the engine does not serve the model (any more)";
            return Err(AttemptError::of(Fault::NotServed, message).into());
        }
        let by = AnsweredBy::Replica(member.clone());
        Ok(Started { head, opened: Opened { flow, first, sent, by } })
    }

    /// Header fields of a leg, besides the client's.
    pub(crate) fn headers(
        &self,
        context: &RequestContext,
        added: &[(HeaderName, HeaderValue)],
        part: Part,
        ticket: &Ticket,
    ) -> Added {
        let budget = self.ttft_left_ms(context).map(headers::budget);
        let trace = ticket.traceparent(part).map(|parent| (TRACEPARENT, parent));
        added.iter().cloned().chain(budget).chain(trace).collect()
    }

    /// Milliseconds left of the request's TTFT objective, if it has one.
    pub(crate) fn ttft_left_ms(&self, context: &RequestContext) -> Option<u64> {
        let left = context.terms.deadline?.since(self.driver.clock.now());
        Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    async fn at_peer(
        &self,
        context: &RequestContext,
        continues: bool,
        link: &Link,
        body: Parts,
        ticket: &Ticket,
    ) -> Result<FromPeer, AttemptError> {
        let RequestContext { call, sender, prompt, terms, .. } = context;
        let sent = Instant::now();
        ticket.mark(Mark::Sent, Some(sent));
        let model =
            prompt.info.model.is_empty().then(|| self.fleet.models.name(prompt.model)).flatten();
        let answer = link.forward(Outgoing {
            method: &call.method,
            path: &call.path,
            headers: &call.headers,
            body,
            tenant: sender.tenant_name.clone(),
            key: sender.key,
            left: terms.deadline.map(|at| at.since(self.driver.clock.now())),
            continues,
            priority: sender.priority,
            residence: &terms.residence,
            traceparent: ticket.traceparent(Part::Whole),
            model: model.and_then(|name| HeaderValue::from_bytes(name.as_bytes()).ok()),
        });
        let (head, body) = answer.await?.into_parts();
        ticket.mark(Mark::Head, None);
        refused_by_peer(&head)?;
        let mut flow = Flow::of_peer(body);
        let first = first(call.endpoint, head.status, &mut flow).await;
        let first = first.map_err(|e| e.at(Fault::Peer))?;
        Ok(FromPeer { head, flow, first, sent })
    }

    pub(crate) fn upstream(&self, member: &Member) -> &Upstream {
        if member.rtt().is_zero() { &self.near } else { &self.far }
    }
}

/// A peer's answer that has started.
struct FromPeer {
    head: response::Parts,
    flow: Flow,
    first: Option<Bytes>,
    sent: Instant,
}

pub(crate) fn late(patience: Duration) -> String {
    format!("no first byte within {} ms (timeouts.first_byte)", patience.as_millis())
}

/// The body to send, with the `wanted` splices.
fn body(payload: &Payload, wanted: impl Fn(Purpose) -> bool) -> Parts {
    Parts::new(payload.splices.apply(&payload.body, wanted))
}

/// A peer gets the client's body without private engine fields, and asks for usage itself. The
/// exception: if a stream that breaks there is resumed from here, the count in each chunk is needed
/// here.
fn asks_peers(settings: &Settings) -> bool {
    settings.resume.is_some()
}

/// Whether usage was requested that the client did not ask for.
pub(crate) fn undoes(
    settings: &Settings,
    info: &RequestInfo,
    payload: &Payload,
    destination: &Destination,
) -> bool {
    let asked = payload.splices.has(Purpose::Usage) && !info.include_usage;
    asked && (matches!(destination, Destination::Replica(_)) || asks_peers(settings))
}

/// Why there is no first piece.
enum NoFirst {
    Empty,
    Broke(Broken),
}

impl NoFirst {
    fn at(self, whose: Fault) -> AttemptError {
        match (self, whose) {
            (NoFirst::Empty, _) => AttemptError::of(whose, "the answer is empty"),
            (NoFirst::Broke(e), Fault::Replica) => broke(&e),
            (NoFirst::Broke(e), _) => {
                AttemptError::of(whose, format!("the answer stopped early: {e}"))
            }
        }
    }
}

/// The end of a replica's answer before its time: the engine died, or sends what cannot be read.
pub(crate) fn broke(error: &Broken) -> AttemptError {
    let fault = if error.is_cut() { Fault::Died } else { Fault::Replica };
    AttemptError::of(fault, format!("the answer stopped early: {error}"))
}

/// An engine's failure, as the end of an attempt.
fn failed(said: EngineError) -> Failure {
    let status = said.head.status;
    let message = match said.is_redirect() {
        true => format!(
            "the engine answered {status}, and the gateway does not follow redirects; correct the replica's url or the path of the request"
        ),
        false => format!("the engine answered {status}"),
    };
    let error = AttemptError::of(Fault::Engine, message);
    Failure { error, said: Some(Arc::new(said)), prefill: None }
}

/// The first piece that is not empty.
async fn first(
    endpoint: Endpoint,
    status: StatusCode,
    body: &mut Flow,
) -> Result<Option<Bytes>, NoFirst> {
    // Every generating endpoint sends something, at least its end mark.
    let speaks = endpoint.is_generation() && status.is_success();
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

/// A peer's own refusal is worth a retry elsewhere, whatever its status: another gateway may have
/// the capacity, the model or the permission that this one lacks. The peer has failed only if its
/// replicas failed. An engine's answer that a peer relays, including an error, goes to the
/// client.
fn refused_by_peer(head: &response::Parts) -> Result<(), AttemptError> {
    let status = head.status;
    let Some(code) = head.headers.get(&REFUSED) else { return Ok(()) };
    let code = code.to_str().unwrap_or_default();
    let fault = match code {
        ENGINE_DIED => Fault::PeerDied,
        _ if status == StatusCode::BAD_GATEWAY => Fault::Peer,
        code if code == RejectWhy::NoRoom.word() => Fault::PeerNoRoom,
        _ => Fault::PeerFull,
    };
    Err(AttemptError::of(fault, format!("the peer refused with {status} ({code})")))
}

/// The peer's own id of the replica that answered.
fn served(head: &response::Parts) -> Option<ReplicaId> {
    let label = head.headers.get(headers::REPLICA)?.to_str().ok()?;
    ReplicaName::id(label)
}
