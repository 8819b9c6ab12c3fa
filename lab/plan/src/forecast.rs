//! What clients see of a running plan at a rate, as far as the planner predicts it.
//!
//! The plan's own TTFT ends when the KV has arrived, and layers are sent as they are computed. Engines
//! with vLLM's NixlConnector do otherwise: the decode instance fetches the KV when the prompt is
//! complete, and computes the first token itself. [`Handing`] names the two; the objectives of a plan
//! always mean the first.
//!
//! With several cells, requests go to each in proportion to its goodput.

use crate::fleet::{Fleet, Times, Verdict};
use crate::handover::Handing;
use crate::instance::Rated;
use crate::queue::largest;
use crate::task::Task;

/// The predicted times of a plan's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Mean TTFT, in seconds.
    pub ttft: f64,
    /// The TTFT that the objective's share of requests stays below, in seconds.
    pub ttft_within: f64,
    /// Mean TPOT over requests, in seconds.
    pub tpot: f64,
    /// Requests a second whose TTFT is within its objective, if the mean TPOT is.
    pub good: f64,
}

/// Shares of requests outside of the objective are computed from here on.
const LEAST: f64 = 1e-4;

/// The prediction for fleets that serve `rate` requests a second together.
#[must_use]
pub fn forecast(task: &Task<'_>, fleets: &[Fleet], rate: f64, handing: Handing) -> Forecast {
    let judged: Vec<(&Fleet, Verdict)> =
        fleets.iter().filter_map(|fleet| Some((fleet, fleet.judged(task)?))).collect();
    let goodput: f64 = judged.iter().map(|(_, verdict)| verdict.goodput).sum();
    let mut all = Forecast::default();
    for (fleet, verdict) in &judged {
        let share = verdict.goodput / goodput;
        let own = rate * share;
        let times = fleet.times_with(task, verdict, own, handing);
        let tpot = tpot(task, fleet, verdict, own);
        all.ttft += share * times.ttft;
        // No request of a cell knows of the others, so the slowest one holds for all.
        all.ttft_within = all.ttft_within.max(times.ttft_within);
        all.tpot += share * tpot;
        if tpot <= task.slo.tpot {
            all.good += own * within(task, fleet, verdict, (own, handing));
        }
    }
    all
}

/// The mean over requests, which go to decode instances in proportion to their capacity.
fn tpot(task: &Task<'_>, fleet: &Fleet, verdict: &Verdict, rate: f64) -> f64 {
    let of = |one: &Rated| {
        let share = one.rate / verdict.decode;
        share * one.tpot(task, rate * share)
    };
    fleet.decode.iter().map(|one| of(one)).sum()
}

/// The share of requests within the objective for the TTFT.
fn within(
    task: &Task<'_>,
    fleet: &Fleet,
    verdict: &Verdict,
    (rate, handing): (f64, Handing),
) -> f64 {
    let meets = |share: f64| {
        let slo = crate::task::Slo { attainment: share, ..task.slo };
        let Times { ttft_within, .. } =
            fleet.times_with(&Task { slo, ..task.clone() }, verdict, rate, handing);
        ttft_within <= task.slo.ttft
    };
    largest(1.0 - LEAST, meets)
}

#[cfg(test)]
mod tests;
