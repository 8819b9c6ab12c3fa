//! The pages of the admin port.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Limited};
use hyper::body::{Body as _, Incoming};
use meridian_config::TellClients;
use meridian_protocol::address::authority;
use meridian_protocol::admin::{AddReplica, Added, Query, Times, check_json};
use meridian_protocol::openai::Endpoint;

use super::door::Door;
use super::explain::Explain;
use super::login;
use super::page::{Events, Feed, events};
use super::sessions::Sessions;
use super::status::StatusPage;
use super::tls::Caller;
use crate::health::ready;
use crate::http::body::Body;
use crate::inputs::in_force::ConfigNow;
use crate::metrics::Metrics;
use crate::policy::PolicyNow;
use crate::record::Recent;
use crate::refusal::{Refusal, json, text};
use crate::replicas::drains::DrainReason;
use crate::replicas::member::Member;
use crate::replicas::membership::Replicas;

/// The stream of the page's state.
const STREAM: &str = "/admin/page/stream";

/// The body of an answer.
pub(crate) type Answer = Either<Body, Events>;

/// Largest admin request, bytes.
const MOST_BODY: usize = 64 << 10;

/// Most decisions in one response.
const MOST_DECISIONS: usize = 1000;
/// Number of decisions without `last`.
const DECISIONS: usize = 20;

/// Timeout for a request to arrive in full and be answered. A login is read before its sender is
/// known, so without this timeout any client could occupy all connections.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everything that the pages show and change.
pub(crate) struct Admin {
    pub(crate) status: Arc<StatusPage>,
    /// The state behind the page.
    pub(crate) page: Arc<Feed>,
    pub(crate) explain: Arc<Explain>,
    /// The newest finished requests.
    pub(crate) recent: Arc<Recent>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) config: Arc<ConfigNow>,
    pub(crate) policy: Arc<PolicyNow>,
    /// Sessions of browsers that logged in.
    pub(crate) sessions: Sessions,
    pub(crate) metrics: Arc<Metrics>,
}

impl Admin {
    /// The times of the newest finished requests, or of the one with this id.
    fn times(&self, last: usize, id: Option<&str>) -> Times {
        let requests = self.recent.newest(&self.replicas.region.fleet.models, last, id);
        Times { region: self.config.now().settings.region.clone(), requests }
    }
}

/// Answers one request to the admin port.
pub(crate) async fn answer(
    admin: &Arc<Admin>,
    caller: &Arc<Caller>,
    request: Request<Incoming>,
) -> Response<Answer> {
    let answered = tokio::time::timeout(PATIENCE, answered(admin, caller, request)).await;
    let refused = |r: Refusal| r.response(Endpoint::Other).map(Either::Left);
    answered.unwrap_or_else(|_| Err(too_slow())).unwrap_or_else(refused)
}

fn too_slow() -> Refusal {
    let message =
        format!("the request did not arrive within {} s; send it again", PATIENCE.as_secs());
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "client_too_slow", message)
}

