//! Finds out what a new replica is: its engine, its models, its capacity.
//!
//! Tried until it answers: a replica that is still loading its weights joins when it is ready.
//! Looked at again now and then, because adapters come and go.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use meridian_base::Duration;
use meridian_routing::residency::MOST_PLACES;
use meridian_routing::{Input, ReplicaSpec};
use meridian_wire::admin::{AddReplica, EngineName};
use meridian_wire::engines::{self, Answers, Engine};
use meridian_wire::openai;
use meridian_wire::signals;

use crate::error::{AttemptError, Source};
use crate::replicas::fleet::{Found, JoinError, Member};
use crate::shared::Shared;

/// Between two tries at a replica that does not answer yet.
const RETRY: Duration = Duration::from_millis(250);
/// Between two looks at one that did.
const REFRESH: Duration = Duration::from_secs(30);

/// Takes a replica into the region. It is sent requests once it said what it serves.
pub(crate) fn join(shared: &Arc<Shared>, spec: AddReplica) -> Result<Arc<Member>, JoinError> {
    join_from(shared, spec, Duration::ZERO)
}

/// The same, of a replica that is `rtt` away.
pub(crate) fn join_from(
    shared: &Arc<Shared>,
    spec: AddReplica,
    rtt: Duration,
) -> Result<Arc<Member>, JoinError> {
    let member = shared.fleet.join(spec, rtt, shared.config.limits.replicas)?;
    announce(shared, &member, &Found { models: member.spec.models.clone(), ..Found::default() });
    if !shared.driver.lock().routing.is_numbered(member.id) {
        let (replica, region) = (member.id, &member.place.region);
        tracing::warn!(
            %replica, region, most = MOST_PLACES,
            "replicas stand in too many places (a region with the replica's labels); until one is free, this replica serves only requests that no residency rule names; use fewer labels"
        );
    }
    if let Some(peers) = &shared.peers {
        peers.given(&member.authority);
    }
    let (shared, found) = (shared.clone(), member.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = found.gone.cancelled() => {}
            () = watch(&shared, &found) => {}
        }
    });
    Ok(member)
}

/// Takes a replica out at once. Its requests in flight run on until they end.
pub(crate) fn leave(shared: &Shared, member: &Member) {
    if !shared.fleet.leave(member) {
        return;
    }
    shared.pins.forget(member.id);
    if let Some(peers) = &shared.peers {
        peers.leaves(&member.authority, shared.driver.holdings(member.id));
    }
    shared.driver.tell(Input::Left(member.id));
    shared.fleet.left(member.id);
}

/// Whether a request of ours is there. None is at one that has left: its id may be another's.
pub(crate) fn is_busy(shared: &Shared, member: &Member) -> bool {
    if member.gone.is_cancelled() {
        return false;
    }
    let now = shared.driver.clock.now();
    let inner = shared.driver.lock();
    inner.routing.replicas().status(member.id, now).is_some_and(|s| s.own_outstanding > 0)
}

