//! Forwards a request to a peer: the client's own bytes, plus this gateway's headers.

use std::time::Duration;

use http::header::{HeaderMap, HeaderValue};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use meridian_base::residency::Residence;
use meridian_protocol::peer::Marks;
use meridian_routing::Priority;

use super::link::Link;
use crate::facts::trace::TRACEPARENT;
use crate::fault::AttemptError;
use crate::http::parts::Parts;

/// A request to forward.
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: Parts,
    pub(crate) tenant: Option<HeaderValue>,
    pub(crate) key: u64,
    /// Time left until the first byte is due here; none without an objective.
    pub(crate) left: Option<Duration>,
    pub(crate) model: Option<HeaderValue>,
    /// It resumes a chat that broke off.
    pub(crate) continues: bool,
    /// An engine died under it here.
    pub(crate) died: bool,
    pub(crate) priority: Priority,
    pub(crate) residence: &'a Residence,
    /// The `traceparent` for the peer, if the request is traced.
    pub(crate) traceparent: Option<HeaderValue>,
}

impl Link {
    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn forward(
        &self,
        out: Outgoing<'_>,
    ) -> Result<Response<Incoming>, AttemptError> {
        let marks = Marks {
            hops: 1,
            tenant: out.tenant,
            key: out.key,
            // The answer needs the way back, too.
            budget: out.left.map(|left| left.saturating_sub(self.rtt())),
            model: out.model,
            continues: out.continues,
            died: out.died,
            priority: out.priority,
            rules: out.residence.rules().iter().map(|rule| (**rule).clone()).collect(),
        };
        let mut request = Request::new(out.body);
        *request.method_mut() = out.method.clone();
        *request.uri_mut() = self
            .uri(out.path)
            .parse()
            .map_err(|e| AttemptError::peer(format!("the path cannot be forwarded: {e}")))?;
        *request.headers_mut() = out.headers.clone();
        marks.write(request.headers_mut());
        if let Some(parent) = out.traceparent {
            request.headers_mut().insert(TRACEPARENT, parent);
        }
        self.line.send(request).await.map_err(|e| AttemptError::peer(e.to_string()))
    }
}
