//! Requests of models that have fallbacks: other models, tried in order while nothing has been sent
//! to the client.
//!
//! Each model gets one run through the machine, with a ticket of its own. A run that is given up is
//! ended in the machine before the next one starts, so an engine never works for a client that waits
//! for another. The request stays one request: one record, one place in the counts, one charge of its
//! tenant.

use std::pin::pin;
use std::sync::Arc;

use http::Response;
use meridian_routing::{Outcome, RejectWhy};
use tokio::time::timeout;

use crate::inputs::in_force::InForce;
use crate::machine::driver::Verdict;
use crate::machine::ticket::{Left, Ticket};
use crate::request::answer::body::AnswerBody;
use crate::request::answer::respond::{answered, unanswered};
use crate::request::arrive::candidate::{Candidate, Fallbacks};
use crate::request::context::{Payload, RequestContext};
use crate::request::reserved::Reserved;
use crate::request::send::Attempts;
use crate::request::send::attempts::Unanswered;
use crate::request::send::destination::Attempt;
use crate::request::send::transport::Started;

/// The parts of the gateway that a run needs.
pub(crate) struct Parts<'a> {
    pub(crate) in_force: &'a InForce,
    pub(crate) attempts: &'a Arc<Attempts>,
}

/// A request on its way to an answer.
pub(crate) struct Run {
    pub(crate) context: RequestContext,
    pub(crate) payload: Payload,
    pub(crate) reserved: Reserved,
    pub(crate) ticket: Ticket,
}

/// The end of a run.
enum End {
    Answer(Box<(Attempt, Started)>),
    Unanswered(Unanswered),
    /// Another model takes its place.
    Next(Left, Box<Candidate>),
}

/// Tries the models in order until an answer starts. If none serves the request, its client gets
/// the last refusal.
pub(crate) async fn among(
    parts: Parts<'_>,
    mut run: Run,
    mut verdict: Verdict,
    mut others: Box<Fallbacks>,
) -> Response<AnswerBody> {
    loop {
        match run.follow(&parts, verdict, &mut others).await {
            End::Answer(answer) => {
                let Run { context, payload, reserved, ticket } = run;
                return answered(parts.attempts, context, payload, reserved, ticket, *answer);
            }
            End::Unanswered(why) => {
                let Run { context, reserved, ticket, .. } = run;
                return unanswered(&parts.attempts.plane, &context, reserved, ticket, why);
            }
            End::Next(left, candidate) => {
                (run, verdict) = run.instead(&parts, left, *candidate, &others);
            }
        }
    }
}

impl Run {
    async fn follow(&mut self, parts: &Parts<'_>, verdict: Verdict, others: &mut Fallbacks) -> End {
        let Run { context, payload, ticket, .. } = self;
        let patience = others.patience(parts.in_force, context);
        let mut next =
            || parts.attempts.plane.next(parts.in_force, context, payload, others).map(Box::new);
        let mut follow = pin!(parts.attempts.follow(context, payload, ticket, verdict));
        let followed = match patience {
            None => follow.await,
            Some(patience) => match timeout(patience, &mut follow).await {
                Ok(followed) => followed,
                Err(_) => match next() {
                    // The future is dropped, which closes its connection to the engine.
                    Some(candidate) => return End::Next(Left::Waiting, candidate),
                    None => follow.await,
                },
            },
        };
        let why = match followed {
            Ok(answer) => return End::Answer(Box::new(answer)),
            Err(why) => why,
        };
        match leaves(&why).and_then(|left| Some((left, next()?))) {
            Some((left, candidate)) => End::Next(left, candidate),
            None => End::Unanswered(why),
        }
    }

    /// The run of another model.
    fn instead(
        self,
        parts: &Parts<'_>,
        left: Left,
        candidate: Candidate,
        others: &Fallbacks,
    ) -> (Run, Verdict) {
        let Run { mut context, mut payload, mut reserved, ticket } = self;
        let question = parts.attempts.plane.adopt(
            parts.in_force,
            (&mut context, &mut payload, &mut reserved),
            (candidate, left == Left::Waiting && ticket.was_sent()),
            others,
        );
        others.count(&parts.attempts.plane.metrics, &context);
        let shown_id = context.call.shown_id.as_bytes();
        parts.attempts.plane.explain.note(shown_id, question.id, &context.terms.residence);
        let (ticket, verdict) = ticket.instead(left, question, |recording| {
            context.note_fallback(recording);
            context.note(recording);
        });
        (Run { context, payload, reserved, ticket }, verdict)
    }
}

/// How a request without an answer leaves its model, if another may serve it. One that ended two
/// engines is not sent to more of them, and a response is continued only where it is stored.
fn leaves(why: &Unanswered) -> Option<Left> {
    match why {
        Unanswered::Refused { why, .. } => match why {
            RejectWhy::EngineDied { .. } | RejectWhy::PinnedGone => None,
            _ => Some(Left::Refused),
        },
        Unanswered::Breach => None,
        Unanswered::SameFailure(_, said) => {
            (!said.is_redirect()).then_some(Left::Failed(Outcome::ClientError))
        }
    }
}
