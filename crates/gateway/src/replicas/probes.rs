//! Asks replicas how they are, when the machine wants to know.
//!
//! One task takes the machine's wishes and starts a short task for each; a probe that does not
//! come back in time is a miss. What an engine tells unasked, in an answer's headers, is read here
//! too.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use meridian_base::{Duration, ReplicaId};
use meridian_routing::{Input, Load};
use meridian_wire::engines::{self, LoadPage};
use meridian_wire::signals;
use tokio::sync::mpsc;

use crate::error::{AttemptError, Source};
use crate::http::headers;
use crate::replicas::discovery::announce;
use crate::replicas::fleet::Member;
use crate::replicas::upstream::{Page, late};
use crate::shared::Shared;

/// What a probe brought.
enum Probed {
    Load(Load),
    /// It is alive, and nothing is known of its load, because of this.
    Alive(AttemptError),
}

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
    let (id, pieces) = (member.id, member.life.pieces());
    let input = match ask(shared, member).await {
        Ok(Probed::Load(load)) => {
            if member.way.probed(shared.driver.clock.now().since(asked)) {
                announce(shared, member, &member.found());
            }
            member.probed(None);
            Input::Reported { id, asked, load }
        }
        Ok(Probed::Alive(error)) => {
            shared.metrics.probe_failed();
            member.probed(Some(error.message));
            Input::Alive { id, asked }
        }
        Err(error) => {
            shared.metrics.probe_failed();
            let refused = error.fault == Source::Unreached;
            tracing::debug!(replica = %member.name, error = %error, "probe failed");
            member.probed(Some(error.message));
            // Pieces that came while it was asked are a sign of life, those from before are none. One
            // that takes no connections gets no requests, whatever it still sends.
            match member.life.pieces() != pieces && !refused {
                true => Input::Alive { id, asked },
                false => Input::ProbeFailed(id),
            }
        }
    };
    shared.driver.tell_if(|| !member.gone.is_cancelled(), input);
}

/// One probe: the engine's metrics page, or a sign of life where it has none.
///
/// A busy engine may take its time with the metrics page: llama.cpp answers it between two batches.
/// So when half of the time is over, or the page is of no use, it is asked for a sign of life, too.
async fn ask(shared: &Shared, member: &Member) -> Result<Probed, AttemptError> {
    let limit = shared.config.timeouts.probe.0;
    let found = member.found();
    let Some(page) = found.engine.and_then(|engine| engine.load) else {
        return health(shared, member, limit).await.map(|()| Probed::Load(Load::default()));
    };
    let path = page.path;
    let load = load(shared, member, page, found.kv_tokens);
    let mut load = std::pin::pin!(tokio::time::timeout(limit, load));
    let failed = match tokio::time::timeout(limit / 2, &mut load).await {
        Ok(Ok(Ok(load))) => return Ok(Probed::Load(load)),
        Ok(Ok(Err(error))) if error.fault == Source::Unreached => return Err(error),
        Ok(Ok(Err(error))) => Some(error),
        Ok(Err(_)) | Err(_) => None,
    };
    let alive = health(shared, member, limit / 2);
    if let Some(error) = failed {
        return match alive.await {
            Ok(()) => Ok(Probed::Alive(error)),
            Err(_) => Err(error),
        };
    }
    let (load, alive) = tokio::join!(load, alive);
    let late = || AttemptError::replica(format!("GET {path}: {}", late(limit)));
    match load.unwrap_or_else(|_| Err(late())) {
        Ok(load) => Ok(Probed::Load(load)),
        Err(error) if alive.is_ok() => Ok(Probed::Alive(error)),
        Err(error) => Err(error),
    }
}

/// A sign of life.
async fn health(shared: &Shared, member: &Member, limit: Duration) -> Result<(), AttemptError> {
    let path = member.engine().unwrap_or(engines::NONE).health;
    let page = get(shared, member, path, limit).await?;
    // A server without that page that answers is alive all the same.
    match page.status.is_server_error() {
        true => Err(AttemptError::replica(format!("GET {path}: {}", page.status))),
        false => Ok(()),
    }
}

async fn get(
    shared: &Shared,
    member: &Member,
    path: &str,
    limit: Duration,
) -> Result<Page, AttemptError> {
    let page = shared.asking(member).get(&member.dial, path, limit).await;
    page.map_err(|e| AttemptError::of(e.fault, format!("GET {path}: {e}")))
}

/// What the engine's own page tells of its load.
async fn load(
    shared: &Shared,
    member: &Member,
    LoadPage { path, read, remedy }: LoadPage,
    kv_tokens: Option<u64>,
) -> Result<Load, AttemptError> {
    let limit = shared.config.timeouts.probe.0;
    let page = get(shared, member, path, limit).await?;
    match page.status {
        s if s.is_success() => {}
        s @ (StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED) => {
            return Err(AttemptError::replica(format!("GET {path}: {s}; {remedy}")));
        }
        s => return Err(AttemptError::replica(format!("GET {path}: {s}"))),
    }
    let load = read(&page.body).map_err(|e| AttemptError::replica(format!("GET {path}: {e}")))?;
    Ok(load_of(&load, kv_tokens))
}

/// The most requests that an engine is believed to have: beyond any engine, and far from where sums
/// of counts overflow.
const MOST_REQUESTS: u32 = 1 << 24;

/// What the machine steers by, of what an engine told.
pub(crate) fn load_of(load: &signals::Load, kv_tokens: Option<u64>) -> Load {
    Load {
        pending: load.pending.map(|n| n.min(MOST_REQUESTS)),
        running: load.running.map(|n| n.min(MOST_REQUESTS)),
        kv_used: load.kv_used,
        kv_tokens: load.kv_tokens.or(kv_tokens),
    }
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
