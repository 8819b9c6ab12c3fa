//! Going on elsewhere with a stream that broke after its first byte, where `resume` is set.
//!
//! The machine is told that the attempt failed and how long the prompt is now; what it decides is
//! followed as before the first byte ([`crate::request::lifecycle`]), with a request that begins where the answer
//! broke. The relay waits for it, and the client sees a stream that pauses.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use meridian_base::{ModelId, RequestId};
use meridian_routing::Outcome;
use meridian_wire::admin::EngineName;
use meridian_wire::openai::{self, Counts, Endpoint, Lost, Thread, Usage};

use crate::http::headers;
use crate::machine::driver::{Ticket, Verdict};
use crate::request::attempt::Begun;
use crate::request::lifecycle::{Ended, Job, Sending, begin, check_kept};
use crate::shared::Shared;
use crate::worker::Worker;

/// What it takes to go on.
pub(crate) struct Resume {
    pub(crate) thread: Thread,
    pub(crate) job: Job,
    /// The client's body, less what is the engines'.
    body: Bytes,
}

/// A stream that is being gone on with.
pub(crate) type Going = Pin<Box<dyn Future<Output = Gone> + Send>>;

/// How that ended.
pub(crate) enum Gone {
    /// Another answer has begun.
    On { resume: Box<Resume>, ticket: Ticket, sending: Sending, begun: Box<Begun> },
    /// Nobody took it: the request is over.
    Nowhere,
}

impl Resume {
    /// For the answer to `job`, where it may be gone on with.
    pub(crate) fn new(shared: &Shared, job: Job) -> Option<Box<Resume>> {
        let config = shared.config.resume.as_ref()?;
        let counts = match (job.info.counts, job.info.include_usage) {
            (false, _) => Counts::Asis,
            (true, false) => Counts::Hidden,
            (true, true) => Counts::Null,
        };
        let thread = Thread::new(job.endpoint, config.text.bytes(), counts)?;
        let body = job.info.splices.stripped(&job.body);
        Some(Box::new(Resume { thread, job, body }))
    }

    /// What comes from now on goes on with what came.
    pub(crate) fn is_later(&self) -> bool {
        self.thread.is_later()
    }

    /// The answer broke: makes the request that goes on with it, and the blocks of its prompt. Else
    /// a word for why there is none.
    pub(crate) fn take_up(&mut self, shared: &Shared) -> Result<Vec<u64>, &'static str> {
        let job = &mut self.job;
        let said = self.thread.text().is_some_and(|text| !text.is_empty());
        if said && job.endpoint == Endpoint::ChatCompletions {
            if !continue_chats(shared, job.model) {
                return Err("engine");
            }
            job.continues = true;
        }
        let continued = self.thread.take_up(&self.body, job.salt.as_deref()).map_err(Lost::word)?;
        job.body = continued.body;
        job.info.splices = continued.splices;
        let mut prompt = job.info.fingerprint.clone();
        if let Some(text) = self.thread.text().filter(|_| said) {
            openai::push_reply(job.endpoint, &mut prompt, text);
        }
        Ok(prompt.into_blocks())
    }

    /// The usage of the whole, of what a peer told of its part.
    pub(crate) fn whole(&self, usage: Usage) -> Usage {
        self.thread.whole(usage)
    }
}

/// Whether all replicas of a model can be told to continue an assistant's message: the machine
/// chooses among them without a look at their engines.
pub(crate) fn continue_chats(shared: &Shared, model: ModelId) -> bool {
    let Some(name) = shared.fleet.name(model) else { return false };
    shared.fleet.all().iter().all(|member| {
        let found = member.found();
        let continues = matches!(
            found.engine,
            Some(EngineName::Vllm | EngineName::Sglang | EngineName::Llamacpp)
        );
        continues || !found.models.contains(&name)
    })
}

/// Follows the machine's decisions until another answer has begun.
pub(crate) async fn go_on(
    shared: Arc<Worker>,
    resume: Box<Resume>,
    ticket: Ticket,
    verdict: Verdict,
) -> Gone {
    let id = ticket.id;
    let (sending, begun) = match begin(&shared, &resume.job, &ticket, verdict).await {
        Ok(begun) => begun,
        Err(ended) => {
            match ended {
                // The machine is done with it.
                Ended::Rejected { .. } => ticket.broke_off(None),
                Ended::Said(..) => {
                    ticket.broke_off(Some(Outcome::ClientError));
                }
                // Its ticket goes with the gateway.
                Ended::Draining => {}
            }
            return nowhere(&shared, id);
        }
    };
    let head = &begun.head;
    if !head.status.is_success() || headers::is_json(&head.headers) {
        tracing::warn!(
            request = shared.ids.show(id), status = %head.status,
            "a stream was to be gone on with, and the engine does not do it"
        );
        ticket.broke_off(Some(Outcome::ClientError));
        return nowhere(&shared, id);
    }
    check_kept(&shared, &resume.job.residence, &sending, &begun.head.headers);
    shared.metrics.resumed("went_on");
    Gone::On { resume, ticket, sending, begun: Box::new(begun) }
}

fn nowhere(shared: &Shared, id: RequestId) -> Gone {
    shared.metrics.resumed("nowhere");
    tracing::warn!(request = shared.ids.show(id), "no replica or peer continues a broken stream");
    Gone::Nowhere
}
