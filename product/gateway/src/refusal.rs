//! Refusals: OpenAI's error form, a matching status, the cause and the remedy, and Retry-After if
//! waiting helps.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use meridian_protocol::admin::{BadQuery, Barred};
use meridian_protocol::openai::{BadRequest, Endpoint, error_body};
use meridian_routing::{Closed, RejectWhy};

/// Marks the gateway's own refusals and contains their code; their bodies are for clients.
pub(crate) const REFUSED: HeaderName = HeaderName::from_static("x-meridian-refused");
/// The code for a request during which two engines died: a gateway that gets it from a peer does
/// not retry.
pub(crate) const ENGINE_DIED: &str = "engine_died";

/// One refusal, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: Cow<'static, str>,
    pub(crate) param: Option<&'static str>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) allow: Option<&'static str>,
    /// How a client that is not known identifies itself, for status 401.
    pub(crate) challenge: &'static str,
    /// Set if the request exceeds a limit of its tenant.
    pub(crate) limited: Option<Box<Limited>>,
}

/// A request that exceeds a limit of its tenant.
#[derive(Clone, Debug)]
pub(crate) struct Limited {
    /// The limit's name, a metric label.
    pub(crate) limit: &'static str,
    /// Headers with the remainder of the tenant's limits.
    pub(crate) headers: HeaderMap,
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Refusal {
        let is_error = status.is_client_error() || status.is_server_error();
        assert!(is_error, "a client would take a refusal with status {status} for an answer");
        Refusal {
            status,
            code,
            message: message.into(),
            param: None,
            retry_after: None,
            allow: None,
            challenge: "Bearer",
            limited: None,
        }
    }

    pub(crate) fn retry_after(mut self, wait: Duration) -> Refusal {
        self.retry_after = Some(wait);
        self
    }

    pub(crate) fn bad_request(bad: BadRequest) -> Refusal {
        let param = bad.param;
        Refusal { param, ..Refusal::new(StatusCode::BAD_REQUEST, "invalid_request", bad.message) }
    }

    /// RFC 9110 section 15.5.6: the refusal of a method names the allowed one.
    pub(crate) fn wrong_method(allow: &'static str) -> Refusal {
        let refusal = Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            format!("this path does not accept the method; use {allow}"),
        );
        Refusal { allow: Some(allow), ..refusal }
    }

    /// With what the client or the operator can do about the path.
    pub(crate) fn unknown_path(remedy: &str) -> Refusal {
        Refusal::new(
            StatusCode::NOT_FOUND,
            "unknown_path",
            format!("the gateway does not serve this path: {remedy}"),
        )
    }

    /// `what` of a request did not arrive in time.
    pub(crate) fn too_slow(what: &'static str, limit: Duration) -> Refusal {
        Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "client_too_slow",
            format!(
                "the request's {what} did not arrive within {} ms; send it faster, or raise timeouts.client in the gateway's configuration",
                limit.as_millis()
            ),
        )
    }

    pub(crate) fn too_large(limit: u64) -> Refusal {
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!(
                "the body is larger than {limit} bytes; send less, or raise limits.body in the gateway's configuration"
            ),
        )
    }

    pub(crate) fn busy(what: &'static str) -> Refusal {
        Refusal::new(
            StatusCode::TOO_MANY_REQUESTS,
            "gateway_full",
            format!("the gateway has reached {what}; retry later, or raise the limit"),
        )
        .retry_after(Duration::from_secs(1))
    }

    pub(crate) fn draining() -> Refusal {
        Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining",
            "this gateway is shutting down; retry, and another gateway will answer",
        )
        .retry_after(Duration::from_secs(1))
    }

    /// For peers only.
    pub(crate) fn cannot_continue() -> Refusal {
        Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "cannot_continue",
            "a replica of this model here cannot continue a message; try another peer",
        )
    }

    /// For a client that may not see the fleet.
    pub(crate) fn no_dry_run() -> Refusal {
        Refusal::new(
            StatusCode::FORBIDDEN,
            "dry_run_off",
            "dry runs are off for clients (`tell_clients: nothing`); remove x-meridian-dry-run, or ask the operator",
        )
    }

    /// No response with this id belongs to the tenant. The answer is the same for another tenant's
    /// response and for one that never existed.
    pub(crate) fn unknown_response() -> Refusal {
        Refusal {
            param: Some("previous_response_id"),
            ..Refusal::new(
                StatusCode::NOT_FOUND,
                "previous_response_not_found",
                "this gateway has no response with this id for this API key; send the whole conversation",
            )
        }
    }

    pub(crate) fn unknown_model() -> Refusal {
        Refusal {
            param: Some("model"),
            ..Refusal::new(
                StatusCode::NOT_FOUND,
                "model_not_found",
                "no replica of this region serves the requested model; GET /v1/models lists the available models, and the gateway waits for replicas of those that its configuration has under `models`",
            )
        }
    }

    /// The routing machine's refusal. `last` is the last attempt's failure; `tells` says whether
    /// the client may learn about the fleet.
    pub(crate) fn of(
        why: RejectWhy,
        retry_after: Duration,
        last: Option<&str>,
        tells: bool,
    ) -> Refusal {
        let code = why.word();
        let wait = |r: Refusal| r.retry_after(retry_after);
        match why {
            RejectWhy::UnknownModel => Refusal::unknown_model(),
            RejectWhy::NoReplica => wait(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                code,
                "no replica of this model has answered yet; check the replicas at /admin/status of the gateway",
            )),
            RejectWhy::PinnedGone => Refusal {
                param: Some("previous_response_id"),
                ..Refusal::new(
                    StatusCode::NOT_FOUND,
                    code,
                    "the replica that stored this response is gone; send the whole conversation",
                )
            },
            RejectWhy::NotPermitted => Refusal::new(
                StatusCode::FORBIDDEN,
                code,
                "no replica is in a place where this request may be served; add one there, or widen its residency rule",
            ),
            RejectWhy::HeldFull { .. }
            | RejectWhy::TenantHeldFull { .. }
            | RejectWhy::Displaced
            | RejectWhy::NoRoom => {
                wait(Refusal::new(StatusCode::TOO_MANY_REQUESTS, code, full(why)))
            }
            RejectWhy::HeldTooLong { limit, closed } => wait(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                code,
                held_too_long(limit, closed, tells),
            )),
            RejectWhy::NoReplicaInTime { limit } => wait(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                code,
                no_replica_in_time(limit, tells),
            )),
            RejectWhy::RetriesExhausted { attempts } => wait(Refusal::new(
                StatusCode::BAD_GATEWAY,
                code,
                format!(
                    "{attempts} attempts failed, the last one with: {}",
                    last.unwrap_or("no other replica is left")
                ),
            )),
            RejectWhy::EngineDied { .. } => Refusal::new(
                StatusCode::BAD_GATEWAY,
                ENGINE_DIED,
                format!(
                    "two engines failed during this request, so the gateway does not retry it on another: {}; check the logs of the engines before you retry",
                    last.unwrap_or("the connection ended")
                ),
            ),
        }
    }

    /// Two replicas answered with the same redirect.
    pub(crate) fn redirected(status: StatusCode) -> Refusal {
        Refusal::new(
            StatusCode::BAD_GATEWAY,
            "redirected",
            format!(
                "the engine answered {status}, and the gateway does not follow redirects; correct the path of the request, or the urls of the replicas in the gateway's configuration"
            ),
        )
    }

    pub(crate) fn response<B: From<Bytes>>(self, endpoint: Endpoint) -> Response<B> {
        let body = error_body(endpoint, self.status.as_u16(), self.code, &self.message, self.param);
        let mut response = json(self.status, body);
        response.headers_mut().insert(REFUSED, HeaderValue::from_static(self.code));
        if let Some(allow) = self.allow {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static(self.challenge);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        // RFC 9110 section 12.5.3: the accepted encodings of a body.
        if self.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            let plain = HeaderValue::from_static("identity");
            response.headers_mut().insert(header::ACCEPT_ENCODING, plain);
        }
        if let Some(limited) = self.limited {
            response.headers_mut().extend(limited.headers);
        }
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_secs().max(1);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<Barred> for Refusal {
    fn from(barred: Barred) -> Refusal {
        Refusal::new(barred.status(), barred.code(), barred.to_string())
    }
}

impl From<BadQuery> for Refusal {
    fn from(bad: BadQuery) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, BadQuery::CODE, bad.to_string())
    }
}

