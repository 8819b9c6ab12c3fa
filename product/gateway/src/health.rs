//! Health checks: `/health` and `/ready`, for load balancers and for clients that check first. They
//! need no tenant's key and reveal only yes or no.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use meridian_protocol::openai::Endpoint;

use crate::inputs::in_force::InForce;
use crate::metrics::Metrics;
use crate::refusal::{Refusal, text};
use crate::replicas::region::Region;

/// The answer, if `path` is one of the two.
pub(crate) fn answer<B: From<Bytes>>(
    region: &Region,
    in_force: &InForce,
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
        (&Method::GET | &Method::HEAD, false) => ready(region, in_force),
        _ => {
            let refusal = Refusal::wrong_method("GET, HEAD");
            metrics.refused(&refusal);
            refusal.response(Endpoint::Other)
        }
    })
}

/// Whether at least one replica takes requests, and other gateways have told what they know.
///
/// If a model is scaled to zero, no replica has to be there: a load balancer would send no request to a
/// gateway that is not ready, and without a request no replica starts.
pub(crate) fn ready<B: From<Bytes>>(region: &Region, in_force: &InForce) -> Response<B> {
    if region.draining.has_started() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining");
    }
    if region.joining.waits() {
        let why = "waits for what the other gateways of this region know";
        return text(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    let waits = in_force.config.scaled_to_zero().next().is_some();
    match waits || region.driver.takes_requests() {
        true => text(StatusCode::OK, "ready"),
        false => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "no replica accepts requests; GET /admin/replicas on the admin port shows the reason",
        ),
    }
}
