//! An attempt at one replica: the client's body, with the splices for that replica and what a
//! protocol of two legs adds, up to the first piece of its answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, response};
use meridian_protocol::legs::Added;
use meridian_protocol::openai::{self, Purpose, Splices, ToldError};
use tokio::time::timeout;

use crate::facts::timeline::{Mark, Part};
use crate::fault::{AttemptError, Fault};
use crate::http::headers;
use crate::http::parts::{Parts, Taken};
use crate::machine::ticket::Ticket;
use crate::replicas::member::Member;
use crate::replicas::reports;
use crate::replicas::upstream::{Answered, Request};
use crate::request::context::{Payload, RequestContext};
use crate::request::send::Attempts;
use crate::request::send::beginning::{Beginning, beginning, status as told_status};
use crate::request::send::engine_error::{EngineError, Meaning, meaning};
use crate::request::send::transport::{AnsweredBy, Failure, Opened, Started, late};

/// The difference between a decode leg and a whole request.
#[derive(Default)]
pub(crate) struct Leg {
    /// The protocol's additions.
    pub(crate) added: Added,
    /// Notes that the request is being sent.
    pub(crate) taken: Option<Taken>,
    /// Its part of the attempt.
    pub(crate) part: Part,
}

impl Leg {
    pub(crate) fn of(added: Added) -> Leg {
        Leg { added, taken: None, part: Part::Decode }
    }

    /// Whether any byte of its body was taken to be sent.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.as_ref().is_some_and(Taken::is_any)
    }
}

/// The body of a leg: the client's, with the leg's splices and the protocol's members.
pub(crate) fn leg_body(
    payload: &Payload,
    splices: &Splices,
    added: &Added,
    member: &Member,
) -> Parts {
    let wanted = |purpose| match purpose {
        Purpose::CacheSalt => member.reads_salts(),
        _ => true,
    };
    Parts::new(match added.members.is_empty() {
        true => splices.apply(&payload.body, wanted),
        false => splices.with_members(&payload.body, &added.members).apply(&payload.body, wanted),
    })
}

impl Attempts {
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
            cut: &ticket.cut,
        };
        let sent = Instant::now();
        ticket.mark(Mark::Sent, Some(sent));
        let answered = self.upstream(member).send(&member.dial, request);
        let Answered { mut head, body: mut flow, connected } = answered.await?;
        ticket.mark(Mark::Connected, Some(connected));
        ticket.mark(Mark::Head, None);
        member.life.answered();
        // Used at once: the first piece may arrive long after the head and its load report.
        reports::piggyback(&self.plane.region.driver, member, &head.headers);
        let status = head.status;
        let is_ours = member.dial.with.has_key();
        match meaning(status, is_ours) {
            Meaning::Passes => {}
            Meaning::Full => {
                // A limit on the client's own key holds back no other client.
                let is_limit = status == StatusCode::TOO_MANY_REQUESTS && !is_ours;
                if !(is_limit && headers::has_key(&call.headers)) {
                    reports::pause(&self.plane.region.driver, member, &head.headers);
                }
                let message = format!("the engine answered {status}");
                return Err(AttemptError::of(Fault::Full, message).into());
            }
            Meaning::Fails => return Err(failed(EngineError::read(head, flow).await)),
            Meaning::Unfinished => {
                let message = format!("the engine sent an unexpected {status}");
                return Err(AttemptError::replica(message).into());
            }
        }
        let first = match beginning(context, &mut head, &mut flow).await {
            Ok(Beginning::Answer(first)) => first,
            Ok(Beginning::Error(error, said)) => return Err(told(head, error, said)),
            Err(none) => return Err(none.at(Fault::Replica).into()),
        };
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
}

/// An error that an engine reports inside a success, as the end of an attempt.
fn told(head: response::Parts, error: ToldError, said: Bytes) -> Failure {
    let status = told_status(error);
    if error.is_full() {
        let message = format!("the engine answered {} with an error {status}", head.status);
        return AttemptError::of(Fault::Full, message).into();
    }
    failed(EngineError::told(head, status, said))
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
