//! Answers of the admin port, and refusals: a code, the cause and the remedy.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use meridian_protocol::admin::{BadQuery, Barred};
use meridian_protocol::openai::error_json;

use crate::Error;
use crate::registry::Refused;

/// Body of every answer; that of a watch does not end.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// One refusal.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

pub(super) type Answered = Result<Response<Body>, Refusal>;

impl Refusal {
    pub(super) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
    ) -> Refusal {
        Refusal { status, code, message: message.into() }
    }

    pub(super) fn bad(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(super) fn response(&self) -> Response<Body> {
        let is_error = self.status.is_client_error() || self.status.is_server_error();
        assert!(is_error, "a refusal has the status of an error");
        with(self.status, error_json(self.status.as_u16(), self.code, &self.message, None), JSON)
    }
}

impl From<Barred> for Refusal {
    fn from(barred: Barred) -> Refusal {
        Refusal::new(barred.status(), barred.code(), barred.to_string())
    }
}

impl From<BadQuery> for Refusal {
    fn from(bad: BadQuery) -> Refusal {
        Refusal::bad(BadQuery::CODE, bad.to_string())
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        let message = refused.to_string();
        let (status, code) = match refused {
            Refused::Name { .. } | Refused::Region(_) => (StatusCode::BAD_REQUEST, "invalid_name"),
            Refused::Policy(_) => (StatusCode::BAD_REQUEST, "invalid_policy"),
            Refused::Record(_) => (StatusCode::BAD_REQUEST, "invalid_record"),
            Refused::Unknown { .. } => (StatusCode::NOT_FOUND, "unknown_name"),
            Refused::There { .. } => (StatusCode::CONFLICT, "name_taken"),
            Refused::Changed { .. } => (StatusCode::CONFLICT, "changed"),
            Refused::Unreadable { .. } => (StatusCode::CONFLICT, "unreadable"),
            Refused::Busy { .. } => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Refused::Store(Error::NoLease(_)) => (StatusCode::GONE, "no_lease"),
            Refused::Store(Error::OverLimit { .. }) => (StatusCode::BAD_REQUEST, "beyond_limit"),
            Refused::Store(Error::Compacted { .. }) => (StatusCode::GONE, "compacted"),
            Refused::Store(Error::Unavailable(_)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable")
            }
            Refused::Store(Error::Full(_)) => (StatusCode::SERVICE_UNAVAILABLE, "store_full"),
            Refused::Store(_) => (StatusCode::INTERNAL_SERVER_ERROR, "store_failed"),
        };
        Refusal { status, code, message }
    }
}

const JSON: &str = "application/json";

/// JSON for people and programs.
pub(super) fn page(value: &impl serde::Serialize) -> Response<Body> {
    status_page(StatusCode::OK, value)
}

pub(super) fn status_page(status: StatusCode, value: &impl serde::Serialize) -> Response<Body> {
    let body = serde_json::to_vec_pretty(value).expect("keys are strings, numbers are finite");
    with(status, body.into(), JSON)
}

pub(super) fn text(body: impl Into<Bytes>) -> Response<Body> {
    with(StatusCode::OK, body.into(), "text/plain; charset=utf-8")
}

fn with(status: StatusCode, body: Bytes, kind: &'static str) -> Response<Body> {
    let mut response = typed(Full::new(body).boxed_unsync(), kind);
    *response.status_mut() = status;
    response
}

/// An answer with a content type.
pub(super) fn typed(body: Body, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
