//! An attempt at a peer: a gateway of another region takes the request, and chooses a replica there.

use std::pin::pin;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, response};
use meridian_base::ReplicaId;
use meridian_protocol::openai::Purpose;
use meridian_protocol::peer::DIED;
use meridian_routing::RejectWhy;
use tokio::time::timeout;

use crate::facts::name::ReplicaName;
use crate::facts::timeline::{Mark, Part};
use crate::fault::{AttemptError, Fault};
use crate::http::headers;
use crate::http::parts::Parts;
use crate::machine::ticket::Ticket;
use crate::peers::forward::Outgoing;
use crate::peers::link::Link;
use crate::peers::traffic::ForwardEnd;
use crate::refusal::{ENGINE_DIED, REFUSED};
use crate::replicas::upstream::Flow;
use crate::request::context::{Payload, RequestContext};
use crate::request::send::Attempts;
use crate::request::send::beginning::{Beginning, beginning};
use crate::request::send::transport::{AnsweredBy, Opened, Started, asks_peers, late};

impl Attempts {
    pub(super) async fn to_peer(
        &self,
        context: &RequestContext,
        payload: &Payload,
        link: &Link,
        ticket: &Ticket,
    ) -> Result<Started, AttemptError> {
        let patience = context.settings.timeouts.first_byte.0;
        let body = body(payload, |purpose| match purpose {
            Purpose::Model | Purpose::Strip(_) | Purpose::Billing => true,
            Purpose::Usage => asks_peers(&context.settings),
            // A peer makes its own salt, and its own legs.
            Purpose::CacheSalt | Purpose::Prefill | Purpose::Leg => false,
        });
        let forward = link.sent.begin(body.left());
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
                let by = AnsweredBy::Peer { peer: link.id, forward, served: served(&head) };
                Ok(Started { head, opened: Opened { flow, first, sent, by } })
            }
            Err(error) => {
                forward.end(match error.fault {
                    Fault::Full | Fault::PeerFull | Fault::PeerNoRoom => ForwardEnd::Refused,
                    _ => ForwardEnd::Failed,
                });
                Err(error)
            }
        }
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
        let model = prompt
            .info
            .model
            .is_empty()
            .then(|| self.plane.region.fleet.models.name(prompt.model))
            .flatten();
        let answer = link.forward(Outgoing {
            method: &call.method,
            path: &call.path,
            headers: &call.headers,
            body,
            tenant: sender.tenant_name.clone(),
            key: sender.key,
            left: terms.deadline.map(|at| at.since(self.plane.region.driver.clock.now())),
            continues,
            died: ticket.died(),
            priority: sender.priority,
            residence: &terms.residence,
            traceparent: ticket.traceparent(Part::Whole),
            model: model.and_then(|name| HeaderValue::from_bytes(name.as_bytes()).ok()),
        });
        let (mut head, body) = answer.await?.into_parts();
        ticket.mark(Mark::Head, None);
        refused_by_peer(&head)?;
        let mut flow = Flow::of_peer(body);
        let first = match beginning(context, &mut head, &mut flow).await {
            Ok(Beginning::Answer(first)) => first,
            Ok(Beginning::Error(error, _)) => {
                let message = format!("its engine reports an error {}", error.status);
                return Err(AttemptError::peer(message));
            }
            Err(none) => return Err(none.at(Fault::Peer)),
        };
        Ok(FromPeer { head, flow, first, sent })
    }
}

/// A peer's answer that has started.
struct FromPeer {
    head: response::Parts,
    flow: Flow,
    first: Option<Bytes>,
    sent: Instant,
}

/// The body to send, with the `wanted` splices.
fn body(payload: &Payload, wanted: impl Fn(Purpose) -> bool) -> Parts {
    Parts::new(payload.splices.apply(&payload.body, wanted))
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
    let error = AttemptError::of(fault, format!("the peer refused with {status} ({code})"));
    Err(AttemptError { died_there: head.headers.contains_key(DIED), ..error })
}

/// The peer's own id of the replica that answered.
fn served(head: &response::Parts) -> Option<ReplicaId> {
    let id = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    match id(&headers::REPLICA_ID) {
        Some(digits) => digits.parse().ok().map(ReplicaId),
        None => ReplicaName::id(id(&headers::REPLICA)?),
    }
}
