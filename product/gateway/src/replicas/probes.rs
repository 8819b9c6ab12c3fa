//! Probes (health checks) of replicas, whenever the machine wants one.
//!
//! One task receives the machine's requests and starts a short task for each; a probe that does not
//! return in time is a miss.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use meridian_base::ReplicaId;
use meridian_protocol::engines::LoadPage;
use meridian_protocol::signals;
use meridian_routing::{AdapterReport, Input, Load};
use tokio::sync::mpsc;

use crate::cause;
use crate::fault::{AttemptError, Fault};
use crate::metrics::Metrics;
use crate::replicas::announce::announce;
use crate::replicas::compare;
use crate::replicas::fleet::Fleet;
use crate::replicas::health_check;
use crate::replicas::member::{Found, Member};
use crate::replicas::noted_up::note_up;
use crate::replicas::progress;
use crate::replicas::questions::Questions;
use crate::replicas::region::Region;
use crate::replicas::reports::load_of;
use crate::replicas::transfers;
use crate::replicas::upstream::late;

/// Probes replicas, and reports the results to the machine.
pub(crate) struct Prober {
    pub(crate) region: Arc<Region>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) metrics: Arc<Metrics>,
}

/// The result of a probe.
enum Probed {
    /// Its load, and its adapters if it lists any and reports them.
    Load(Load, Option<AdapterReport>),
    /// It is alive, but its load is unknown for this reason.
    Alive(AttemptError),
}