async fn answered(
    admin: &Arc<Admin>,
    caller: &Arc<Caller>,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Refusal> {
    if (request.method(), request.uri().path()) == (&Method::GET, STREAM) {
        return stream(admin, caller, request.headers().clone()).map(|a| a.map(Either::Right));
    }
    whole(admin, caller, request).await.map(|answer| answer.map(Either::Left))
}

/// A stream of the page's state. Each event requires that its reader is still admitted: a session may
/// end, and a token may leave the file.
fn stream(
    admin: &Arc<Admin>,
    caller: &Arc<Caller>,
    headers: HeaderMap,
) -> Result<Response<Events>, Refusal> {
    door(admin).guard(&Method::GET, &headers, caller)?;
    let (there, caller) = (admin.clone(), caller.clone());
    let place = caller.place.clone();
    let admitted =
        move || door(&there).admit(&Method::GET, &headers, &caller, &there.sessions).map(drop);
    admitted()?;
    place.prove();
    let events = events(&admin.page, move || admitted().is_ok()).ok_or_else(|| {
        let message = "too many pages of this gateway are open; close one";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_pages", message)
    })?;
    let mut response = Response::new(events);
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The access settings in force. Requests to this port are rare, so each builds its own.
fn door(admin: &Admin) -> Door {
    Door::new(&admin.config.now().config.admin_access)
}

/// An answer that is not a stream.
async fn whole(
    admin: &Admin,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    // Health checks reveal nothing and change nothing, so any `Host` may ask.
    match (&method, path.as_str()) {
        (&Method::GET, "/health") => return Ok(text(StatusCode::OK, "ok")),
        (&Method::GET, "/ready") => {
            return Ok(ready(&admin.replicas.region, &admin.config.now()));
        }
        _ => {}
    }
    let door = door(admin);
    door.guard(&method, request.headers(), caller)?;
    if method != Method::GET && !request.body().is_end_stream() {
        check_json(request.headers())?;
    }
    if login::serves(&path) {
        return login::answer(&door, &admin.sessions, caller, request).await;
    }
    if let Some(asset) = login::asset(&method, &path, request.headers()) {
        return Ok(asset);
    }
    let admitted = door.admit(&method, request.headers(), caller, &admin.sessions);
    if (&method, path.as_str()) == (&Method::GET, "/") {
        return login::index(&door, admitted, request.headers());
    }
    let who = admitted?;
    caller.place.prove();
    // Scrapers add their own parameters.
    if (&method, path.as_str()) == (&Method::GET, "/metrics") {
        return Ok(metrics(admin));
    }
    let query = Query::read(request.uri().query(), parameters(&method, &path))?;
    match (&method, path.as_str()) {
        (&Method::GET, "/admin/status") => Ok(page(&admin.status.read())),
        (&Method::GET, "/admin/intervals") => Ok(page(&admin.status.intervals())),
        (&Method::GET, "/admin/replicas") => Ok(page(&admin.status.read().replicas)),
        (&Method::POST, "/admin/replicas") => add(admin, request).await,
        (&Method::GET, "/admin/page") => {
            let since = query.number("since", 0..=u64::MAX)?.unwrap_or(0);
            Ok(page(&admin.page.snapshot(since)))
        }
        (&Method::GET, "/admin/config") => Ok(config(admin)),
        (&Method::GET, "/admin/session") => Ok(login::session(&who)),
        (&Method::GET, "/admin/decisions") => {
            let last = query.number("last", 1..=MOST_DECISIONS)?.unwrap_or(DECISIONS);
            Ok(page(&admin.explain.newest(last)))
        }
        (&Method::GET, "/admin/times") => {
            let last = query.number("last", 1..=MOST_DECISIONS)?.unwrap_or(DECISIONS);
            Ok(page(&admin.times(last, None)))
        }
        _ => by_id(admin, &method, &path, &query),
    }
}

/// The parameters that a request may have.
fn parameters(method: &Method, path: &str) -> &'static [&'static str] {
    match (method, path) {
        (&Method::GET, "/admin/decisions" | "/admin/times") => &["last"],
        (&Method::GET, "/admin/page") => &["since"],
        (&Method::DELETE, path) if path.starts_with("/admin/replicas/") => &["drain"],
        _ => &[],
    }
}

fn by_id(
    admin: &Admin,
    method: &Method,
    path: &str,
    query: &Query,
) -> Result<Response<Body>, Refusal> {
    if let (Some(id), &Method::GET) = (path.strip_prefix("/admin/explain/"), method) {
        let found = admin.explain.find(id);
        return found.map(|e| page(&e)).ok_or_else(|| {
            missing(
                "unknown_request",
                "no decision about this request is kept: it was refused before one, or newer ones took its place; ask sooner, or raise explain_keep",
            )
        });
    }
    if let (Some(id), &Method::GET) = (path.strip_prefix("/admin/times/"), method) {
        let found = admin.times(1, Some(id));
        return match found.requests.is_empty() {
            false => Ok(page(&found)),
            true => Err(missing(
                "unknown_request",
                "no finished request with this id is kept; ask when it has ended, or raise explain_keep",
            )),
        };
    }
    if let (Some(id), &Method::DELETE) = (path.strip_prefix("/admin/replicas/"), method) {
        return remove(admin, id, query);
    }
    Err(missing(
        "unknown_path",
        "served here: GET / /metrics /health /ready /login /admin/status /admin/intervals /admin/replicas /admin/config /admin/decisions /admin/explain/ID /admin/times /admin/times/ID /admin/session /admin/page /admin/page/stream, POST /login /logout /admin/replicas, DELETE /admin/replicas/ID",
    ))
}

fn missing(code: &'static str, message: &'static str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, code, message)
}

