//! The facts of a request. Admission reads them once, and they stay the same until the request
//! ends. Everything that changes is elsewhere: the body of the next attempt in [`Payload`], permits
//! and charges in [`crate::request::reserved`], the request's state in
//! [`crate::request::send::attempts`] and [`crate::request::answer::relay`].

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use meridian_base::residency::Residence;
use meridian_base::{ModelId, Time};
use meridian_protocol::openai::{Endpoint, RequestInfo, Splices};
use meridian_routing::Priority;

use crate::facts::Asked;
use crate::peers::report::Report;
use crate::record::Recording;
use crate::settings::Settings;

/// The facts of one request.
pub(crate) struct RequestContext {
    /// Time of arrival.
    pub(crate) began: Instant,
    /// The settings at its arrival.
    pub(crate) settings: Arc<Settings>,
    pub(crate) call: Call,
    pub(crate) sender: Sender,
    pub(crate) prompt: Prompt,
    pub(crate) terms: Terms,
}

impl RequestContext {
    /// Notes the content of the request, as its model has it.
    pub(crate) fn note(&self, recording: &mut Recording) {
        let RequestContext { sender, prompt, .. } = self;
        let asked = || Asked {
            model: prompt.model,
            stream: prompt.info.stream,
            tokens: prompt.tokens,
            bytes: prompt.info.prompt_bytes,
            tenant: sender.tenant,
            session: sender.session,
        };
        recording.admitted(asked, &prompt.info.fingerprint);
        if let Some(alias) = &prompt.info.alias {
            recording.note_kept(|record| record.alias = Some(alias.as_str().into()));
        }
    }

    /// Notes that the request is given to a fallback.
    pub(crate) fn note_fallback(&self, recording: &mut Recording) {
        recording.note(|record| record.falls_back(self.prompt.fallback.clone()));
    }
}

/// The HTTP request without its body.
pub(crate) struct Call {
    pub(crate) endpoint: Endpoint,
    pub(crate) method: Method,
    /// The path and the query for a replica.
    pub(crate) path: String,
    /// The headers for a replica.
    pub(crate) headers: HeaderMap,
    /// The id that the client sees.
    pub(crate) shown_id: HeaderValue,
}

/// The sender of a request.
pub(crate) struct Sender {
    /// Keyed hash of the tenant's name; 0 for none.
    pub(crate) tenant: u64,
    /// The tenant's name, kept if there are peers to forward to.
    pub(crate) tenant_name: Option<HeaderValue>,
    /// The affinity key.
    pub(crate) key: u64,
    /// The session that the client names, hashed.
    pub(crate) session: Option<u64>,
    pub(crate) priority: Priority,
    /// Forwards between regions so far.
    pub(crate) hops: u8,
    /// An engine died under it in the region that forwarded it.
    pub(crate) died: bool,
    /// Carries the usage to the peer that forwarded the request.
    pub(crate) report: Option<Arc<Report>>,
}

/// The prompt and its model.
pub(crate) struct Prompt {
    pub(crate) model: ModelId,
    /// Estimated number of tokens.
    pub(crate) tokens: u32,
    /// The parsed body, without the splices, which belong to the [`Payload`].
    pub(crate) info: RequestInfo,
    /// The model, if it is a fallback of the one that the client asked for.
    pub(crate) fallback: Option<HeaderValue>,
    /// Separates its tenant in an engine's prefix cache.
    pub(crate) salt: Option<String>,
}

/// Conditions for serving the request.
pub(crate) struct Terms {
    /// The residency rules that name it.
    pub(crate) residence: Residence,
    /// When its first token is due.
    pub(crate) deadline: Option<Time>,
    /// Whether its client may learn about prefix matches and the fleet.
    pub(crate) tells: bool,
}

/// The body of the next attempt: at first the client's body, and after a broken stream one that
/// resumes the answer.
pub(crate) struct Payload {
    /// Attempts send slices of it, around the splices.
    pub(crate) body: Bytes,
    pub(crate) splices: Splices,
    /// For the prefill leg, if the request may have one.
    pub(crate) prefill: Option<Splices>,
    /// Whether it resumes a chat that broke off.
    pub(crate) continues: bool,
}
