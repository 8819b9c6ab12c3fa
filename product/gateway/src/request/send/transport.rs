//! One attempt, at a replica or at a peer, up to the first piece of its answer: its ends, and what
//! attempts of all kinds share.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, response};
use meridian_base::{PeerId, ReplicaId};
use meridian_protocol::openai::{Purpose, RequestInfo};
use meridian_routing::Outcome;
use smallvec::SmallVec;

use crate::facts::timeline::Part;
use crate::facts::trace::TRACEPARENT;
use crate::fault::{AttemptError, Fault};
use crate::http::headers;
use crate::inputs::pins::Home;
use crate::machine::ticket::Ticket;
use crate::peers::traffic::{self, ForwardEnd};
use crate::replicas::http1::Broken;
use crate::replicas::member::Member;
use crate::replicas::upstream::{Flow, Upstream};
use crate::request::context::{Payload, RequestContext};
use crate::request::send::Attempts;
use crate::request::send::destination::Destination;
use crate::request::send::engine_error::EngineError;
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
        forward: traffic::CountedForward,
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

    pub(crate) fn is_peer(&self) -> bool {
        matches!(self, AnsweredBy::Peer { .. })
    }

    /// Ends the answer. Returns the peer's own id of the replica that answered.
    pub(crate) fn end(self, outcome: Outcome) -> Option<ReplicaId> {
        let AnsweredBy::Peer { forward, served, .. } = self else { return None };
        forward.end(match outcome {
            Outcome::Done => ForwardEnd::Done,
            Outcome::ClientError => ForwardEnd::ClientError,
            Outcome::Full | Outcome::NoRoom => ForwardEnd::Refused,
            _ => ForwardEnd::Failed,
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

impl Attempts {
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
        let left = context.terms.deadline?.since(self.plane.region.driver.clock.now());
        Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn upstream(&self, member: &Member) -> &Upstream {
        if member.rtt().is_zero() { &self.near } else { &self.plane.far }
    }
}

pub(crate) fn late(patience: Duration) -> String {
    format!("no first byte within {} ms (timeouts.first_byte)", patience.as_millis())
}

/// A peer gets the client's body without private engine fields, and asks for usage itself. The
/// exception: if a stream that breaks there is resumed from here, the count in each chunk is needed
/// here.
pub(super) fn asks_peers(settings: &Settings) -> bool {
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

/// The end of a replica's answer before its time: the engine died, or sends what cannot be read.
pub(crate) fn broke(error: &Broken) -> AttemptError {
    let fault = if error.is_cut() { Fault::Died } else { Fault::Replica };
    AttemptError::of(fault, format!("the answer stopped early: {error}"))
}
