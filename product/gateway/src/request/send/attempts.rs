//! A request between its admission and the first piece of its answer.
//!
//! Until that piece arrives, nothing has been sent to the client, so a failed attempt may be
//! retried, at another replica or another peer, as the machine decides. From then on
//! [`crate::request::answer::relay`] carries the answer. If a stream breaks and can be resumed,
//! [`crate::request::answer::resume`] calls [`Attempts::follow`] again with a payload that continues it.

use std::sync::Arc;

use http::{HeaderValue, response};
use meridian_base::{Duration, RequestId};
use meridian_routing::{Ending, Outcome, RejectWhy};

use crate::facts::Record;
use crate::facts::timeline::To;
use crate::fault::Fault;
use crate::http::headers;
use crate::ids::Ids;
use crate::machine::driver::Verdict;
use crate::machine::ticket::Ticket;
use crate::request::context::{Payload, RequestContext};
use crate::request::send::Attempts;
use crate::request::send::destination::{Attempt, Destination, Next};
use crate::request::send::engine_error::EngineError;
use crate::request::send::kept::is_kept;
use crate::request::send::orders::Legs;
use crate::request::send::replica::Leg;
use crate::request::send::transport::{Failure, Started};

/// The state of a request without an answer.
enum AttemptState {
    /// The machine is deciding; a queued request waits here.
    Deciding(Verdict),
    /// Sent; no piece of an answer has arrived.
    Attempting(Attempt),
}

/// Why no answer started.
pub(crate) enum Unanswered {
    /// Two replicas failed in the same way: the request is the cause, and this is the engine's
    /// message.
    SameFailure(Box<Attempt>, Arc<EngineError>),
    /// The answer came from a place that the request's residency rules do not permit.
    Breach,
    /// The machine refused it; with the last attempt's failure.
    Refused { why: RejectWhy, retry_after: Duration, last: Option<Failure> },
}

impl Attempts {
    /// Follows the machine's decisions until an answer starts.
    pub(crate) async fn follow(
        &self,
        context: &RequestContext,
        payload: &Payload,
        ticket: &mut Ticket,
        verdict: Verdict,
    ) -> Result<(Attempt, Started), Unanswered> {
        let mut failures = Failures::default();
        let mut state = AttemptState::Deciding(verdict);
        loop {
            state = match state {
                AttemptState::Deciding(verdict) => {
                    let decision = match verdict {
                        Verdict::Now(decision) => decision,
                        Verdict::Later(promise) => {
                            ticket.note(Record::waits);
                            let decision = promise.await;
                            ticket.note(Record::waited);
                            decision.expect("the ticket keeps the driver, which keeps the sender")
                        }
                    };
                    match self.destinations().find(&context.terms.residence, decision) {
                        Next::Attempt(attempt) => AttemptState::Attempting(attempt),
                        Next::Stale(outcome) => AttemptState::Deciding(ticket.again(outcome)),
                        Next::StalePrefill(outcome) => {
                            AttemptState::Deciding(ticket.prefill_failed(outcome))
                        }
                        Next::Refused(why, retry_after) => {
                            return Err(Unanswered::Refused {
                                why,
                                retry_after,
                                last: failures.last,
                            });
                        }
                    }
                }
                AttemptState::Attempting(attempt) => {
                    self.plane.metrics.decided(&attempt.why);
                    assert!(
                        attempt.known.is_some() || context.terms.residence.is_free(),
                        "an attempt under residency rules was not checked by them"
                    );
                    ticket.sends();
                    ticket.note(|record| chosen(record, &attempt));
                    ticket.note_kept(|record| starts(record, &attempt));
                    let failure = match self.send(context, payload, &attempt, ticket).await {
                        Ok(started) => return self.begun(context, ticket, attempt, started),
                        Err(failure) => failure,
                    };
                    ticket.note(|record| failed(record, &failure));
                    log(&self.plane.ids, ticket.id, &attempt, &failure);
                    if let Some(said) = failures.repeated(&failure) {
                        return Err(Unanswered::SameFailure(Box::new(attempt), said));
                    }
                    self.plane.metrics.retried(failure.error.fault);
                    let verdict = again(ticket, &failure);
                    failures.last = Some(failure);
                    AttemptState::Deciding(verdict)
                }
            }
        }
    }

