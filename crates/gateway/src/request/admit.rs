//! The life of a request: hops 1 to 3.
//!
//! Read the body whole, fingerprint it, ask the machine. [`crate::request::lifecycle`] follows what it decides.
//! A request that a peer sent on comes the same way; what its client is called and how long it may
//! take is said by the peer then, and not by the client's own headers.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, request};
use hyper::body::Incoming;
use meridian_base::{Duration, ModelId, Time};
use meridian_routing::residency::{Labels, Residence, Subject};
use meridian_routing::{Priority, RejectWhy};
use meridian_wire::openai::{self, Endpoint, RequestInfo};
use meridian_wire::peer::{Identity, Marks};

use crate::access::Access;
use crate::http::body::Body;
use crate::http::collect::{Collected, collect};
use crate::http::head;
use crate::http::headers;
use crate::http::refusal::{Refusal, json};
use crate::inputs::engine_fields;
use crate::inputs::pins::{Home, ResponseKey};
use crate::inputs::priority;
use crate::inputs::rate::Rates;
use crate::inputs::residency::{Reach, reach};
use crate::inputs::tenants;
use crate::peers::Report;
use crate::request::lifecycle::{Job, route, with_id};
use crate::request::resume::continue_chats;
use crate::shared::Shared;
use crate::worker::Worker;

/// Who sent a request.
pub(crate) enum Origin {
    /// A client, by a hash of its address.
    Client(u64),
    /// A peer, where it came from a client.
    Peer { marks: Box<Marks>, report: Arc<Report>, from: Identity },
}

/// Answers one request, whatever happens.
pub(crate) async fn answer(
    shared: Arc<Worker>,
    mut request: Request<Incoming>,
    origin: Origin,
) -> Response<Body> {
    if let Origin::Client(_) = origin {
        Marks::strip(request.headers_mut());
    }
    let shown_id = request.headers().get(headers::REQUEST_ID).cloned();
    let endpoint = Endpoint::of(request.uri().path());
    let result = serve(&shared, request, endpoint, origin).await;
    result.unwrap_or_else(|refusal| {
        shared.metrics.refused(&refusal);
        let response = refusal.response(endpoint);
        match &shown_id {
            Some(id) => with_id(response, id),
            None => response,
        }
    })
}

async fn serve(
    shared: &Arc<Worker>,
    mut request: Request<Incoming>,
    endpoint: Endpoint,
    origin: Origin,
) -> Result<Response<Body>, Refusal> {
    if matches!(origin, Origin::Client(_)) {
        head::check(&request)?;
    }
    let access = shared.access.now();
    let caller = identify(shared, &access, &mut request, endpoint, &origin)?;
    let path = request.uri().path();
    let passes = endpoint != Endpoint::Other || shared.config.paths.iter().any(|p| p == path);
    match (endpoint, request.method()) {
        _ if !passes => Err(Refusal::unknown_path()),
        (Endpoint::Models, &Method::GET | &Method::HEAD) => Ok(models(shared, path)),
        (Endpoint::Other, _) => generate(shared, &access, request, endpoint, origin, caller).await,
        (Endpoint::Models, _) => Err(Refusal::wrong_method("GET, HEAD")),
        (_, &Method::POST) => generate(shared, &access, request, endpoint, origin, caller).await,
        _ => Err(Refusal::wrong_method("POST")),
    }
}

/// `/v1/models`: every model that some replica serves, here or at a peer, once.
fn models(shared: &Shared, path: &str) -> Response<Body> {
    let mut pages: Vec<_> = shared.fleet.all().iter().filter_map(|m| m.models_page()).collect();
    // Of one that is served both here and there, this region's own words.
    pages.extend(shared.peers.iter().flat_map(|peers| peers.models.pages()));
    let pages: Vec<&[u8]> = pages.iter().map(AsRef::as_ref).collect();
    let merged = openai::merge_models(&pages);
    let Some(id) = path.strip_prefix("/v1/models/").filter(|id| !id.is_empty()) else {
        return json(StatusCode::OK, merged);
    };
    match openai::find_model(&merged, id) {
        Some(model) => json(StatusCode::OK, model),
        None => Refusal::unknown_model().response(Endpoint::Models),
    }
}