/// Runs probes until the gateway ends.
pub(crate) async fn run(prober: Arc<Prober>, mut wishes: mpsc::UnboundedReceiver<ReplicaId>) {
    while let Some(id) = wishes.recv().await {
        let Some(member) = prober.region.fleet.get(id) else { continue };
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
    async fn probe(&self, member: &Arc<Member>) {
        let asked = self.region.driver.clock.now();
        let (id, pieces) = (member.id, member.life.pieces());
        let mut adapters = None;
        let has_page = member.engine().is_some_and(|engine| engine.load.is_some());
        let question =
            has_page.then(|| health_check::ask_beside(&self.questions, member, asked)).flatten();
        let probed = ask(self, member).await;
        let took = self.region.driver.clock.now().since(asked);
        health_check::wait(question).await;
        let input = match (probed, member.life.health.ill()) {
            // An engine that says that it is ill gets no requests, whatever else it still sends. So
            // does a replica that refuses connections.
            (Err(error), _) if error.fault == Fault::Unreached => self.failed(member, error),
            (_, Some(ill)) => self.failed(member, ill),
            (Ok(Probed::Load(load, report)), None) => {
                adapters = report;
                if member.round_trip.probed(took) {
                    announce(&self.region.driver, &self.region.fleet, member, &member.found());
                }
                member.probed(self.hangs(member, load));
                Input::Reported { id, asked, load }
            }
            (Ok(Probed::Alive(error)), None) => {
                self.metrics.probe_failed();
                member.probed(Some(error));
                Input::Alive { id, asked }
            }
            (Err(error), None) => {
                let failed = self.failed(member, error);
                // Pieces that arrived during the probe are a sign of life, earlier ones are not.
                if member.life.pieces() != pieces { Input::Alive { id, asked } } else { failed }
            }
        };
        let is_answered = matches!(input, Input::Reported { .. });
        if let Some(report) = adapters {
            let input = Input::Adapters { id, report };
            self.region.driver.tell_if(|| !member.gone.is_cancelled(), input);
        }
        self.region.driver.tell_if(|| !member.gone.is_cancelled(), input);
        note_up(&self.region.driver, member);
        if is_answered {
            compare::lists(&self.region.driver, &self.questions, member, asked).await;
        }
    }

    /// Keeps new requests from an engine that makes no progress, and says so.
    fn hangs(&self, member: &Member, load: Load) -> Option<AttemptError> {
        let (now, works) = (self.region.driver.clock.now(), load.running > Some(0));
        let (pieces, pace) = (member.life.pieces(), self.questions.pace());
        let still = member.life.progress.still(now, pieces, works, pace)?;
        // Until after the next probe.
        let pause = 2 * pace;
        let is_there = || !member.gone.is_cancelled();
        self.region.driver.tell_if(is_there, Input::Paused { id: member.id, pause });
        Some(progress::none_for(still))
    }

    /// Notes why a probe failed.
    fn failed(&self, member: &Member, error: AttemptError) -> Input {
        self.metrics.probe_failed();
        tracing::debug!(replica = %member.name, error = %error, "probe failed");
        member.probed(Some(error));
        Input::ProbeFailed(member.id)
    }
}

/// One probe: the engine's metrics page, or its health check if it has none.
///
/// A busy engine may be slow with the metrics page: llama.cpp answers it between two batches. So
/// after half of the time, or if the page is unusable, the health check decides whether it is alive.
async fn ask(prober: &Prober, member: &Member) -> Result<Probed, AttemptError> {
    let questions = &*prober.questions;
    let limit = questions.limit();
    let found = member.found();
    let Some(page) = found.engine.and_then(|engine| engine.load) else {
        return health_check::check(questions, member, limit)
            .await
            .map(|()| Probed::Load(Load::default(), None));
    };
    let path = page.path;
    let load = load(prober, member, page, &found);
    let mut load = std::pin::pin!(tokio::time::timeout(limit, load));
    let failed = match tokio::time::timeout(limit / 2, &mut load).await {
        Ok(Ok(Ok((load, adapters)))) => return Ok(Probed::Load(load, adapters)),
        Ok(Ok(Err(error))) if error.fault == Fault::Unreached => return Err(error),
        Ok(Ok(Err(error))) => Some(error),
        Ok(Err(_)) | Err(_) => None,
    };
    let alive = health_check::check(questions, member, limit / 2);
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
        Ok((load, adapters)) => Ok(Probed::Load(load, adapters)),
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
    let body = load_page(questions, member, page).await?;
    read_page(page, &body).map(drop)
}

/// Reads the engine's own page.
async fn load(
    prober: &Prober,
    member: &Member,
    page: LoadPage,
    found: &Found,
) -> Result<(Load, Option<AdapterReport>), AttemptError> {
    let body = load_page(&prober.questions, member, page).await?;
    let load = read_page(page, &body)?;
    transfers::noted(&prober.metrics, member, load.transfers);
    let (now, progress) = (prober.region.driver.clock.now(), &member.life.progress);
    if progress.is_due(now) {
        let own = found.engine.map_or(&[][..], |engine| engine.detect.metrics);
        progress.looked(now, progress::numbers(&body, own));
    }
    Ok((load_of(&load, found.kv_tokens), adapters(&prober.region.fleet, found, &body)))
}

/// The adapters in use at a replica that lists some.
fn adapters(fleet: &Fleet, found: &Found, page: &[u8]) -> Option<AdapterReport> {
    let read = found.engine.filter(|_| !found.adapters.is_empty())?.adapters_in_use?;
    // vLLM's page has no such line before the first request: then no adapter is in use.
    let in_use = read(page).unwrap_or_default();
    let ids = |names: &[String]| names.iter().filter_map(|name| fleet.models.get(name)).collect();
    Some(AdapterReport {
        listed: ids(&found.adapters),
        slots: in_use.slots,
        running: ids(&in_use.running),
        waiting: ids(&in_use.waiting),
    })
}

async fn load_page(
    questions: &Questions,
    member: &Member,
    LoadPage { path, remedy, .. }: LoadPage,
) -> Result<Bytes, AttemptError> {
    let page = questions.get(member, path, questions.limit()).await?;
    match page.status {
        s if s.is_success() => Ok(page.body),
        s @ (StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED) => {
            let message = format!("GET {path}: {s}; {remedy}");
            Err(AttemptError::replica(message).because(cause::STATUS))
        }
        s => {
            let cause = if s.is_server_error() { cause::SERVER_ERROR } else { cause::STATUS };
            Err(AttemptError::replica(format!("GET {path}: {s}")).because(cause))
        }
    }
}

fn read_page(
    LoadPage { path, read, .. }: LoadPage,
    body: &[u8],
) -> Result<signals::Load, AttemptError> {
    let unreadable = |e| AttemptError::replica(format!("GET {path}: {e}"));
    read(body).map_err(|e| unreadable(e).because(cause::BAD_ANSWER))
}
