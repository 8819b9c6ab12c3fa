//! The admin port: status, metrics, replicas, explanations.

mod door;
pub(crate) mod explain;
mod login;
mod sessions;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use meridian_routing::{Input, State};
use meridian_wire::admin::{AddReplica, Added, Query, Replica, Status, check_json};
use meridian_wire::config::TellClients;
use meridian_wire::config::authority;
use meridian_wire::openai::Endpoint;

pub(crate) use self::door::Door;
pub(crate) use self::sessions::Sessions;
pub(crate) use self::tls::{AdminTls, Caller, files};
use crate::access::Written;
use crate::http::body::Body;
use crate::http::health;
use crate::http::refusal::{Refusal, json, text};
use crate::replicas::discovery;
use crate::replicas::fleet::Member;
use crate::shared::Shared;

/// Largest admin request, bytes.
const MOST_BODY: usize = 64 << 10;

/// Most decisions told at once.
const MOST_DECISIONS: usize = 1000;
/// Decisions told without `last`.
const DECISIONS: usize = 20;

/// For a request to arrive whole and be answered. Log-ins are read before it is known who sends them,
/// so without a bound anyone could keep all connections occupied.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers one request to the admin port.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    caller: &Caller,
    request: Request<Incoming>,
) -> Response<Body> {
    let answered = tokio::time::timeout(PATIENCE, answered(&shared, caller, request)).await;
    answered.unwrap_or_else(|_| Err(too_slow())).unwrap_or_else(|r| r.response(Endpoint::Other))
}

fn too_slow() -> Refusal {
    let message =
        format!("the request did not arrive within {} s; send it again", PATIENCE.as_secs());
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "client_too_slow", message)
}

async fn answered(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    // What probes ask tells nothing and changes nothing, whatever name they know this port by.
    match (&method, path.as_str()) {
        (&Method::GET, "/health") => return Ok(text(StatusCode::OK, "ok")),
        (&Method::GET, "/ready") => return Ok(health::ready(shared)),
        _ => {}
    }
    let access = shared.access.now();
    access.door.guard(&method, request.headers(), caller)?;
    if method != Method::GET && !request.body().is_end_stream() {
        check_json(request.headers())?;
    }
    if login::serves(&path) {
        return login::answer(&access.door, &shared.sessions, caller, request).await;
    }
    let who = access.door.admit(&method, request.headers(), caller, &shared.sessions)?;
    // Scrapers add parameters of their own.
    if (&method, path.as_str()) == (&Method::GET, "/metrics") {
        return Ok(metrics(shared));
    }
    let query = Query::read(request.uri().query(), parameters(&method, &path))?;
    match (&method, path.as_str()) {
        (&Method::GET, "/admin/status") => Ok(page(&status(shared))),
        (&Method::GET, "/admin/replicas") => Ok(page(&status(shared).replicas)),
        (&Method::POST, "/admin/replicas") => add(shared, request).await,
        (&Method::GET, "/admin/config") => Ok(config(shared)),
        (&Method::GET, "/admin/session") => Ok(login::session(&who)),
        (&Method::GET, "/admin/decisions") => {
            let last = query.number("last", 1..=MOST_DECISIONS)?.unwrap_or(DECISIONS);
            Ok(page(&crate::admin::explain::newest(shared, last)))
        }
        _ => by_id(shared, &method, &path, &query),
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
    shared: &Arc<Shared>,
    method: &Method,
    path: &str,
    query: &Query,
) -> Result<Response<Body>, Refusal> {
    if let (Some(id), &Method::GET) = (path.strip_prefix("/admin/explain/"), method) {
        let found = crate::admin::explain::find(shared, id);
        return found.map(|e| page(&e)).ok_or_else(|| {
            missing(
                "unknown_request",
                "no decision about this request is kept; ask sooner, or raise explain_keep",
            )
        });
    }
    if let (Some(id), &Method::DELETE) = (path.strip_prefix("/admin/replicas/"), method) {
        return remove(shared, id, query);
    }
    Err(missing(
        "unknown_path",
        "served here: GET /metrics /health /ready /login /admin/status /admin/replicas /admin/config /admin/decisions /admin/explain/ID /admin/session, POST /login /logout /admin/replicas, DELETE /admin/replicas/ID",
    ))
}

fn missing(code: &'static str, message: &'static str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, code, message)
}

async fn add(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let bad = |message: String| Refusal::new(StatusCode::BAD_REQUEST, "invalid_replica", message);
    let body = Limited::new(request.into_body(), MOST_BODY).collect().await;
    let body = body.map_err(|e| bad(format!("the body cannot be read: {e}")))?.to_bytes();
    let spec: AddReplica = serde_json::from_slice(&body)
        .map_err(|e| bad(format!("{e}; send {{\"url\": \"http://host:port\"}}, with engine, models, kv_tokens, slots or weight where wanted")))?;
    let member = discovery::join(shared, spec).map_err(|e| bad(e.to_string()))?;
    tracing::info!(replica = %member.name, url = %member.spec.url, "replica added");
    let kept = if is_listed(shared, &member) { KEPT } else { NOT_KEPT };
    let added = status(shared).replicas.into_iter().find(|r| r.id == member.id.0);
    let added = added.map(|replica| Added { replica, kept: kept.to_owned() });
    Ok(json(StatusCode::CREATED, to_json(&added)))
}

