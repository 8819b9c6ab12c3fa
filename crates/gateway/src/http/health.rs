//! `/health` and `/ready`, for load balancers and clients that look before they send. They need no
//! tenant's key and say nothing but yes or no.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use meridian_base::ReplicaId;
use meridian_routing::State;
use meridian_wire::openai::Endpoint;

use crate::http::refusal::{Refusal, text};
use crate::shared::Shared;

/// The answer where `path` is one of the two.
pub(super) fn answer<B: From<Bytes>>(
    shared: &Shared,
    method: &Method,
    path: &str,
) -> Option<Response<B>> {
    let is_health = match path.strip_suffix('/').unwrap_or(path) {
        "/health" => true,
        "/ready" => false,
        _ => return None,
    };
    Some(match (method, is_health) {
        (&Method::GET | &Method::HEAD, true) => text(StatusCode::OK, "ok"),
        (&Method::GET | &Method::HEAD, false) => ready(shared),
        _ => {
            let refusal = Refusal::wrong_method("GET, HEAD");
            shared.metrics.refused(&refusal);
            refusal.response(Endpoint::Other)
        }
    })
}

/// Whether some replica takes requests.
pub(crate) fn ready<B: From<Bytes>>(shared: &Shared) -> Response<B> {
    if shared.is_draining() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining");
    }
    let now = shared.driver.clock.now();
    let inner = shared.driver.lock();
    let table = inner.routing.replicas();
    let takes = |id: &ReplicaId| {
        table.row(*id).closed.is_none()
            && table.spec(*id).is_some_and(|spec| !spec.models.is_empty())
            && table.status(*id, now).is_some_and(|s| s.state == State::Up)
    };
    match table.ids().iter().any(takes) {
        true => text(StatusCode::OK, "ready"),
        false => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "no replica takes requests; GET /admin/replicas at the admin port tells why",
        ),
    }
}
