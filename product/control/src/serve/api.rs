//! The admin API: the registry's records by name, and the state derived from them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use meridian_protocol::admin::{Query, check_json};
use meridian_protocol::peer::Party;
use meridian_protocol::policy::Policy;
use meridian_protocol::registry::{Export, Region, Replica, Snapshot, Status, Wanted};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::{Answered, Body, Refusal, page, status_page, text, typed};
use super::secured::may_change;
use super::{Shared, dns, gateways, metrics, names, needs, open, watch};
use crate::registry::{Kept, Key, View, region_name};
use crate::store::{Revision, Store};

/// Largest request, bytes: a gateway's report on a thousand replicas takes about a quarter of it.
const MOST_BODY: usize = 1 << 20;

/// Largest import, bytes: a hundred thousand replicas.
const MOST_IMPORT: usize = 64 << 20;

/// Every supported path, for the error about an unknown one.
const SERVED: &str = "served here: GET /health /metrics /admin/status /admin/intervals /admin/registry /admin/export /admin/names /admin/route53 /admin/watch \
    /admin/replicas /admin/regions /admin/gateways, PUT /admin/replicas/NAME /admin/regions/NAME \
    /admin/regions/NAME/policy, POST /admin/import /admin/replicas/NAME/drain /admin/replicas/NAME/undrain \
    /admin/regions/NAME/drain /admin/regions/NAME/undrain, DELETE /admin/replicas/NAME \
    /admin/regions/NAME /admin/regions/NAME/policy, and POST, PUT, DELETE /admin/gateways/NAME \
    for gateways";

/// One request with its body.
pub(super) struct Asked {
    pub(super) query: Query,
    pub(super) body: Bytes,
}

/// Answers one request to the admin port.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    party: Option<&Party>,
    request: Request<Incoming>,
) -> Response<Body> {
    let method = request.method().clone();
    let answered = answered(shared, party, request).await;
    answered.unwrap_or_else(|refusal| {
        // Reads fail only if the store does, which is reported where it happens.
        if method != Method::GET {
            tracing::info!(%method, refusal = ?refusal, "a change was refused");
        }
        refusal.response()
    })
}

async fn answered(
    shared: &Arc<Shared>,
    party: Option<&Party>,
    request: Request<Incoming>,
) -> Answered {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let has_body = !body.is_end_stream();
    guard(shared, party, &head, &parts, has_body)?;
    let is_check = head.method == Method::GET && path == "/health";
    // A certificate identifies its party, which may read; changes need the token as well.
    if !is_check && (party.is_none() || head.method != Method::GET) {
        admit(shared, &head.headers)?;
    }
    let known = parameters(&head.method, &parts);
    let query = known.map_or_else(|| Ok(Query::default()), |k| Query::read(head.uri.query(), k))?;
    if head.method == Method::GET {
        let last = head.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        return get(shared, &path, &query, last).await;
    }
    may_change(party, &parts)?;
    let most = if parts == ["admin", "import"] { MOST_IMPORT } else { MOST_BODY };
    let body = Limited::new(body, most).collect().await;
    let body = body.map_err(|error| {
        let message = format!("the body cannot be read: {error}; send at most {most} bytes");
        Refusal::bad("invalid_body", message)
    })?;
    let asked = Asked { query, body: body.to_bytes() };
    match (head.method.as_str(), parts.as_slice()) {
        (method, ["admin", "gateways", name]) => {
            gateways::answer(shared, party, method, name, &asked).await
        }
        ("POST", ["admin", "import"]) => {
            let export: Export = read(&asked.body, EXPORT)?;
            let (registry, replace) = (shared.registry.clone(), asked.query.flag("replace")?);
            // A client that does not wait leaves no part of it out.
            let import = tokio::spawn(async move { registry.import(&export, replace).await });
            let done = import.await.map_err(|died| {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "import_failed", died.to_string())
            })??;
            tracing::info!(?done, "records were imported");
            Ok(page(&done))
        }
        (method, ["admin", "replicas", rest @ ..]) => replica(shared, method, rest, &asked).await,
        (method, ["admin", "regions", rest @ ..]) => region(shared, method, rest, &asked).await,
        _ => Err(unknown()),
    }
}