/// How long a change at this port lasts.
const KEPT: &str = "`replicas` of this gateway's file lists it";
const NOT_KEPT: &str = "until this gateway restarts; to keep it, list it under `replicas` in its file, or add it to the control plane";
const BACK: &str =
    "; `replicas` of this gateway's file lists it, so it is back when the gateway restarts";

/// Whether the configuration file lists a replica.
fn is_listed(shared: &Shared, member: &Member) -> bool {
    let listed = shared.config.replicas.iter().filter_map(|spec| authority(&spec.url));
    listed.into_iter().any(|address| address == member.authority.as_str())
}

fn remove(shared: &Arc<Shared>, id: &str, query: &Query) -> Result<Response<Body>, Refusal> {
    let drain = query.flag("drain")?;
    let member = shared.fleet.named(id).ok_or_else(|| {
        missing("unknown_replica", "no such replica; GET /admin/replicas lists them")
    })?;
    let back = if is_listed(shared, &member) { BACK } else { "" };
    if drain {
        shared.driver.tell(Input::Draining(member.id));
        tracing::info!(replica = %member.name, "replica drains");
        tokio::spawn(discovery::leave_when_done(shared.clone(), member));
        return Ok(text(StatusCode::ACCEPTED, format!("draining{back}")));
    }
    discovery::leave(shared, &member);
    tracing::info!(replica = %member.name, "replica removed");
    Ok(text(StatusCode::OK, format!("removed{back}")))
}

/// The status page.
pub(crate) fn status(shared: &Shared) -> Status {
    let members = shared.fleet.all();
    let peers = shared.peers.as_ref().map(|peers| peers.status(&shared.driver));
    // Before the machine is locked: who has replicas join locks it with a state of its own held.
    let discovery = shared.sources.iter().map(|source| source.status()).collect();
    let control = shared.registry.as_ref().map(|registry| registry.status());
    let now = shared.driver.clock.now();
    let inner = shared.driver.lock();
    let routing = &inner.routing;
    let one = |member: &Arc<Member>| replica(member, routing.replicas().status(member.id, now)?);
    Status {
        region: shared.config.region.clone(),
        policy: routing.config().policy.name.to_owned(),
        admission: routing.config().admission.name().to_owned(),
        uptime_s: now.as_secs_f64(),
        requests: inner.requests,
        held: routing.held_len(),
        ttft_ms: inner.ttft.quantiles(),
        prefix: inner.prefix,
        replicas: members.iter().filter_map(one).collect(),
        discovery,
        peers: peers.unwrap_or_default(),
        residency: shared.residency.counts.read(),
        control,
    }
}

fn replica(member: &Member, status: meridian_routing::Status) -> Option<Replica> {
    let found = member.found();
    let engine = found.engine.map_or(member.spec.engine.name(), |engine| engine.name);
    Some(Replica {
        id: member.id.0,
        name: member.name.to_string(),
        region: member.region.to_str().unwrap_or_default().to_owned(),
        trouble: member.trouble(),
        url: member.spec.url.clone(),
        engine: engine.to_owned(),
        state: state(status.state, !found.models.is_empty()).to_owned(),
        models: found.models,
        pending: status.row.pending,
        running: status.row.running,
        outstanding: status.own_outstanding,
        kv_used: status.row.kv_used,
        dispatched: status.totals.dispatched,
        done: status.totals.done,
        failed: status.totals.failed,
        full: status.totals.full,
        prompt_tokens: status.totals.prompt_tokens,
        cached_tokens: status.totals.cached_tokens,
        breaker: status.breaker.name().to_owned(),
        drift: status.drift,
        ms_per_token: status.row.ms_per_token,
        trust: status.row.trust,
    })
}

/// A replica that answers probes but has not said what it serves takes no requests yet.
pub(crate) fn state(state: State, is_found: bool) -> &'static str {
    match state {
        State::Unproven => "unproven",
        State::Up if !is_found => "unproven",
        State::Up => "up",
        State::Down => "down",
        State::Draining => "draining",
    }
}

fn config(shared: &Shared) -> Response<Body> {
    let mut config = shared.config.clone();
    let access = shared.access.now();
    let Written { tenants, residency, admin_access } = access.written.clone();
    (config.tenants, config.residency, config.admin_access) = (tenants, residency, admin_access);
    config.tell_clients = Some(if access.tells { TellClients::All } else { TellClients::Nothing });
    if let Some(secret) = &mut config.secret {
        "(set)".clone_into(secret);
    }
    if let Some(key) = &mut config.engine_key {
        "(set)".clone_into(key);
    }
    if let Some(token) = config.control.as_mut().and_then(|control| control.token.as_mut()) {
        "(set)".clone_into(token);
    }
    if let Some(policy) = shared.registry.as_ref().and_then(|registry| registry.policy()) {
        config.policy = policy;
    }
    page(&config)
}

fn metrics(shared: &Shared) -> Response<Body> {
    let mut response = text(StatusCode::OK, shared.metrics.page(&status(shared), shared));
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
