//! The pages of the admin port.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use meridian_wire::admin::{AddReplica, Added, Query, check_json};
use meridian_wire::config::{Gateway as Config, TellClients, authority};
use meridian_wire::openai::Endpoint;

use super::explain::Explain;
use super::login;
use super::sessions::Sessions;
use super::status::StatusPage;
use super::tls::Caller;
use crate::access::{AccessNow, Written};
use crate::draining::Draining;
use crate::http::body::Body;
use crate::http::health::ready;
use crate::http::limits::Bound;
use crate::http::refusal::{Refusal, json, text};
use crate::machine::policy::PolicyNow;
use crate::metrics::Metrics;
use crate::replicas::drains::DrainReason;
use crate::replicas::fleet::Member;
use crate::replicas::membership::Replicas;

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
    /// The gateway's configuration at the start.
    pub(crate) config: Config,
    pub(crate) status: StatusPage,
    pub(crate) explain: Arc<Explain>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) access: Arc<AccessNow>,
    pub(crate) policy: Arc<PolicyNow>,
    /// Sessions of browsers that logged in.
    pub(crate) sessions: Sessions,
    pub(crate) metrics: Arc<Metrics>,
    /// Counts the clients' connections and the bytes of their request bodies.
    pub(crate) connections: Bound,
    pub(crate) bodies: Bound,
    pub(crate) draining: Draining,
}

/// Answers one request to the admin port.
pub(crate) async fn answer(
    admin: &Admin,
    caller: &Caller,
    request: Request<Incoming>,
) -> Response<Body> {
    let answered = tokio::time::timeout(PATIENCE, answered(admin, caller, request)).await;
    answered.unwrap_or_else(|_| Err(too_slow())).unwrap_or_else(|r| r.response(Endpoint::Other))
}

fn too_slow() -> Refusal {
    let message =
        format!("the request did not arrive within {} s; send it again", PATIENCE.as_secs());
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "client_too_slow", message)
}

async fn answered(
    admin: &Admin,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    // Health checks reveal nothing and change nothing, so any `Host` may ask.
    match (&method, path.as_str()) {
        (&Method::GET, "/health") => return Ok(text(StatusCode::OK, "ok")),
        (&Method::GET, "/ready") => return Ok(ready(&admin.draining, &admin.status.driver)),
        _ => {}
    }
    let access = admin.access.now();
    access.door.guard(&method, request.headers(), caller)?;
    if method != Method::GET && !request.body().is_end_stream() {
        check_json(request.headers())?;
    }
    if login::serves(&path) {
        return login::answer(&access.door, &admin.sessions, caller, request).await;
    }
    let who = access.door.admit(&method, request.headers(), caller, &admin.sessions)?;
    // Scrapers add their own parameters.
    if (&method, path.as_str()) == (&Method::GET, "/metrics") {
        return Ok(metrics(admin));
    }
    let query = Query::read(request.uri().query(), parameters(&method, &path))?;
    match (&method, path.as_str()) {
        (&Method::GET, "/admin/status") => Ok(page(&admin.status.read())),
        (&Method::GET, "/admin/replicas") => Ok(page(&admin.status.read().replicas)),
        (&Method::POST, "/admin/replicas") => add(admin, request).await,
        (&Method::GET, "/admin/config") => Ok(config(admin)),
        (&Method::GET, "/admin/session") => Ok(login::session(&who)),
        (&Method::GET, "/admin/decisions") => {
            let last = query.number("last", 1..=MOST_DECISIONS)?.unwrap_or(DECISIONS);
            Ok(page(&admin.explain.newest(last)))
        }
        _ => by_id(admin, &method, &path, &query),
    }
}

/// The parameters that a request may have.
fn parameters(method: &Method, path: &str) -> &'static [&'static str] {
    match (method, path) {
        (&Method::GET, "/admin/decisions") => &["last"],
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
                "no decision about this request is kept; ask sooner, or raise explain_keep",
            )
        });
    }
    if let (Some(id), &Method::DELETE) = (path.strip_prefix("/admin/replicas/"), method) {
        return remove(admin, id, query);
    }
    Err(missing(
        "unknown_path",
        "served here: GET /metrics /health /ready /login /admin/status /admin/replicas /admin/config /admin/decisions /admin/explain/ID /admin/session, POST /login /logout /admin/replicas, DELETE /admin/replicas/ID",
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
const BACK: &str =
    "; `replicas` of this gateway's file lists it, so it is back when the gateway restarts";

/// Whether the configuration file lists a replica.
fn is_listed(admin: &Admin, member: &Member) -> bool {
    let listed = admin.config.replicas.iter().filter_map(|spec| authority(&spec.url));
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
    let mut config = admin.config.clone();
    let access = admin.access.now();
    let Written { tenants, residency, admin_access } = access.written.clone();
    (config.tenants, config.residency, config.admin_access) = (tenants, residency, admin_access);
    config.tell_clients = Some(if access.tells { TellClients::All } else { TellClients::Nothing });
    if let Some(secret) = &mut config.secret {
        "(set)".clone_into(secret);
    }
    if let Some(key) = &mut config.engine_key {
        "(set)".clone_into(key);
    }
    for key in config.credentials.values_mut().filter_map(|one| one.key.as_mut()) {
        "(set)".clone_into(key);
    }
    if let Some(token) = config.control.as_mut().and_then(|control| control.token.as_mut()) {
        "(set)".clone_into(token);
    }
    config.policy = admin.policy.now();
    page(&config)
}

fn metrics(admin: &Admin) -> Response<Body> {
    let (connections, bodies) = (admin.connections.used(), admin.bodies.used());
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
