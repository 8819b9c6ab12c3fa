//! Answers one request of a client: preflights, health checks and readiness by the gateway itself, all
//! others through [`crate::request`].

use std::sync::Arc;

use http::header::{self, HeaderValue};
use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;

use super::{cors, health};
use crate::http::body::Body;
use crate::request::admit::{self, Origin};
use crate::worker::Worker;

/// Answers one request of a client, whose address hashes to `client`.
pub(super) async fn answer(
    worker: Arc<Worker>,
    request: Request<Incoming>,
    client: u64,
) -> Response<Body> {
    let is_head = request.method() == Method::HEAD;
    let origin = request.headers().get(header::ORIGIN).cloned();
    let page = origin.map(|origin| (worker.clone(), origin));
    let own = own(&worker, &request);
    let is_own = own.is_some();
    let mut response = match own {
        Some(response) => response,
        None => admit::answer(worker, request, Origin::Client(client)).await,
    };
    if let Some((worker, origin)) = page {
        if !is_own {
            cors::strip(response.headers_mut());
        }
        cors::mark(worker.cors.as_ref(), &origin, response.headers_mut());
    }
    if is_head {
        leave_out_body(&mut response);
    }
    response
}

/// What the gateway answers itself, without a key: preflights, health and readiness.
fn own(worker: &Worker, request: &Request<Incoming>) -> Option<Response<Body>> {
    if let Some(preflight) = cors::preflight(worker.cors.as_ref(), request) {
        return Some(preflight.unwrap_or_else(|refusal| {
            worker.metrics.refused(&refusal);
            refusal.response(meridian_wire::openai::Endpoint::Other)
        }));
    }
    health::answer(worker, request.method(), request.uri().path())
}

/// An answer of the gateway's own to HEAD has the length of the body that it leaves out. A
/// replica's has none to leave out.
fn leave_out_body(response: &mut Response<Body>) {
    if !matches!(response.body(), Body::Whole(_)) {
        return;
    }
    let length = response.body().size_hint().exact().unwrap_or(0);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    *response.body_mut() = Body::Whole(None);
}
