//! Detects fleets that get more than they can answer.
//!
//! If a queue gets x times what its replicas answer, each request waits longer than the one before, by
//! x - 1 seconds for each second between them. So the slope of the wait over the time of sending tells
//! by how much the demand exceeds the capacity. A queue that refuses does not grow: there, the refused
//! requests tell. A queue that is long and does not grow serves no client either, so the mean TTFT has
//! a limit.

use std::time::Duration;

use meridian_tools::load::Slo;
use meridian_tools::stats;

use super::measured::Measured;

/// Fewer requests than this are not a queue.
const LEAST: f64 = 10.0;
/// Seconds of wait for each second of the window; less is not growth.
const GROWTH: f64 = 0.02;
/// A fleet that refuses more than this share of the requests is overloaded, as in experiments.
const REFUSED: f64 = 0.005;
/// A longer TTFT is no service in the mean, unless the objective says so: a gateway's queue refuses
/// after this time by default.
const LONGEST: Duration = Duration::from_secs(10);

/// What is wrong with a fleet that does not keep up.
#[derive(Clone, Debug, PartialEq)]
pub struct Overload {
    /// Demand over capacity, above 1; `None` if neither the wait nor refusals tell.
    pub demand: Option<f64>,
    /// The reason, in words.
    pub why: String,
}

impl Overload {
    /// What is wrong in the runs of a fleet, one for each seed; `None` if it keeps up.
    pub(super) fn of(runs: &[Measured], slo: &Slo) -> Option<Overload> {
        let mean =
            |of: fn(&Measured) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
        let growth = growth(runs);
        let refused = Some(mean(|run| run.refused)).filter(|share| *share > REFUSED);
        let mut says = Vec::new();
        if growth.is_some() {
            let [first, .., last] = seconds(runs);
            says.push(format!(
                "the wait for the first token grows, from {first:.1} s in the first quarter of the trace \
                 to {last:.1} s in the last"
            ));
        }
        says.extend(refused.map(|s| format!("{:.1} % of the requests are refused", s * 100.0)));
        says.extend(too_long(mean(|run| run.ttft_ms.map_or(0.0, |ttft| ttft.mean)), slo));
        says.extend(waited(mean(|run| run.unsent)));
        let excess = growth.unwrap_or(0.0) + refused.map_or(0.0, |share| share / (1.0 - share));
        (!says.is_empty()).then(|| Overload {
            demand: Some(1.0 + excess).filter(|demand| *demand > 1.0 && demand.is_finite()),
            why: says.join("; "),
        })
    }

    /// `overloaded`, and the demand in multiples of the capacity: `overloaded 1.22x`.
    pub(super) fn mark(&self) -> String {
        match self.demand {
            Some(demand) if demand < 10.0 => format!("overloaded {demand:.2}x"),
            Some(demand) => format!("overloaded {demand:.0}x"),
            None => "overloaded".to_owned(),
        }
    }
}

/// The slope of the wait, if it surely grows; `None` if it does not.
fn growth(runs: &[Measured]) -> Option<f64> {
    let slopes: Vec<f64> = runs.iter().map(|run| run.waiting.slope()).collect();
    let slope = stats::mean(&slopes)?;
    let queue = runs.iter().map(|run| run.waiting.queue).sum::<f64>() / runs.len() as f64;
    (slope.mean > GROWTH && slope.low > 0.0 && queue > LEAST).then_some(slope.mean)
}

/// The wait by quarters, in the mean of the seeds.
fn seconds(runs: &[Measured]) -> [f64; 4] {
    let all = runs.len().max(1) as f64;
    std::array::from_fn(|at| runs.iter().map(|run| run.waiting.seconds[at]).sum::<f64>() / all)
}

/// About a mean TTFT in ms that no client waits for.
fn too_long(ttft_ms: f64, slo: &Slo) -> Option<String> {
    let allowed = slo.ttft.or(slo.e2e).unwrap_or_default().max(LONGEST).as_secs_f64();
    (ttft_ms > allowed * 1e3)
        .then(|| format!("the mean TTFT of {:.1} s is longer than {allowed:.0} s", ttft_ms / 1e3))
}

/// About requests that were never sent, as earlier answers of their sessions took too long.
fn waited(unsent: f64) -> Option<String> {
    (unsent > 0.0).then(|| {
        format!(
            "{unsent:.0} requests still waited for earlier answers ten minutes after the last recorded \
             one, and are not counted"
        )
    })
}

#[cfg(test)]
mod tests;
