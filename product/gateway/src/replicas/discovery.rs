//! Finds out the engine, the models and the capacity of a new replica.
//!
//! It is retried until the replica answers: one that is still loading its weights joins when it is
//! ready. It is repeated from time to time, and at once when the list of models has changed
//! ([`crate::replicas::compare`]).

use bytes::Bytes;
use http::StatusCode;
use meridian_base::Duration;
use meridian_protocol::admin::EngineName;
use meridian_protocol::engines::{self, Answers, Engine};
use meridian_protocol::openai;
use meridian_protocol::signals;

use crate::fault::{AttemptError, Fault};
use crate::machine::driver::Driver;
use crate::replicas::announce::announce;
use crate::replicas::fleet::Fleet;
use crate::replicas::health_check;
use crate::replicas::member::{Found, Member};
use crate::replicas::model_list::model_list;
use crate::replicas::noted_up::note_up;
use crate::replicas::pools;
use crate::replicas::questions::Questions;

/// The path of the list of models.
pub(super) const MODELS: &str = "/v1/models";
/// Interval between two attempts at a replica that does not answer yet.
const RETRY: Duration = Duration::from_millis(250);
/// Interval between two reads of a replica that answers.
const REFRESH: Duration = Duration::from_secs(30);

/// Discovers a replica repeatedly, until it leaves.
pub(super) async fn watch(driver: &Driver, fleet: &Fleet, questions: &Questions, member: &Member) {
    loop {
        match look(questions, member).await {
            Ok(found) => {
                let known = member.found();
                let is_news = known.models != found.models
                    || known.engine != found.engine
                    || known.version != found.version;
                if is_news {
                    tracing::info!(
                        replica = %member.name, url = %member.spec.url,
                        engine = found.engine.map(|engine| engine.name),
                        models = ?found.models, role = member.spec.role.name(),
                        version = found.version.as_deref(), "replica found"
                    );
                    warn_of_pool(member, &found);
                }
                member.discovered(None);
                fleet.found(member, found.clone());
                announce(driver, fleet, member, &found);
                note_up(driver, member);
                // An engine that refuses a model of its list is not read again with each request.
                tokio::time::sleep(RETRY).await;
                tokio::select! {
                    () = tokio::time::sleep(REFRESH - RETRY) => {}
                    () = member.listing.until_changed() => {}
                }
            }
            Err(error) => {
                if member.discovered(Some(error.message.clone())) {
                    tracing::warn!(
                        replica = %member.name, url = %member.spec.url, error = %error,
                        "replica does not answer yet; retrying"
                    );
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Reads a replica's pages once.
pub(crate) async fn look(questions: &Questions, member: &Member) -> Result<Found, AttemptError> {
    let page = page(questions, member, MODELS).await;
    let listed = |page: &Bytes| {
        let bad = |e| AttemptError::replica(format!("GET {MODELS}: {e}"));
        openai::model_list(page).map_err(bad)
    };
    let (page, models, list) = match page {
        // A port that accepts no connection reveals nothing, including the engine.
        Err(error) if error.fault == Fault::Unreached => return Err(error),
        page if !member.spec.models.is_empty() => {
            let list = page.as_ref().ok().and_then(|page| listed(page).ok()).unwrap_or_default();
            (page.ok(), member.spec.models.clone(), list)
        }
        Err(error) => return Err(error),
        Ok(page) => {
            let list = listed(&page)?;
            (Some(page), list.iter().map(|model| model.id.clone()).collect(), list)
        }
    };
    let engine = detect(questions, member).await;
    // Some engines list their models before they can serve them. Later on, probes ask this.
    if member.engine().is_none()
        && let Ok(Some(ill)) =
            health_check::ask(questions, member, engine.health, questions.limit()).await
    {
        return Err(ill);
    }
    let capacity = capacity(questions, member, engine).await;
    let pools = pools::read(questions, member, engine).await?;
    Ok(Found {
        engine: Some(engine),
        page: page.unwrap_or_else(|| model_list(&models)),
        contexts: contexts(&models, &list, capacity.context),
        models,
        adapters: adapters(list),
        kv_tokens: capacity.kv_tokens,
        slots: capacity.slots,
        version: pools.version,
        ranks: pools.ranks,
    })
}

/// The names of the adapters of a list.
fn adapters(list: Vec<openai::Model>) -> Vec<String> {
    list.into_iter().filter(|model| model.is_adapter).map(|model| model.id).collect()
}

/// The longest contexts of the models: as listed, or as the engine's own page says for all of them.
fn contexts(models: &[String], list: &[openai::Model], all: Option<u64>) -> Vec<(String, u32)> {
    // A name from the configuration is the engine's one model by another name.
    let only = if let [only] = list { only.max_model_len } else { None };
    let context = |name: &String| {
        let listed = list.iter().find(|model| model.id == *name);
        let named = listed.map_or(only, |model| model.max_model_len);
        // llama.cpp's page has the context of a slot, which its list may not.
        let tokens = [named, all].into_iter().flatten().min()?;
        Some((name.clone(), u32::try_from(tokens).unwrap_or(u32::MAX)))
    };
    models.iter().filter_map(context).collect()
}

/// Reports a role that cannot work.
fn warn_of_pool(member: &Member, found: &Found) {
    if member.spec.role.is_both() {
        return;
    }
    if member.transfer_of(found.engine).is_some() {
        let page = found.engine.and_then(|engine| engine.version);
        if let (Some(page), None) = (page, &found.version) {
            tracing::warn!(
                replica = %member.name, url = %member.spec.url, role = member.spec.role.name(), page,
                "its version is not known, and only engines of equal versions hand KV to each other, so it forms no pairs; make the page readable for the gateway"
            );
        }
        return;
    }
    tracing::warn!(
        replica = %member.name, url = %member.spec.url, role = member.spec.role.name(),
        engine = found.engine.map(|engine| engine.name),
        "no protocol is known by which this engine hands over KV, so it forms no pairs; set `transfer`"
    );
}

/// The configured engine, or the one that the replica's pages identify.
async fn detect(questions: &Questions, member: &Member) -> Engine {
    if let EngineName::Is(engine) = member.spec.engine {
        return engine;
    }
    let by_own_page = async |path| {
        let page = page(questions, member, path).await.ok()?;
        engines::detect(&Answers { own: Some((path, &page)), ..Answers::default() })
    };
    // First that of the engine that it was: trtllm-serve forgets what it answers at /metrics, which may
    // be for someone else.
    if let Some(own) = member.engine().and_then(|engine| engine.detect.own_page)
        && let Some(engine) = by_own_page(own.path).await
    {
        return engine;
    }
    let metrics = page(questions, member, "/metrics").await.ok();
    let answers = Answers { metrics: metrics.as_deref(), ..Answers::default() };
    if let Some(engine) = engines::detect(&answers) {
        return engine;
    }
    for own in engines::own_pages() {
        if let Some(engine) = by_own_page(own.path).await {
            return engine;
        }
    }
    // Pages that are late or broken for once do not change the detected engine.
    member.engine().unwrap_or(engines::NONE)
}

async fn capacity(questions: &Questions, member: &Member, engine: Engine) -> signals::Load {
    let Some(capacity) = engine.capacity else { return signals::Load::default() };
    match page(questions, member, capacity.path).await {
        Ok(page) => (capacity.read)(&page).unwrap_or_default(),
        Err(_) => signals::Load::default(),
    }
}

/// The body of a page that was answered with success.
pub(super) async fn page(
    questions: &Questions,
    member: &Member,
    path: &str,
) -> Result<Bytes, AttemptError> {
    let page = questions.get(member, path, questions.limit()).await?;
    let remedy = match page.status {
        s if s.is_success() => return Ok(page.body),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
            if member.dial.with.now().key.is_some() =>
        {
            "; the replica refuses the key: correct engine_key, of its credentials if it has some"
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "; the replica needs a key: set engine_key"
        }
        // nginx and Python's servers answer so before they read the request.
        StatusCode::BAD_REQUEST if member.dial.has_tls() => {
            "; if it asks for a certificate, set or correct `certificate` and `key` of its `credentials`"
        }
        StatusCode::BAD_REQUEST => "; write https:// in `url` if the port has TLS",
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            "; list the replica's `models` in the configuration if its server has no list"
        }
        s if s.is_redirection() => {
            "; the gateway does not follow redirects: correct the replica's url"
        }
        _ => "",
    };
    Err(AttemptError::replica(format!("GET {path}: {}{remedy}", page.status)))
}