async fn add(admin: &Admin, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let bad = |message: String| Refusal::new(StatusCode::BAD_REQUEST, "invalid_replica", message);
    let body = Limited::new(request.into_body(), MOST_BODY).collect().await;
    let body = body.map_err(|e| bad(format!("the body cannot be read: {e}")))?.to_bytes();
    let spec: AddReplica = serde_json::from_slice(&body)
        .map_err(|e| bad(format!("{e}; send {{\"url\": \"http://host:port\"}}, with engine, models, kv_tokens, slots or weight where wanted")))?;
    let member = admin.replicas.join(spec).map_err(|e| bad(e.to_string()))?;
    tracing::info!(replica = %member.name, url = %member.spec.url, "replica added");
    let kept = if is_listed(admin, &member) { KEPT } else { NOT_KEPT };
    let added = admin.status.read().replicas.into_iter().find(|r| r.id == member.id.0);
    let added = added.map(|replica| Added { replica, kept: kept.to_owned() });
    Ok(json(StatusCode::CREATED, to_json(&added)))
}

/// How long a change through this port lasts.
const KEPT: &str = "`replicas` of this gateway's file lists it";
const NOT_KEPT: &str = "until this gateway restarts; to keep it, list it under `replicas` in its file, or add it to the control plane";
const BACK: &str = "; `replicas` of this gateway's file lists it, so it is back when that file is read again or the gateway restarts";

/// Whether the configuration file lists a replica.
fn is_listed(admin: &Admin, member: &Member) -> bool {
    let in_force = admin.config.now();
    let listed = in_force.config.replicas.iter().filter_map(|spec| authority(&spec.url));
    listed.into_iter().any(|address| address == member.authority.as_str())
}

fn remove(admin: &Admin, id: &str, query: &Query) -> Result<Response<Body>, Refusal> {
    let drain = query.flag("drain")?;
    let member = admin.replicas.named(id).ok_or_else(|| {
        missing("unknown_replica", "no such replica; GET /admin/replicas lists them")
    })?;
    let back = if is_listed(admin, &member) { BACK } else { "" };
    if drain {
        admin.replicas.let_go(&member, DrainReason::Removed);
        return Ok(text(StatusCode::ACCEPTED, format!("draining{back}")));
    }
    admin.replicas.leave(&member);
    tracing::info!(replica = %member.name, "replica removed");
    Ok(text(StatusCode::OK, format!("removed{back}")))
}

fn config(admin: &Admin) -> Response<Body> {
    let in_force = admin.config.now();
    let mut config = in_force.config.clone();
    config.tell_clients =
        Some(if in_force.tells { TellClients::All } else { TellClients::Nothing });
    config.policy = admin.policy.now();
    page(&config)
}

fn metrics(admin: &Admin) -> Response<Body> {
    let limits = &admin.config.now().limits;
    let (connections, bodies) = (limits.connections.used(), limits.bodies.used());
    let page = admin.metrics.page(&admin.status.read(), connections, bodies);
    let mut response = text(StatusCode::OK, page);
    let kind =
        HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn page(value: &impl serde::Serialize) -> Response<Body> {
    json(StatusCode::OK, to_json(value))
}

fn to_json(value: &impl serde::Serialize) -> bytes::Bytes {
    serde_json::to_vec_pretty(value).expect("status types always serialize").into()
}
