//! Resumes a stream on another replica after it broke past its first byte, if `resume` is set.
//!
//! The machine receives the failure and the prompt's new length. Its decisions are followed as
//! before the first byte ([`crate::request::send::attempts`]), with a payload that starts where the
//! answer broke. The relay waits for that, and the client sees a pause in the stream.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use meridian_base::{ModelId, RequestId};
use meridian_config as config;
use meridian_protocol::openai::{self, Counts, Endpoint, Lost, Thread, Usage};
use meridian_routing::Outcome;

use crate::http::headers;
use crate::ids::Ids;
use crate::machine::driver::Verdict;
use crate::machine::ticket::Ticket;
use crate::metrics::Metrics;
use crate::replicas::fleet::Fleet;
use crate::request::context::{Payload, RequestContext};
use crate::request::send::Attempts;
use crate::request::send::attempts::Unanswered;
use crate::request::send::destination::Destination;
use crate::request::send::transport::{Opened, Started};

/// The state needed to resume a stream.
pub(crate) struct Resume {
    pub(crate) thread: Thread,
    pub(crate) context: RequestContext,
    /// The last payload sent.
    pub(crate) payload: Payload,
    /// The client's body without private engine fields.
    body: Bytes,
}

/// The search for an answer that resumes a stream; none if the request ends without one.
pub(crate) type Search = Pin<Box<dyn Future<Output = Option<Box<Resumed>>> + Send>>;

/// An answer that resumes a stream.
pub(crate) struct Resumed {
    pub(crate) resume: Box<Resume>,
    pub(crate) ticket: Ticket,
    pub(crate) destination: Destination,
    pub(crate) opened: Opened,
}

impl Resume {
    /// For the answer to a request, if it may be resumed.
    pub(crate) fn new(
        config: &config::Resume,
        context: RequestContext,
        payload: Payload,
    ) -> Option<Box<Resume>> {
        let info = &context.prompt.info;
        let counts = match (info.counts, info.include_usage) {
            (false, _) => Counts::Asis,
            (true, false) => Counts::Hidden,
            (true, true) => Counts::Null,
        };
        let thread = Thread::new(context.call.endpoint, config.text.bytes(), counts)?;
        let body = payload.splices.stripped(&payload.body);
        Some(Box::new(Resume { thread, context, payload, body }))
    }

    /// The next answer continues the earlier one.
    pub(crate) fn is_later(&self) -> bool {
        self.thread.is_later()
    }

    /// After a break: builds the payload that resumes the answer, and the blocks of its prompt;
    /// otherwise a label for why it can't.
    pub(crate) fn take_up(&mut self, fleet: &Fleet) -> Result<Vec<u64>, &'static str> {
        let Resume { thread, context, payload, body } = self;
        let (endpoint, prompt) = (context.call.endpoint, &context.prompt);
        let said = thread.text().is_some_and(|text| !text.is_empty());
        let continues_chat = said && endpoint == Endpoint::ChatCompletions;
        if continues_chat && !continue_chats(fleet, prompt.model) {
            return Err("engine");
        }
        let continued = thread.take_up(body, prompt.salt.as_deref()).map_err(Lost::word)?;
        *payload = Payload {
            body: continued.body,
            splices: continued.splices,
            // A client waits: the continuation goes to one replica alone.
            prefill: None,
            continues: continues_chat || payload.continues,
        };
        let mut fingerprint = prompt.info.fingerprint.clone();
        if let Some(text) = thread.text().filter(|_| said) {
            openai::push_reply(endpoint, &mut fingerprint, text);
        }
        Ok(fingerprint.into_blocks())
    }

    /// The usage of the complete answer, from a peer's report of its part.
    pub(crate) fn total_usage(&self, usage: Usage) -> Usage {
        self.thread.whole(usage)
    }
}

/// Whether all replicas of a model can continue an assistant's message: the machine chooses among
/// them without regard to their engines.
pub(crate) fn continue_chats(fleet: &Fleet, model: ModelId) -> bool {
    let Some(name) = fleet.models.name(model) else { return false };
    fleet.all().iter().all(|member| {
        let found = member.found();
        let continues = found.engine.is_some_and(|engine| engine.continues_chats);
        continues || !found.models.contains(&name)
    })
}

/// Follows the machine's decisions until another answer starts.
pub(crate) async fn search(
    attempts: Arc<Attempts>,
    resume: Box<Resume>,
    mut ticket: Ticket,
    verdict: Verdict,
) -> Option<Box<Resumed>> {
    let (id, plane) = (ticket.id, &attempts.plane);
    let followed = attempts.follow(&resume.context, &resume.payload, &mut ticket, verdict).await;
    let (attempt, started) = match followed {
        Ok(answer) => answer,
        Err(why) => {
            match why {
                // The machine has already dropped it.
                Unanswered::Refused { .. } => ticket.broke_off(None),
                Unanswered::Breach => ticket.broke_off(Some(Outcome::ReplicaError)),
                Unanswered::SameFailure(..) => ticket.broke_off(Some(Outcome::ClientError)),
            }
            return nowhere(&plane.metrics, &plane.ids, id);
        }
    };
    let Started { head, opened } = started;
    if !head.status.is_success() || headers::is_json(&head.headers) {
        tracing::warn!(
            request = plane.ids.show(id), status = %head.status,
            "the engine does not continue a stream"
        );
        ticket.broke_off(Some(Outcome::ClientError));
        return nowhere(&plane.metrics, &plane.ids, id);
    }
    plane.metrics.resumed("went_on");
    ticket.note(|record| record.resumes += 1);
    Some(Box::new(Resumed { resume, ticket, destination: attempt.destination, opened }))
}

fn nowhere(metrics: &Metrics, ids: &Ids, id: RequestId) -> Option<Box<Resumed>> {
    metrics.resumed("nowhere");
    tracing::warn!(request = ids.show(id), "no replica or peer continues a broken stream");
    None
}
