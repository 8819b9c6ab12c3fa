//! Probes (health checks) of replicas, whenever the machine wants one.
//!
//! One task receives the machine's requests and starts a short task for each; a probe that does not
//! return in time is a miss.

use std::sync::Arc;

use http::StatusCode;
use meridian_base::{Duration, ReplicaId};
use meridian_routing::{Input, Load};
use meridian_wire::engines::{self, LoadPage};
use meridian_wire::signals;
use tokio::sync::mpsc;

use crate::cause;
use crate::error::{AttemptError, Fault};
use crate::machine::driver::Driver;
use crate::metrics::Metrics;
use crate::replicas::announce::announce;
use crate::replicas::fleet::{Fleet, Found, Member};
use crate::replicas::listing;
use crate::replicas::noted_up::note_up;
use crate::replicas::questions::Questions;
use crate::replicas::reports::load_of;
use crate::replicas::transfers;
use crate::replicas::upstream::late;

/// Probes replicas, and reports the results to the machine.
pub(crate) struct Prober {
    pub(crate) driver: Arc<Driver>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) metrics: Arc<Metrics>,
}

/// The result of a probe.
enum Probed {
    Load(Load),
    /// It is alive, but its load is unknown for this reason.
    Alive(AttemptError),
}

/// Runs probes until the gateway ends.
pub(crate) async fn run(prober: Arc<Prober>, mut wishes: mpsc::UnboundedReceiver<ReplicaId>) {
    while let Some(id) = wishes.recv().await {
        let Some(member) = prober.fleet.get(id) else { continue };
        let prober = prober.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = member.gone.cancelled() => {}
                () = prober.probe(&member) => {}
            }
        });
    }
}

impl Prober {
    async fn probe(&self, member: &Member) {
        let asked = self.driver.clock.now();
        let (id, pieces) = (member.id, member.life.pieces());
        let input = match ask(&self.questions, &self.metrics, member).await {
            Ok(Probed::Load(load)) => {
                if member.round_trip.probed(self.driver.clock.now().since(asked)) {
                    announce(&self.driver, &self.fleet, member, &member.found());
                }
                member.probed(None);
                Input::Reported { id, asked, load }
            }
            Ok(Probed::Alive(error)) => {
                self.metrics.probe_failed();
                member.probed(Some(error));
                Input::Alive { id, asked }
            }
            Err(error) => {
                self.metrics.probe_failed();
                let refused = error.fault == Fault::Unreached;
                tracing::debug!(replica = %member.name, error = %error, "probe failed");
                member.probed(Some(error));
                // Pieces that arrived during the probe are a sign of life, earlier ones are not. A
                // replica that refuses connections gets no requests, whatever it still sends.
                match member.life.pieces() != pieces && !refused {
                    true => Input::Alive { id, asked },
                    false => Input::ProbeFailed(id),
                }
            }
        };
        let is_answered = matches!(input, Input::Reported { .. });
        self.driver.tell_if(|| !member.gone.is_cancelled(), input);
        note_up(&self.driver, member);
        if is_answered {
            listing::compare(&self.driver, &self.questions, member, asked).await;
        }
    }
}

/// One probe: the engine's metrics page, or its health check if it has none.
///
/// A busy engine may be slow with the metrics page: llama.cpp answers it between two batches. So
/// after half of the time, or if the page is unusable, the health check is requested, too.
async fn ask(
    questions: &Questions,
    metrics: &Metrics,
    member: &Member,
) -> Result<Probed, AttemptError> {
    let limit = questions.limit();
    let found = member.found();
    let Some(page) = found.engine.and_then(|engine| engine.load) else {
        return health(questions, member, limit).await.map(|()| Probed::Load(Load::default()));
    };
    let path = page.path;
    let load = load((questions, metrics), member, page, found.kv_tokens);
    let mut load = std::pin::pin!(tokio::time::timeout(limit, load));
    let failed = match tokio::time::timeout(limit / 2, &mut load).await {
        Ok(Ok(Ok(load))) => return Ok(Probed::Load(load)),
        Ok(Ok(Err(error))) if error.fault == Fault::Unreached => return Err(error),
        Ok(Ok(Err(error))) => Some(error),
        Ok(Err(_)) | Err(_) => None,
    };
    let alive = health(questions, member, limit / 2);
    if let Some(error) = failed {
        return match alive.await {
            Ok(()) => Ok(Probed::Alive(error)),
            Err(_) => Err(error),
        };
    }
    let (load, alive) = tokio::join!(load, alive);
    let late = || {
        let message = format!("GET {path}: {}", late(limit));
        AttemptError::replica(message).because(cause::TIMEOUT)
    };
    match load.unwrap_or_else(|_| Err(late())) {
        Ok(load) => Ok(Probed::Load(load)),
        Err(error) if alive.is_ok() => Ok(Probed::Alive(error)),
        Err(error) => Err(error),
    }
}

/// Reads the load that the replica's engine reports, if it reports any.
pub(crate) async fn read_load(
    questions: &Questions,
    member: &Member,
    found: &Found,
) -> Result<(), AttemptError> {
    let Some(page) = found.engine.and_then(|engine| engine.load) else { return Ok(()) };
    load_page(questions, member, page).await.map(drop)
}

/// The health check.
async fn health(
    questions: &Questions,
    member: &Member,
    limit: Duration,
) -> Result<(), AttemptError> {
    let path = member.engine().unwrap_or(engines::NONE).health;
    let page = questions.get(member, path, limit).await?;
    // A server that answers without having that page is still alive.
    match page.status.is_server_error() {
        true => {
            let message = format!("GET {path}: {}", page.status);
            Err(AttemptError::replica(message).because(cause::SERVER_ERROR))
        }
        false => Ok(()),
    }
}

/// The load reported on the engine's own page.
async fn load(
    (questions, metrics): (&Questions, &Metrics),
    member: &Member,
    page: LoadPage,
    kv_tokens: Option<u64>,
) -> Result<Load, AttemptError> {
    let load = load_page(questions, member, page).await?;
    transfers::noted(metrics, member, load.transfers);
    Ok(load_of(&load, kv_tokens))
}

async fn load_page(
    questions: &Questions,
    member: &Member,
    LoadPage { path, read, remedy }: LoadPage,
) -> Result<signals::Load, AttemptError> {
    let page = questions.get(member, path, questions.limit()).await?;
    match page.status {
        s if s.is_success() => {}
        s @ (StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED) => {
            let message = format!("GET {path}: {s}; {remedy}");
            return Err(AttemptError::replica(message).because(cause::STATUS));
        }
        s => {
            let cause = if s.is_server_error() { cause::SERVER_ERROR } else { cause::STATUS };
            return Err(AttemptError::replica(format!("GET {path}: {s}")).because(cause));
        }
    }
    let unreadable = |e| AttemptError::replica(format!("GET {path}: {e}"));
    read(&page.body).map_err(|e| unreadable(e).because(cause::BAD_ANSWER))
}
