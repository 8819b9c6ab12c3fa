//! The facts of a request: read once, when it is admitted, and the same until it ends. What changes
//! meanwhile is elsewhere: what is sent of it in [`Payload`], what it holds in
//! [`crate::request::reserved`], where it stands in [`crate::request::lifecycle`] and
//! [`crate::request::relay`].

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use meridian_base::{ModelId, Time};
use meridian_routing::Priority;
use meridian_routing::residency::Residence;
use meridian_wire::openai::{Endpoint, RequestInfo, Splices};

use crate::peers::report::Report;

/// What is known of one request.
pub(crate) struct RequestContext {
    /// When it came.
    pub(crate) began: Instant,
    pub(crate) call: Call,
    pub(crate) sender: Sender,
    pub(crate) prompt: Prompt,
    pub(crate) terms: Terms,
}

/// The HTTP request, less its body.
pub(crate) struct Call {
    pub(crate) endpoint: Endpoint,
    pub(crate) method: Method,
    /// The path and the query, as a replica gets them.
    pub(crate) path: String,
    /// As a replica gets them.
    pub(crate) headers: HeaderMap,
    /// The id that the client sees.
    pub(crate) shown_id: HeaderValue,
}

/// Who sent it.
pub(crate) struct Sender {
    /// The keyed hash of the tenant's name; 0 for none.
    pub(crate) tenant: u64,
    /// The tenant's name, kept where there are peers to forward to.
    pub(crate) tenant_name: Option<HeaderValue>,
    /// The affinity key.
    pub(crate) key: u64,
    pub(crate) priority: Priority,
    /// Forwards between regions so far.
    pub(crate) hops: u8,
    /// What the peer is told that forwarded it.
    pub(crate) report: Option<Arc<Report>>,
}

/// What it asks for.
pub(crate) struct Prompt {
    pub(crate) model: ModelId,
    /// Estimated.
    pub(crate) tokens: u32,
    /// As its body was read. The splices are taken out: they belong to the [`Payload`].
    pub(crate) info: RequestInfo,
    /// Keeps its tenant apart in an engine's prefix cache.
    pub(crate) salt: Option<String>,
}

/// What binds the gateway in serving it.
pub(crate) struct Terms {
    /// The residency rules that name it.
    pub(crate) residence: Residence,
    /// When its first token is due.
    pub(crate) deadline: Option<Time>,
    /// Its client is told of prefix matches and of the fleet.
    pub(crate) tells: bool,
}

/// The body of the next attempt: at first the client's, after a break one that continues the answer.
pub(crate) struct Payload {
    /// What goes out are slices of it, around the splices.
    pub(crate) body: Bytes,
    pub(crate) splices: Splices,
    /// It continues a chat that broke off.
    pub(crate) continues: bool,
}
