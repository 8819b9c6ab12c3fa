//! Answers one client request. The gateway itself answers preflights, health checks and readiness;
//! all others go through [`crate::request`].

use std::sync::Arc;

use http::header::{self, HeaderValue};
use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;

use super::{cors, health};
use crate::request::body::AnswerBody;
use crate::request::entry;
use crate::request::origin::Origin;
use crate::request::plane::ThreadPlane;

/// Answers one client request; `client` is the hash of the client's address.
pub(super) async fn answer(
    plane: Arc<ThreadPlane>,
    request: Request<Incoming>,
    client: u64,
) -> Response<AnswerBody> {
    let is_head = request.method() == Method::HEAD;
    let origin = request.headers().get(header::ORIGIN).cloned();
    let page = origin.map(|origin| (plane.clone(), origin));
    let own = own(&plane, &request);
    let is_own = own.is_some();
    let mut response = match own {
        Some(response) => response,
        None => entry::answer(plane, request, Origin::Client(client)).await,
    };
    if let Some((plane, origin)) = page {
        if !is_own {
            cors::strip(response.headers_mut());
        }
        cors::mark(plane.cors.as_ref(), &origin, response.headers_mut());
    }
    if is_head {
        leave_out_body(&mut response);
    }
    response
}

/// The gateway's own answers, which need no key: preflights, health and readiness.
fn own(plane: &ThreadPlane, request: &Request<Incoming>) -> Option<Response<AnswerBody>> {
    if let Some(preflight) = cors::preflight(plane.cors.as_ref(), request) {
        let preflight = preflight.map(|answer| answer.map(|()| AnswerBody::Whole(None)));
        return Some(preflight.unwrap_or_else(|refusal| {
            plane.metrics.refused(&refusal);
            refusal.response(meridian_wire::openai::Endpoint::Other)
        }));
    }
    let asked = (request.method(), request.uri().path());
    health::answer(&plane.limits.draining, &plane.driver, &plane.metrics, asked)
}

/// The gateway's own answer to HEAD keeps the length of the body that it leaves out. A replica's
/// answer has no body to leave out.
fn leave_out_body(response: &mut Response<AnswerBody>) {
    if !matches!(response.body(), AnswerBody::Whole(_)) {
        return;
    }
    let length = response.body().size_hint().exact().unwrap_or(0);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    *response.body_mut() = AnswerBody::Whole(None);
}