/// Takes a draining replica out once nothing of ours is there.
pub(crate) async fn leave_when_done(shared: Arc<Shared>, member: Arc<Member>) {
    while is_busy(&shared, &member) {
        tokio::select! {
            () = member.gone.cancelled() => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
    leave(&shared, &member);
    tracing::info!(replica = %member.name, "replica drained and removed");
}

/// Tells the machine what a replica serves and holds, and how far it is.
pub(crate) fn announce(shared: &Shared, member: &Member, found: &Found) {
    let models = found.models.iter().filter_map(|name| shared.fleet.intern(name)).collect();
    let spec = ReplicaSpec {
        models,
        kv_tokens: member.spec.kv_tokens.or(found.kv_tokens),
        slots: member.spec.slots.or(found.slots),
        weight: member.spec.weight,
        rtt: member.rtt(),
        place: member.place.clone(),
    };
    // A look that was under way when the replica left tells nothing.
    let there = || !member.gone.is_cancelled();
    shared.driver.tell_if(there, Input::Joined { id: member.id, spec });
}

async fn watch(shared: &Shared, member: &Member) {
    loop {
        match look(shared, member).await {
            Ok(found) => {
                let known = member.found();
                if known.models != found.models || known.engine != found.engine {
                    tracing::info!(
                        replica = %member.name, url = %member.spec.url,
                        engine = found.engine.map_or("?", |engine| engine.name),
                        models = ?found.models, "replica found"
                    );
                }
                member.discovered(None);
                shared.fleet.found(member, found.clone());
                announce(shared, member, &found);
                tokio::time::sleep(REFRESH).await;
            }
            Err(error) => {
                if member.discovered(Some(error.message.clone())) {
                    tracing::warn!(
                        replica = %member.name, url = %member.spec.url, error = %error,
                        "replica does not answer yet; trying on"
                    );
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// One look at a replica.
async fn look(shared: &Shared, member: &Member) -> Result<Found, AttemptError> {
    let page = page(shared, member, "/v1/models").await;
    let (page, models) = match page {
        // A port that takes no connection tells nothing, its engine neither.
        Err(error) if error.fault == Source::Unreached => return Err(error),
        page if !member.spec.models.is_empty() => (page.ok(), member.spec.models.clone()),
        Err(error) => return Err(error),
        Ok(page) => {
            let models = openai::model_ids(&page)
                .map_err(|e| AttemptError::replica(format!("GET /v1/models: {e}")))?;
            (Some(page), models)
        }
    };
    let engine = detect(shared, member).await;
    let capacity = capacity(shared, member, engine).await;
    Ok(Found {
        engine: Some(engine),
        page: page.unwrap_or_else(|| listed(&models)),
        models,
        kv_tokens: capacity.kv_tokens,
        slots: capacity.slots,
    })
}

/// A model list for a server that has none.
pub(crate) fn listed(models: &[String]) -> Bytes {
    let data: Vec<_> =
        models.iter().map(|id| serde_json::json!({"id": id, "object": "model"})).collect();
    serde_json::json!({"object": "list", "data": data}).to_string().into()
}

/// The configured engine, or the one that the replica's pages identify.
async fn detect(shared: &Shared, member: &Member) -> Engine {
    if let EngineName::Is(engine) = member.spec.engine {
        return engine;
    }
    let metrics = page(shared, member, "/metrics").await.ok();
    let answers = Answers { metrics: metrics.as_deref(), ..Answers::default() };
    if let Some(engine) = engines::detect(&answers) {
        return engine;
    }
    for path in engines::own_pages().map(|own| own.path) {
        let Ok(page) = page(shared, member, path).await else { continue };
        let answers = Answers { own: Some((path, &page)), ..Answers::default() };
        if let Some(engine) = engines::detect(&answers) {
            return engine;
        }
    }
    // Pages that are late or broken for once do not make it another engine.
    member.engine().unwrap_or(engines::NONE)
}

async fn capacity(shared: &Shared, member: &Member, engine: Engine) -> signals::Load {
    let Some(capacity) = engine.capacity else { return signals::Load::default() };
    match page(shared, member, capacity.path).await {
        Ok(page) => (capacity.read)(&page).unwrap_or_default(),
        Err(_) => signals::Load::default(),
    }
}

/// A page that was answered with success.
async fn page(shared: &Shared, member: &Member, path: &str) -> Result<Bytes, AttemptError> {
    let limit = shared.config.timeouts.probe.0;
    let asking = shared.asking(member).get(&member.dial, path, limit).await;
    let page = asking.map_err(|e| AttemptError::of(e.fault, format!("GET {path}: {e}")))?;
    let remedy = match page.status {
        s if s.is_success() => return Ok(page.body),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "; the replica asks for a key: set engine_key"
        }
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            "; name the replica's `models` if its server has no list"
        }
        s if s.is_redirection() => "; redirects are not followed: correct the replica's url",
        _ => "",
    };
    Err(AttemptError::replica(format!("GET {path}: {}{remedy}", page.status)))
}
