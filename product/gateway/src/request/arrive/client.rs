//! Answers one client request. The gateway itself answers preflights, health checks and readiness;
//! all others take the way of [`Requests`].

use std::sync::Arc;

use http::header::{self, HeaderValue};
use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::health;
use crate::http::connection::Answers;
use crate::http::cors;
use crate::metrics::Metrics;
use crate::replicas::upstream::Upstream;
use crate::request::answer::body::AnswerBody;
use crate::request::arrive::entry::Requests;
use crate::request::arrive::origin::Origin;
use crate::request::plane::DataPlane;

/// The answers to the clients of one thread.
pub(crate) struct ClientService {
    requests: Requests,
}

impl Answers for ClientService {
    type Body = AnswerBody;

    async fn answer(&self, request: Request<Incoming>, client: u64) -> Response<AnswerBody> {
        let is_head = request.method() == Method::HEAD;
        let page = request.headers().get(header::ORIGIN).cloned();
        let own = self.own(&request);
        let is_own = own.is_some();
        let mut response = match own {
            Some(response) => response,
            None => self.requests.answer(request, Origin::Client(client)).await,
        };
        if let Some(origin) = page {
            if !is_own {
                cors::strip(response.headers_mut());
            }
            cors::mark(
                self.requests.plane().inputs.config.now().cors.as_ref(),
                &origin,
                response.headers_mut(),
            );
        }
        if is_head {
            leave_out_body(&mut response);
        }
        response
    }

    fn metrics(&self) -> &Metrics {
        &self.requests.plane().metrics
    }
}

impl ClientService {
    pub(crate) fn new(plane: &Arc<DataPlane>, near: Upstream) -> ClientService {
        ClientService { requests: Requests::new(plane, near) }
    }

    /// The gateway's own answers, which need no key: preflights, health and readiness.
    fn own(&self, request: &Request<Incoming>) -> Option<Response<AnswerBody>> {
        let DataPlane { region, inputs, metrics, .. } = self.requests.plane();
        if let Some(page) = cors::asking(request) {
            let in_force = inputs.config.now();
            let preflight = cors::preflight(in_force.cors.as_ref(), page, request.headers());
            let preflight = preflight.map(|answer| answer.map(|()| AnswerBody::Whole(None)));
            return Some(preflight.unwrap_or_else(|refusal| {
                metrics.refused(&refusal);
                refusal.response(meridian_protocol::openai::Endpoint::Other)
            }));
        }
        let asked = (request.method(), request.uri().path());
        health::answer(region, &inputs.config.now(), metrics, asked)
    }
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