async fn generate(
    shared: &Arc<Worker>,
    access: &Access,
    request: Request<Incoming>,
    endpoint: Endpoint,
    origin: Origin,
    caller: Caller,
) -> Result<Response<Body>, Refusal> {
    let Caller { tenant: tenant_name, rates, priority } = caller;
    let began = Instant::now();
    if shared.is_draining() {
        return Err(Refusal::draining());
    }
    let room = shared.requests.take(1).ok_or_else(|| Refusal::busy("limits.requests"))?;
    let (mut parts, body) = request.into_parts();
    let taken = engine_fields::take(&mut parts.headers);
    let Collected { bytes, mut permits } = collect(shared, &parts.headers, body).await?;
    permits.push(room);
    let tenant = shared.hash(tenant_name.as_ref().map(HeaderValue::as_bytes));
    let reading = shared.reading.of(shared.isolates().then_some(tenant));
    let mut info = openai::read(endpoint, &bytes, &reading).map_err(Refusal::bad_request)?;
    engine_fields::judge(shared.config.engine_fields, &shared.metrics, &taken, &info.splices)?;
    let model = model(shared, endpoint, &info, &origin)?;
    let home = home(shared, &info, tenant, strict(access, &origin))?;
    let tells = access.tells || matches!(origin, Origin::Peer { .. });
    may_continue(shared, model, &origin)?;
    let (residence, origin) = residence(shared, access, tenant_name.as_ref(), model, origin);
    let Reach { peers, here, pinned } = reach(shared, model, home, &residence);
    let id = shared.ids.next();
    let shown_id = headers::request_id(shared, &parts.headers, id);
    let tokens = shared.ratios.get(model) * info.prompt_bytes as f32;
    let mut request = meridian_routing::Request {
        id,
        model,
        tenant,
        priority,
        key: key(shared, &parts, &info, tenant, &origin),
        head: info.head,
        blocks: info.fingerprint.blocks().to_vec(),
        prompt_tokens: tokens as u32,
        block_tokens: shared.ratios.get(model) * reading.block_bytes as f32,
        deadline: deadline(shared, &parts.headers, &origin),
        pinned,
        streams: info.stream,
        hops: hops(&origin),
        peers,
        here,
        residence: residence.clone(),
        dry_run: false,
    };
    if asks_dry_run(&parts.headers) {
        if !tells {
            return Err(Refusal::no_dry_run());
        }
        request.dry_run = true;
        return Ok(crate::admin::explain::dry_run(shared, request));
    }
    let charge = rates.map(|rates| rates.admit(request.prompt_tokens, reply(endpoint, &info)));
    let charge = charge.transpose()?;
    let name = tenant_name.as_ref().map(HeaderValue::as_bytes);
    let salt = shared.salts.of(name, info.cache_salt.as_deref());
    if let Some(salt) = &salt {
        info.salt(salt);
    }
    let prompt_tokens = request.prompt_tokens;
    let (key, deadline) = (request.key, request.deadline);
    let away = shared.peers.is_some().then_some(tenant_name);
    shared.explained.note(&shown_id, id, &residence, shared);
    let (ticket, verdict) = shared.driver.arrive(request);
    let mut job = Job {
        endpoint,
        path: path_of(&parts, endpoint),
        method: parts.method,
        headers: parts.headers,
        body: bytes,
        info,
        salt,
        model,
        prompt_tokens,
        shown_id: shown_id.clone(),
        began,
        permits,
        tenant: away.flatten(),
        key,
        deadline,
        continues: false,
        tells,
        tenant_hash: tenant,
        priority,
        charge,
        residence,
        report: match origin {
            Origin::Client(_) => None,
            Origin::Peer { report, .. } => Some(report),
        },
    };
    headers::to_replica(&mut job.headers, &shown_id);
    Ok(route(shared, job, ticket, verdict).await)
}

/// Of a request that goes on with a chat: every replica of its model here must be able to.
fn may_continue(shared: &Shared, model: ModelId, origin: &Origin) -> Result<(), Refusal> {
    match origin {
        Origin::Peer { marks, .. } if marks.continues && !continue_chats(shared, model) => {
            Err(Refusal::cannot_continue())
        }
        _ => Ok(()),
    }
}

/// The path and the query, as a replica gets them. A slash at the end of a path of the API stays
/// behind: engines answer it with redirects to themselves.
fn path_of(parts: &request::Parts, endpoint: Endpoint) -> String {
    let whole = parts.uri.path_and_query().map_or("/", |p| p.as_str());
    match parts.uri.path().strip_suffix('/') {
        Some(path) if endpoint != Endpoint::Other => path.to_owned() + &whole[path.len() + 1..],
        _ => whole.to_owned(),
    }
}

fn asks_dry_run(headers: &HeaderMap) -> bool {
    headers.get(headers::DRY_RUN).is_some_and(|v| v == "true" || v == "1")
}

/// The most tokens of a request's reply; none where nothing bounds it.
fn reply(endpoint: Endpoint, info: &RequestInfo) -> Option<u32> {
    if endpoint.is_generation() { info.max_tokens } else { Some(0) }
}

fn hops(origin: &Origin) -> u8 {
    match origin {
        Origin::Client(_) => 0,
        Origin::Peer { marks, .. } => marks.hops,
    }
}

/// The sender of a request.
struct Caller {
    /// The tenant's name.
    tenant: Option<HeaderValue>,
    /// How much the tenant may ask for. Of a forwarded request the first gateway has seen to that.
    rates: Option<Arc<Rates>>,
    priority: Priority,
}

