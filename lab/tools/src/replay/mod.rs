//! Replays recorded requests against a live endpoint: the gateway's journal, or a trace.
//!
//! A trace has lengths, times and block ids, no text. [`plan`] turns it into programs whose prompts
//! have the recorded tokens and share the recorded beginnings, [`tokens`] fits their text to the
//! endpoint's tokenizer, and the load generator sends them at their own times. Each reply has the
//! recorded length. Sessions and tenants stay together.
//!
//! The engine's replies are its own, so a next turn repeats the text of the trace and not that
//! reply: up to a reply's length of each turn is not cached, where it was in the recording.
//!
//! If a fleet is described, [`simulated`] replays the same requests through the simulator; and
//! without an endpoint, [`fleet`] starts that fleet as processes, so that both can be compared.

mod fleet;
mod plan;
mod simulated;
pub mod tails;
mod tokens;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{bail, ensure};
use meridian_workload::trace::{Answers, TraceRequest};

use crate::load::{self, Beside, Progress, Quantiles, Report};
pub use fleet::Fleet;
use plan::Plan;
pub use simulated::WAITS;

/// Options of a replay.
#[derive(Debug)]
pub struct Options {
    /// The load; its arrivals are the trace's. Without a URL, the fleet is started.
    pub load: load::Options,
    /// The requests, ordered by time, from 0.
    pub requests: Vec<TraceRequest>,
    /// Speed of the requests' times, as a multiple of the recorded ones.
    pub speed: f64,
    /// Sends a turn only after the answers that its session had before it, and the recorded time to
    /// think.
    pub chained: bool,
    /// Bytes of a token; `None` to measure them at the endpoint.
    pub bytes_per_token: Option<f64>,
    /// API keys by the hash of the tenant.
    pub keys: BTreeMap<u64, String>,
    /// A fleet to simulate, and to start if there is no URL.
    pub fleet: Option<Fleet>,
}

/// Times of answers for chained requests whose trace does not record them.
pub const ANSWERS: Answers =
    Answers { ttft: Duration::from_millis(200), tpot: Duration::from_millis(30) };

/// Replays the requests until the last one has ended, or until `stop` resolves.
///
/// # Errors
/// No requests, tenants without keys, an endpoint or a fleet that cannot be used.
pub async fn run(
    options: Options,
    progress: Option<Box<dyn Progress>>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Report> {
    let Options { mut load, requests, speed, chained, bytes_per_token, keys, fleet } = options;
    ensure!(
        !load.url.is_empty() || fleet.is_some(),
        "url is missing: give --url with the endpoint, or --fleet to start one here"
    );
    let plan = Plan::of(requests, (speed, chained.then_some(ANSWERS)), load.seed)?;
    if !keys.is_empty() && load.api_keys.is_empty() {
        plan.tenants_have(&keys)?;
    }
    let started = match &fleet {
        Some(fleet) if load.url.is_empty() => {
            let started = fleet.start().await?;
            load.url.clone_from(&started.url);
            load.model.get_or_insert_with(|| fleet.model().to_owned());
            Some(started)
        }
        _ => None,
    };
    load.tenant_keys = keys;
    let mut stop = Box::pin(stop);
    let prepared = async {
        // A simulation that fails must not cost the replay that would follow it.
        let simulated = match fleet {
            Some(fleet) => {
                let sent = plan.for_simulator();
                tokio::task::spawn_blocking(move || fleet.simulate(&sent)).await??
            }
            None => Vec::new(),
        };
        let recorded = plan.for_endpoint(&mut load, bytes_per_token).await?;
        anyhow::Ok((simulated, recorded))
    };
    let (simulated, recorded) = tokio::select! {
        prepared = prepared => prepared?,
        () = &mut stop => bail!("stopped before the first request"),
    };
    load.arrivals = load::Arrivals::Recorded {
        programs: recorded.times().len() as u64,
        speed,
        trace: plan.hash,
    };
    load.workload.name = "replay".to_owned();
    load.recorded = Some(recorded.into());
    let mut report = load::run(load, progress, stop).await?;
    drop(started);
    let recorded = plan.recorded_ttft();
    report.beside.extend(recorded.and_then(|ttft| Beside::of("recorded", &[ttft])));
    report.beside.extend(Beside::of("simulated", &simulated));
    Ok(report)
}

fn quantiles(ttft: Vec<Duration>) -> Option<Quantiles> {
    Quantiles::of(ttft.into_iter().map(|ttft| ttft.as_secs_f64() * 1e3).collect())
}

#[cfg(test)]
mod tests;
