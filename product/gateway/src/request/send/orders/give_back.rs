//! Gives back KV that a prefill engine keeps for a decode leg that is never sent.
//!
//! A decode engine that has the request frees the blocks itself, whatever happens to it. If the
//! chosen one never got it, because it could not be reached or because the client left before, a
//! decode replica gets a request that it has to refuse, and frees the blocks that its parameters
//! name. Without it, the blocks are kept until the lease ends.
//!
//! Parameters are used once: if a byte of the decode leg may have been sent, nothing is given back.
//! A decode engine that was only stalled would read the blocks when it wakes, and they may be
//! another prompt's by then.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use meridian_base::ModelId;
use meridian_protocol::legs::Added;
use tokio::runtime::Handle;

use crate::http::parts::Parts;
use crate::replicas::member::Member;
use crate::replicas::upstream::Request;
use crate::request::send::Attempts;

/// Time for the refusal.
const PATIENCE: Duration = Duration::from_secs(5);

impl Attempts {
    /// Asks a decode replica to free the blocks that `added` names: another one than `to` if there is
    /// one in its place, since that may be out of reach. Parameters may tell tokens of the prompt,
    /// which its residency rules may keep from other places.
    pub(super) fn give_back(&self, model: ModelId, to: &Arc<Member>, added: &Added) {
        let (Some(model), Ok(runtime)) =
            (self.plane.region.fleet.models.name(model), Handle::try_current())
        else {
            return;
        };
        let pairs_alike = |other: &Member| {
            let found = other.found();
            other.id != to.id
                && other.place == to.place
                && other.spec.role == to.spec.role
                && other.life.down_since().is_none()
                && other.transfer() == to.transfer()
                && found.version == to.found().version
                && found.models.contains(&model)
        };
        let other = self.plane.region.fleet.all().into_iter().find(|other| pairs_alike(other));
        let other = other.unwrap_or_else(|| to.clone());
        assert_eq!(other.place, to.place, "what may tell of a prompt leaves its place");
        let (upstream, body) = (self.upstream(&other).clone(), refusable(&model, added));
        runtime.spawn(async move {
            let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
            let request = Request {
                method: &Method::POST,
                path: "/v1/completions",
                headers: &HeaderMap::new(),
                added: &json,
                body: &body,
                cut: &AtomicBool::new(false),
            };
            let refused = upstream.send(&other.dial, request);
            match tokio::time::timeout(PATIENCE, refused).await {
                Ok(Ok(answer)) if answer.head.status.is_client_error() => {}
                _ => tracing::debug!(replica = %other.name, "KV is kept until its lease ends"),
            }
        });
    }
}

/// A request with these members that every engine refuses: none generates -1 tokens.
fn refusable(model: &str, added: &Added) -> Parts {
    let model = serde_json::to_vec(model).unwrap_or_default();
    let head = [&b"{\"model\":"[..], &model, b",\"prompt\":\"-\",\"max_tokens\":-1,"].concat();
    let members = added.members.iter().cloned();
    let all = std::iter::once(Bytes::from(head)).chain(members);
    Parts::new(all.chain([Bytes::from_static(b"}")]).collect())
}