/// The tenant's name: by the key where tenants are named, by what a peer says, else by what the
/// client calls itself. Where tenants are named, what told it goes no further.
fn identify(
    shared: &Shared,
    access: &Access,
    request: &mut Request<Incoming>,
    endpoint: Endpoint,
    origin: &Origin,
) -> Result<Caller, Refusal> {
    let named = access.tenants.are_named();
    let headers = request.headers_mut();
    let (tenant, rates, priority) = match origin {
        Origin::Peer { marks, .. } => (marks.tenant.clone(), None, marks.priority),
        Origin::Client(_) if named => {
            let tenant = access.tenants.identify(headers, endpoint)?;
            let priority = priority::lowered(headers, tenant.priority)?;
            (Some(tenant.name.clone()), tenant.rates.clone(), priority)
        }
        Origin::Client(_) => {
            let name = shared.tenant_header.as_ref().and_then(|name| headers.get(name)).cloned();
            (name, None, priority::lowered(headers, Priority::default())?)
        }
    };
    if named {
        tenants::strip(headers, shared.tenant_header.as_ref());
    }
    Ok(Caller { tenant, rates, priority })
}

/// The residency rules that name a request, with those that a peer applied to it.
fn residence(
    shared: &Shared,
    access: &Access,
    tenant: Option<&HeaderValue>,
    model: ModelId,
    mut origin: Origin,
) -> (Residence, Origin) {
    let brought = match &mut origin {
        Origin::Client(_) => Vec::new(),
        Origin::Peer { marks, .. } => std::mem::take(&mut marks.rules),
    };
    let named = access.rules.names_models().then(|| shared.fleet.name(model)).flatten();
    let none = Labels::new();
    let subject = Subject {
        tenant: tenant.and_then(|name| name.to_str().ok()),
        labels: access.tenants.labels(tenant).unwrap_or(&none),
        model: named.as_deref().unwrap_or_default(),
        from: match &origin {
            Origin::Client(_) => &shared.config.region,
            Origin::Peer { from, .. } => from.region(),
        },
    };
    (access.rules.residence(&subject, brought), origin)
}

/// The affinity key, first found: a configured header, the body's own, the tenant, the client.
fn key(
    shared: &Shared,
    parts: &request::Parts,
    info: &RequestInfo,
    tenant: u64,
    origin: &Origin,
) -> u64 {
    let client = match origin {
        Origin::Client(client) => *client,
        Origin::Peer { marks, .. } => return marks.key,
    };
    let header = shared.key_headers.iter().find_map(|name| parts.headers.get(name));
    match (header, info.session) {
        (Some(value), _) => shared.hash(Some(value.as_bytes())),
        (None, Some(session)) => session,
        (None, None) if tenant != 0 => tenant,
        (None, None) => client,
    }
}

/// A TTFT objective in the request becomes its deadline; of a peer's request, what is left of it.
fn deadline(shared: &Shared, headers: &HeaderMap, origin: &Origin) -> Option<Time> {
    let left = match origin {
        Origin::Client(_) => {
            let ms: u64 = headers.get(headers::TTFT_SLO)?.to_str().ok()?.parse().ok()?;
            Duration::from_millis(ms)
        }
        Origin::Peer { marks, .. } => marks.budget?,
    };
    Some(shared.driver.clock.now() + left)
}

/// Whether a client may continue only responses that this gateway knows as its tenant's. Of a
/// forwarded request the first gateway has seen to that.
fn strict(access: &Access, origin: &Origin) -> bool {
    access.tenants.are_named() && matches!(origin, Origin::Client(_))
}

/// Where the state lives that a request goes on with.
fn home(
    shared: &Shared,
    info: &RequestInfo,
    tenant: u64,
    strict: bool,
) -> Result<Option<Home>, Refusal> {
    let Some(previous) = &info.previous_response_id else { return Ok(None) };
    let pin = ResponseKey { tenant, response: shared.hash(Some(previous.as_bytes())) };
    match shared.pins.get(pin) {
        Some(Home::Gone) => Err(Refusal::of(RejectWhy::PinnedGone, Duration::ZERO, None)),
        None if strict => Err(Refusal::unknown_response()),
        home => Ok(home),
    }
}

/// The model's id. Paths that need not name one go to what the peer says, or to whatever the region
/// serves.
fn model(
    shared: &Shared,
    endpoint: Endpoint,
    info: &RequestInfo,
    origin: &Origin,
) -> Result<ModelId, Refusal> {
    let said = match origin {
        Origin::Peer { marks, .. } if info.model.is_empty() => marks.model.as_ref(),
        _ => None,
    };
    let said = said.and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    if let Some(id) = shared.fleet.model(said.unwrap_or(&info.model)) {
        return Ok(id);
    }
    let named = !endpoint.passes_unread() || !info.model.is_empty();
    match shared.fleet.any_model() {
        Some(any) if !named => Ok(any),
        Some(_) if !shared.fleet.is_unknown() => Err(Refusal::unknown_model()),
        // Who has not said yet what it serves may serve it.
        _ => Err(Refusal::of(RejectWhy::NoReplica, Duration::from_secs(1), None)),
    }
}
