//! Asks replicas how they are, when the machine wants to know.
//!
//! One task takes the machine's wishes and starts a short task for each; a probe that does not
//! come back in time is a miss. What an engine tells unasked, in an answer's headers, is read here
//! too.

use std::sync::Arc;

use http::HeaderMap;
use meridian_base::{Duration, ReplicaId};
use meridian_routing::{Input, Load};
use meridian_wire::admin::EngineName;
use meridian_wire::signals::{self, Engine};
use tokio::sync::mpsc;

use crate::discover::announce;
use crate::error::AttemptError;
use crate::fleet::Member;
use crate::headers;
use crate::shared::Shared;

/// Carries out probes until the gateway ends.
pub(crate) async fn run(shared: Arc<Shared>, mut wishes: mpsc::UnboundedReceiver<ReplicaId>) {
    while let Some(id) = wishes.recv().await {
        let Some(member) = shared.fleet.get(id) else { continue };
        let shared = shared.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = member.gone.cancelled() => {}
                () = probe(&shared, &member) => {}
            }
        });
    }
}

async fn probe(shared: &Shared, member: &Member) {
    let asked = shared.driver.clock.now();
    let id = member.id;
    let input = match ask(shared, member).await {
        Ok(load) => {
            if member.way.probed(shared.driver.clock.now().since(asked)) {
                announce(shared, member, &member.found());
            }
            Input::Reported { id, asked, load }
        }
        Err(error) => {
            shared.metrics.probe_failed();
            tracing::debug!(replica = %id, error = %error, "probe failed");
            Input::ProbeFailed(id)
        }
    };
    shared.driver.tell_if(|| !member.gone.is_cancelled(), input);
}

/// One probe: the engine's metrics page, or a sign of life where it has none.
async fn ask(shared: &Shared, member: &Member) -> Result<Load, AttemptError> {
    let limit = shared.config.timeouts.probe.0;
    let found = member.found();
    let engine = found.engine.and_then(engine);
    let Some((engine, path)) = engine.and_then(|e| e.probe_path().map(|p| (e, p))) else {
        let page = shared.asking(member).get(&member.dial, "/health", limit).await?;
        // A server without /health that answers is alive all the same.
        return match page.status.is_server_error() {
            true => Err(AttemptError::replica(format!("GET /health: {}", page.status))),
            false => Ok(Load::default()),
        };
    };
    let page = shared.asking(member).get(&member.dial, path, limit).await?;
    if !page.status.is_success() {
        return Err(AttemptError::replica(format!("GET {path}: {}", page.status)));
    }
    let load =
        signals::read(engine, &page.body).map_err(|e| AttemptError::replica(e.to_string()))?;
    Ok(load_of(&load, found.kv_tokens))
}

/// What the machine steers by, of what an engine told.
pub(crate) fn load_of(load: &signals::Load, kv_tokens: Option<u64>) -> Load {
    Load {
        pending: load.pending,
        running: load.running,
        kv_used: load.kv_used,
        kv_tokens: load.kv_tokens.or(kv_tokens),
    }
}

/// The signals' name of a configured engine.
pub(crate) fn engine(name: EngineName) -> Option<Engine> {
    Engine::from_name(name.name())
}

/// Beside the way there and back, dispatches younger than this may still be on their way when an engine writes its header.
const ON_THE_WAY: Duration = Duration::from_millis(5);

/// A load report that came in an answer's header (ORCA): fresher than any probe, and free.
pub(crate) fn piggyback(shared: &Shared, member: &Member, headers: &HeaderMap) {
    let Some(value) = headers.get(headers::ORCA) else { return };
    let Ok(load) = signals::orca(value.as_bytes()) else { return };
    if load.pending.is_some() {
        let asked = shared.driver.clock.now() - (ON_THE_WAY + member.rtt());
        let load = load_of(&load, None);
        shared.driver.tell(Input::Reported { id: member.id, asked, load });
    }
}
