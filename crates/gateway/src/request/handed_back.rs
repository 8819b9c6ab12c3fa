//! Gives back KV that a prefill engine keeps for a request that goes elsewhere.
//!
//! A decode engine that refuses a request frees the blocks that its parameters name. So if the chosen
//! decode replica could not be reached, another one gets a request that it has to refuse. Without it,
//! the blocks are kept until the lease ends.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use meridian_wire::legs::Added;

use crate::http::parts::Parts;
use crate::replicas::fleet::Member;
use crate::request::attempt::Transport;
use crate::request::context::RequestContext;

/// Time for the refusal.
const PATIENCE: Duration = Duration::from_secs(5);

impl Transport {
    /// Asks another decode replica than `unreached` to free the blocks that `added` names.
    pub(super) fn give_back(&self, context: &RequestContext, unreached: &Member, added: &Added) {
        let pairs_alike = |other: &Member| {
            other.id != unreached.id
                && other.spec.role == unreached.spec.role
                && other.life.down_since().is_none()
                && other.transfer() == unreached.transfer()
                && other.found().version == unreached.found().version
        };
        let Some(other) = self.fleet.all().into_iter().find(|other| pairs_alike(other)) else {
            return;
        };
        let (upstream, body) = (self.upstream(&other).clone(), refusable(context, added));
        tokio::spawn(async move {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let path = "/v1/completions";
            let refused = upstream.send(&other.dial, &Method::POST, path, &headers, &body);
            match tokio::time::timeout(PATIENCE, refused).await {
                Ok(Ok(answer)) if answer.head.status.is_client_error() => {}
                _ => tracing::debug!(replica = %other.name, "KV is kept until its lease ends"),
            }
        });
    }
}

/// A request with these members that every engine refuses: none generates -1 tokens.
fn refusable(context: &RequestContext, added: &Added) -> Parts {
    let model = serde_json::to_vec(&context.prompt.info.model).unwrap_or_default();
    let head = [&b"{\"model\":"[..], &model, b",\"prompt\":\"-\",\"max_tokens\":-1,"].concat();
    let members = added.members.iter().cloned();
    let all = std::iter::once(Bytes::from(head)).chain(members);
    Parts::new(all.chain([Bytes::from_static(b"}")]).collect())
}