/// Refuses requests that a web page of another site may have sent.
fn guard(
    shared: &Shared,
    party: Option<&Party>,
    head: &Parts,
    path: &[&str],
    has_body: bool,
) -> Result<(), Refusal> {
    if head.method == Method::GET && path == ["health"] {
        return Ok(());
    }
    let proven =
        party.is_some() || (shared.config.token.is_some() && admit(shared, &head.headers).is_ok());
    shared.guard.check(&head.method, &head.headers, proven)?;
    // Older gateways renew their leases without a content type; a browser names the page in another
    // header.
    let of_gateway = matches!(path, ["admin", "gateways", _])
        && !head.headers.contains_key(header::CONTENT_TYPE)
        && !head.headers.contains_key(header::ORIGIN);
    if head.method != Method::GET && has_body && !of_gateway {
        check_json(&head.headers)?;
    }
    Ok(())
}

/// The parameters that a request may have; none if scrapers and health checks add their own.
fn parameters(method: &Method, path: &[&str]) -> Option<&'static [&'static str]> {
    Some(match (method.as_str(), path) {
        ("GET", ["health" | "metrics"]) => return None,
        ("GET", ["admin", "names"]) => &["client"],
        ("GET", ["admin", "watch"]) => &["from", "store"],
        ("DELETE", ["admin", "gateways", _]) => &["lease"],
        ("DELETE", ["admin", "replicas", _]) => &["forget"],
        ("POST", ["admin", "import"]) => &["replace"],
        ("PUT", ["admin", "regions", _]) => &["at", "force"],
        ("PUT", ["admin", "replicas", _] | ["admin", "regions", _, "policy"]) => &["force"],
        ("POST", ["admin", "regions", _, "drain"]) => &["force"],
        _ => &[],
    })
}

async fn get(shared: &Arc<Shared>, path: &str, query: &Query, last: Option<&str>) -> Answered {
    match path {
        "/health" => Ok(text("ok")),
        "/metrics" => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            let intervals = shared.observed().read(shared.date_ms());
            let counters = shared.dns.as_ref().map(|dns| &*dns.counters);
            let hosted = shared.route53.as_ref().map(|own| own.figures(shared.leads()));
            let body = http_body_util::Full::new(
                metrics::page(&status(shared).await?, &intervals, counters, hosted).into(),
            );
            Ok(typed(body.boxed_unsync(), kind))
        }
        "/admin/status" => Ok(page(&status(shared).await?)),
        "/admin/intervals" => Ok(page(&shared.observed().read(shared.date_ms()))),
        "/admin/registry" => Ok(page(&snapshot(shared, view(shared).await?))),
        "/admin/names" => dns::names(shared, query),
        "/admin/route53" => hosted(shared),
        "/admin/export" => Ok(page(&shared.registry.export(shared.store()).await?)),
        "/admin/watch" => watch::begin(shared, query, last).await,
        "/admin/regions" => Ok(page(&listed(view(shared).await?.regions))),
        "/admin/gateways" => Ok(page(&listed(view(shared).await?.gateways))),
        "/admin/replicas" => Ok(page(&replicas(view(shared).await?))),
        _ => Err(unknown()),
    }
}

fn hosted(shared: &Shared) -> Answered {
    let message = "this control plane has no records in Route 53; add a section `route53` to its configuration";
    let none = || Refusal::new(StatusCode::NOT_FOUND, "no_route53", message);
    let route53 = shared.route53.as_ref().ok_or_else(none)?;
    Ok(page(&route53.page(shared.leads())))
}

pub(super) fn unknown() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "unknown_path", SERVED)
}

/// Checks the token, if one is configured.
fn admit(shared: &Shared, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(token) = &shared.config.token else { return Ok(()) };
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    if given.is_some_and(|given| same(given.as_bytes(), token.expose().as_bytes())) {
        return Ok(());
    }
    let message = match given {
        None => "a token is required; send it as `Authorization: Bearer TOKEN`",
        Some(_) => "the token is wrong; use the `token` of the control plane's configuration",
    };
    Err(Refusal::new(StatusCode::UNAUTHORIZED, "no_token", message))
}

/// Compares in constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differs = a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differs) == 0
}

