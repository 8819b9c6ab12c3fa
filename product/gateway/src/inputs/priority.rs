//! The priority class of a client's request: its tenant's, or a lower one that the client requests.

use http::StatusCode;
use http::header::{HeaderMap, HeaderName};
use meridian_routing::Priority;

use crate::refusal::Refusal;

/// Between gateways the same header carries the class in force.
const PRIORITY: HeaderName = HeaderName::from_static("x-meridian-priority");

/// The class of a request whose tenant has class `own`. Removes the header, which is for the
/// gateway only.
pub(crate) fn lowered(headers: &mut HeaderMap, own: Priority) -> Result<Priority, Refusal> {
    let Some(asked) = headers.remove(&PRIORITY) else { return Ok(own) };
    match asked.to_str().ok().and_then(Priority::of) {
        Some(asked) => Ok(asked.min(own)),
        None => Err(unknown()),
    }
}

fn unknown() -> Refusal {
    Refusal::new(
        StatusCode::BAD_REQUEST,
        "invalid_request",
        "x-meridian-priority: is unknown; send low, normal or high, or remove the header",
    )
}