    /// An answer has started. It goes on only if its request's residency rules permit its place.
    fn begun(
        &self,
        context: &RequestContext,
        ticket: &mut Ticket,
        attempt: Attempt,
        started: Started,
    ) -> Result<(Attempt, Started), Unanswered> {
        ticket.note(|record| started_at(record, &attempt, &started.head));
        let residency = &self.plane.inputs.residency;
        if !is_kept(residency, &context.terms.residence, &attempt, &started) {
            started.opened.by.end(Outcome::ReplicaError);
            return Err(Unanswered::Breach);
        }
        Ok((attempt, started))
    }

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
}

/// Reports a failed attempt to the machine, which decides again.
fn again(ticket: &mut Ticket, failure: &Failure) -> Verdict {
    let verdict = match failure.prefill {
        Some(outcome) => ticket.prefill_failed(outcome),
        None => ticket.again(failure.error.outcome()),
    };
    if failure.error.died_there {
        ticket.died_elsewhere();
    }
    verdict
}

/// The failed attempts of a request.
#[derive(Default)]
struct Failures {
    last: Option<Failure>,
    /// The engines' answers. Each took an attempt, so there are few.
    said: Vec<Arc<EngineError>>,
}

impl Failures {
    /// The engine's answer, if another engine gave the same one before.
    fn repeated(&mut self, failure: &Failure) -> Option<Arc<EngineError>> {
        let new = failure.said.as_ref()?;
        if self.said.iter().any(|old| old.is_same(new)) {
            return Some(new.clone());
        }
        self.said.push(new.clone());
        None
    }
}

/// Logs a failed attempt with the gateway's own request id: the client's may be anything. A full
/// peer is ordinary and is logged at debug level only.
fn log(ids: &Ids, id: RequestId, attempt: &Attempt, failure: &Failure) {
    let request = ids.show(id);
    let error = &failure.error;
    if let Some(member) = attempt.prefill.as_ref().filter(|_| failure.prefill.is_some()) {
        tracing::warn!(request, replica = %member.name, error = %error, "prefill leg failed");
        return;
    }
    match &attempt.destination {
        Destination::Replica(member) => {
            tracing::warn!(request, replica = %member.name, error = %error, "attempt failed");
        }
        Destination::Peer(link) if matches!(error.fault, Fault::PeerFull | Fault::PeerNoRoom) => {
            tracing::debug!(request, peer = ?link.label, error = %error, "a peer has no free capacity");
        }
        Destination::Peer(link) => {
            tracing::warn!(request, peer = ?link.label, error = %error, "attempt failed");
        }
    }
}

/// The machine has chosen the destination of an attempt.
fn chosen(record: &mut Record, attempt: &Attempt) {
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

/// The times of an attempt start; nothing needs them without a log, traces, or a ring of the newest
/// requests.
fn starts(record: &mut Record, attempt: &Attempt) {
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
fn started_at(record: &mut Record, attempt: &Attempt, head: &response::Parts) {
    if let Destination::Peer(_) = attempt.destination {
        record.replica = head.headers.get(headers::REPLICA).cloned();
        record.prefill = head.headers.get(headers::PREFILL).cloned();
        if let Some(region) = head.headers.get(headers::REGION) {
            record.region = Some(region.clone());
        }
    }
    if let Some(times) = record.times.current() {
        let to = times.answered(head.status);
        to.replica.clone_from(&record.replica);
        to.prefill.clone_from(&record.prefill);
        to.region.clone_from(&record.region);
    }
}

/// An attempt has failed.
fn failed(record: &mut Record, failure: &Failure) {
    record.retries += 1;
    let outcome = failure.prefill.unwrap_or_else(|| failure.error.outcome());
    let status = failure.said.as_ref().map(|said| said.head.status);
    if let Some(times) = record.times.current() {
        times.fail(Ending::Attempt(outcome).word(), status);
    }
}