/// Why the queue does not accept the request either.
fn full(why: RejectWhy) -> Cow<'static, str> {
    match why {
        RejectWhy::HeldFull { limit } => format!(
            "all replicas are full, and {limit} requests are queued already; send fewer requests, or add replicas"
        )
        .into(),
        RejectWhy::TenantHeldFull { limit } => format!(
            "all replicas are full, and {limit} requests of this tenant are queued already; send fewer requests"
        )
        .into(),
        RejectWhy::Displaced => {
            "all replicas and the queue are full, and a request with a higher priority took this one's place; retry later, or add replicas".into()
        }
        _ => {
            "all replicas are full, and requests from peers are not queued here; queue it there, or try another peer".into()
        }
    }
}

/// Why a request for a model that is scaled to zero was not served.
fn no_replica_in_time(limit: Duration, tells: bool) -> String {
    let remedy = match tells {
        false => "retry later",
        true => {
            "check its autoscaler, or raise `models.NAME.scale_from_zero` in the gateway's configuration above the time that a replica takes to start"
        }
    };
    format!("no replica of the requested model came within {} s; {remedy}", limit.as_secs())
}

/// Why a queued request was not served. Includes the state of its replicas if that may be revealed.
fn held_too_long(limit: Duration, closed: Closed, tells: bool) -> String {
    if !tells {
        let lacked =
            if closed.is_outage() { "that serves the model was up" } else { "had free capacity" };
        return format!("no replica {lacked} within {} ms; retry later", limit.as_millis());
    }
    let states = [
        (closed.full, "full"),
        (closed.down, "down (no answer to probes)"),
        (closed.breaker, "failing (circuit breaker open)"),
        (closed.draining, "draining"),
        (closed.failed, "failed with this request"),
    ];
    let mut states: Vec<String> =
        states.iter().filter(|(n, _)| *n > 0).map(|(n, state)| format!("{n} {state}")).collect();
    if closed.peers > 0 {
        states.push(format!("{} gateways of other regions without free capacity", closed.peers));
    }
    let remedy = match closed.is_outage() {
        true => "see GET /admin/status for the state of the replicas",
        false => "retry later, or add replicas",
    };
    if states.is_empty() {
        let ms = limit.as_millis();
        return format!(
            "no replica has served the requested model within {ms} ms; start one, or check its name"
        );
    }
    let of = states.join(", ");
    format!("no replica accepted the request within {} ms: {of}; {remedy}", limit.as_millis())
}

/// A JSON answer of the gateway itself.
pub(crate) fn json<B: From<Bytes>>(status: StatusCode, body: Bytes) -> Response<B> {
    let mut response = Response::new(B::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A line of text.
pub(crate) fn text<B: From<Bytes>>(status: StatusCode, line: impl Into<Bytes>) -> Response<B> {
    let mut response = Response::new(B::from(line.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
