//! Health checks: `/health` and `/ready`, for load balancers and for clients that check first. They
//! need no tenant's key and reveal only yes or no.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use meridian_protocol::openai::Endpoint;

use crate::metrics::Metrics;
use crate::refusal::{Refusal, text};
use crate::replicas::region::Region;

/// The answer, if `path` is one of the two.
pub(crate) fn answer<B: From<Bytes>>(
    region: &Region,
    metrics: &Metrics,
    (method, path): (&Method, &str),
) -> Option<Response<B>> {
    let is_health = match path.strip_suffix('/').unwrap_or(path) {
        "/health" => true,
        "/ready" => false,
        _ => return None,
    };
    Some(match (method, is_health) {
        (&Method::GET | &Method::HEAD, true) => text(StatusCode::OK, "ok"),
        (&Method::GET | &Method::HEAD, false) => ready(region),
        _ => {
            let refusal = Refusal::wrong_method("GET, HEAD");
            metrics.refused(&refusal);
            refusal.response(Endpoint::Other)
        }
    })
}

/// Whether at least one replica takes requests, and other gateways have told what they know.
pub(crate) fn ready<B: From<Bytes>>(region: &Region) -> Response<B> {
    if region.draining.has_started() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining");
    }
    if region.joining.waits() {
        let why = "waits for what the other gateways of this region know";
        return text(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    match region.driver.takes_requests() {
        true => text(StatusCode::OK, "ready"),
        false => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "no replica accepts requests; GET /admin/replicas on the admin port shows the reason",
        ),
    }
}