/// Parses a body as a record; `form` shows an example.
pub(super) fn read<R: DeserializeOwned>(body: &[u8], form: &str) -> Result<R, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad("invalid_body", format!("{error}; send {form}")))
}

async fn view(shared: &Shared) -> Result<View, Refusal> {
    Ok(shared.registry.view().await?)
}

async fn status(shared: &Shared) -> Result<Status, Refusal> {
    let view = view(shared).await?;
    let place = open::place(&shared.config, shared.registry.store());
    let mut reports = shared.reports();
    reports.keep(|gateway| view.gateways.contains_key(gateway));
    // Other control planes have the reports of other gateways.
    let loads = match shared.registry.store().is_shared() {
        true => view.loads.iter().map(|(name, kept)| (name.as_str(), &kept.record)).collect(),
        false => reports.all(),
    };
    Ok(Status {
        store: shared.store(),
        revision: view.revision.0,
        uptime_s: shared.now().as_secs_f64(),
        followers: shared.followers.load(Ordering::Relaxed),
        place,
        leader: shared.leader.name(),
        regions: needs::regions(&view, &loads, shared.config.target),
        unreadable: view.unreadable,
    })
}

fn snapshot(shared: &Shared, view: View) -> Snapshot {
    fn plain<R>(records: BTreeMap<String, Kept<R>>) -> BTreeMap<String, R> {
        records.into_iter().map(|(name, kept)| (name, kept.record)).collect()
    }
    Snapshot {
        store: shared.store(),
        revision: view.revision.0,
        regions: plain(view.regions),
        replicas: plain(view.replicas),
        gateways: plain(view.gateways),
    }
}

/// A record in a list.
#[derive(Serialize)]
struct Listed<R> {
    name: String,
    /// Revision of its last change.
    revision: u64,
    #[serde(flatten)]
    record: R,
}

fn listed<R>(records: BTreeMap<String, Kept<R>>) -> Vec<Listed<R>> {
    let one =
        |(name, kept): (String, Kept<R>)| Listed { name, revision: kept.at.0, record: kept.record };
    records.into_iter().map(one).collect()
}

/// A replica in a list, with the gateways' observations.
#[derive(Serialize)]
struct ListedReplica {
    #[serde(flatten)]
    replica: Listed<Replica>,
    seen: BTreeMap<String, meridian_protocol::registry::Seen>,
}

fn replicas(view: View) -> Vec<ListedReplica> {
    let mut seen: BTreeMap<String, BTreeMap<String, _>> = BTreeMap::new();
    for (pair, kept) in view.seen {
        if let Some((replica, gateway)) = pair.split_once('/') {
            let of = seen.entry(replica.to_owned()).or_default();
            of.insert(gateway.to_owned(), kept.record);
        }
    }
    let with = |replica: Listed<Replica>| {
        let seen = seen.remove(&replica.name).unwrap_or_default();
        ListedReplica { replica, seen }
    };
    listed(view.replicas).into_iter().map(with).collect()
}

/// The answer to a change.
#[derive(Serialize)]
struct Changed {
    revision: u64,
}

fn changed(status: StatusCode, revision: Revision) -> Answered {
    Ok(status_page(status, &Changed { revision: revision.0 }))
}

const REPLICA: &str = r#"{"region": "eu", "spec": {"url": "http://host:port"}}, with optional engine, models, kv_tokens, slots and weight in spec, and optional labels next to it"#;
const REGION: &str = r#"{}, with optional policy, rtt_ms, adopters, labels and wanted"#;
const EXPORT: &str = r#"what `meridian control export` writes"#;
const POLICY: &str = r#""chwbl", or {"name": "chwbl", "load_factor": 1.5}"#;

