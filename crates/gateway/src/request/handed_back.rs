//! KV that a prefill engine keeps for a decode engine, until that one has the request.
//!
//! If the request ends between its two legs, the prefill engine would keep the blocks until its
//! lease ends. A decode engine that refuses a request frees the blocks that its parameters name, so
//! it gets one that it has to refuse.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use meridian_wire::legs::Added;

use crate::http::parts::Parts;
use crate::replicas::fleet::Member;
use crate::replicas::upstream::Upstream;
use crate::request::context::RequestContext;

/// Time for the refusal.
const PATIENCE: Duration = Duration::from_secs(5);

/// Blocks that are kept for a request. Unless the decode engine takes them, they are given back.
pub(super) struct Pinned(Option<GiveBack>);

struct GiveBack {
    upstream: Upstream,
    to: Arc<Member>,
    headers: HeaderMap,
    body: Parts,
}

impl Pinned {
    pub(super) fn new(
        upstream: Upstream,
        to: Arc<Member>,
        context: &RequestContext,
        added: &Added,
    ) -> Pinned {
        // No engine generates -1 tokens.
        let model = serde_json::to_vec(&context.prompt.info.model).unwrap_or_default();
        let head = [&b"{\"model\":"[..], &model, b",\"prompt\":\"-\",\"max_tokens\":-1,"].concat();
        let mut body = vec![Bytes::from(head)];
        body.extend(added.members.iter().cloned());
        body.push(Bytes::from_static(b"}"));
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = Parts::new(body.into_iter().collect());
        Pinned(Some(GiveBack { upstream, to, headers, body }))
    }

    /// The decode engine has the request.
    pub(super) fn taken(&mut self) {
        self.0 = None;
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let Some(GiveBack { upstream, to, headers, body }) = self.0.take() else { return };
        // A gateway that stops has no runtime left for it; the lease then ends.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let refused =
                upstream.send(&to.dial, &Method::POST, "/v1/completions", &headers, &body);
            match tokio::time::timeout(PATIENCE, refused).await {
                Ok(Ok(answer)) if answer.head.status.is_client_error() => {}
                _ => tracing::debug!(replica = %to.name, "KV is kept until its lease ends"),
            }
        });
    }
}