async fn replica(shared: &Shared, method: &str, rest: &[&str], asked: &Asked) -> Answered {
    let registry = &shared.registry;
    match (method, rest) {
        ("PUT", [name]) => {
            let replica: Replica = read(&asked.body, REPLICA)?;
            region_name(&replica.region)?;
            if !asked.query.flag("force")? {
                names::known(&view(shared).await?, "region", [&replica.region])?;
            }
            registry.free_url(name, &replica).await?;
            let revision = registry.add_replica(name, &replica).await?;
            registry.found_region(&replica.region).await?;
            tracing::info!(replica = name, region = replica.region, "replica added");
            changed(StatusCode::CREATED, revision)
        }
        ("DELETE", [name]) if asked.query.flag("forget")? => {
            let key = Key::replica(name)?;
            let view = registry.view().await?;
            if view.replicas.get(*name).is_some_and(|kept| kept.record.is_there()) {
                let message = format!(
                    "replica `{name}` still serves; remove it first, so that gateways whose own files list it drop it"
                );
                return Err(Refusal::new(StatusCode::CONFLICT, "not_removed", message));
            }
            changed(StatusCode::OK, registry.forget(&key, view.revision).await?)
        }
        (method, [name, act @ ..]) => {
            let wanted = wanted(method, act).ok_or_else(unknown)?;
            let revision = registry.want_replica(name, wanted).await?;
            tracing::info!(replica = name, wanted = wanted.name(), "replica changed");
            changed(StatusCode::OK, revision)
        }
        _ => Err(unknown()),
    }
}

async fn region(shared: &Shared, method: &str, rest: &[&str], asked: &Asked) -> Answered {
    let registry = &shared.registry;
    match (method, rest) {
        ("PUT", [name]) => {
            let region: Region = read(&asked.body, REGION)?;
            let view = registry.view().await?;
            let there = view.regions.get(*name);
            let at = asked.query.number("at", 0..=u64::MAX)?.map(Revision);
            if !asked.query.flag("force")? {
                adopters(&view, name, &region)?;
            }
            let at = at.or(there.map(|kept| kept.at));
            changed(StatusCode::OK, registry.set_region(name, &region, at).await?)
        }
        ("PUT", [name, "policy"]) => {
            let policy: Policy = read(&asked.body, POLICY)?;
            prepared(shared, name, asked).await?;
            let revision = registry.set_policy(name, Some(&policy)).await?;
            tracing::info!(region = name, policy = policy.name, "policy changed");
            changed(StatusCode::OK, revision)
        }
        ("DELETE", [name, "policy"]) => {
            prepared(shared, name, asked).await?;
            changed(StatusCode::OK, registry.set_policy(name, None).await?)
        }
        ("DELETE", [name]) => {
            let key = Key::region(name)?;
            let view = registry.view().await?;
            let replicas = view.replicas.values().any(|kept| kept.record.region == *name);
            let gateways = view.gateways.values().any(|kept| kept.record.region == *name);
            if replicas || gateways {
                let message =
                    format!("region `{name}` has replicas or gateways; remove or stop them first");
                return Err(Refusal::new(StatusCode::CONFLICT, "in_use", message));
            }
            changed(StatusCode::OK, registry.forget(&key, view.revision).await?)
        }
        ("POST", [name, act]) => {
            let wanted = wanted(method, &[act]).ok_or_else(unknown)?;
            prepared(shared, name, asked).await?;
            let revision = registry.want_region(name, wanted).await?;
            tracing::info!(region = name, wanted = wanted.name(), "region changed");
            changed(StatusCode::OK, revision)
        }
        _ => Err(unknown()),
    }
}

/// Ensures that the region in a request has a record: it exists, or `force` creates it.
async fn prepared(shared: &Shared, name: &str, asked: &Asked) -> Result<(), Refusal> {
    Key::region(name)?;
    if asked.query.flag("force")? {
        return Ok(shared.registry.found_region(name).await?);
    }
    names::known(&view(shared).await?, "region", [&name.to_owned()])
}

/// Refuses adopters that are not regions of the fleet; those already in the record may stay.
fn adopters(view: &View, name: &str, region: &Region) -> Result<(), Refusal> {
    let known: Vec<&String> = region.adopters.iter().flatten().collect();
    for one in &known {
        region_name(one)?;
    }
    let before = view.regions.get(name).and_then(|kept| kept.record.adopters.as_ref());
    let had = |one: &&String| before.is_some_and(|before| before.contains(one));
    names::known(view, "adopters", known.into_iter().filter(|one| *one != name && !had(one)))
}

fn wanted(method: &str, act: &[&str]) -> Option<Wanted> {
    match (method, act) {
        ("POST", ["drain"]) => Some(Wanted::Draining),
        ("POST", ["undrain"]) => Some(Wanted::Up),
        ("DELETE", []) => Some(Wanted::Removed),
        _ => None,
    }
}
