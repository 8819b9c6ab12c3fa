//! Compares two runs of the load generator, or two sets of runs, metric by metric.
//!
//! [`draw`] resamples the requests of each side, [`figures()`] computes the metrics of a sample, and
//! the intervals of differences and ratios are those of a thousand pairs of samples (percentile
//! bootstrap, 95 %). A metric whose difference may be 0 is level. Runs with different workloads are
//! refused, because their difference would say nothing about the endpoints.
//!
//! The intervals of two single runs cover what is random within a run. Differences between runs,
//! such as the state of a machine, are covered only by sets of several runs a side.

mod draw;
mod figures;
mod output;
mod read;

use std::path::PathBuf;

use anyhow::ensure;
use meridian_base::Rng;
use serde::Serialize;

use crate::stats;
use draw::Side;
use figures::{COUNT, Figures, METRICS, figures};
pub use output::{csv, json, render, svg};

/// Pairs of samples.
const RESAMPLES: usize = 1000;
const SEED: u64 = 0x434F_4D50;

/// The runs to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// Reports of the first side.
    pub a: Vec<PathBuf>,
    /// Reports of the second.
    pub b: Vec<PathBuf>,
    /// Compares runs with different workloads too.
    pub any_workload: bool,
}

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How the second side differs from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval of the difference holds 0.
    Level,
    /// It is on the good side.
    Better,
    /// It is on the bad side.
    Worse,
}

/// One metric on both sides.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// On the first side.
    pub a: f64,
    /// On the second side.
    pub b: f64,
    /// The second minus the first.
    pub difference: Estimate,
    /// The second over the first; `None` if the first is 0.
    pub ratio: Option<Estimate>,
    /// How they differ.
    pub verdict: Verdict,
}

/// A comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Always `compare`.
    pub bench: &'static str,
    /// Names of the sides: their files.
    pub names: [String; 2],
    /// Runs of the sides.
    pub runs: [usize; 2],
    /// Requests of the sides.
    pub requests: [usize; 2],
    /// The metrics that both sides have.
    pub rows: Vec<Row>,
    /// The distributions, for plots.
    #[serde(skip)]
    sides: [Side; 2],
}

/// Compares the runs.
///
/// # Errors
/// A file that is not the report of a run, no requests, or different workloads.
pub fn compare(options: &Options) -> anyhow::Result<Comparison> {
    let (a, b) = (read::side(&options.a)?, read::side(&options.b)?);
    if !options.any_workload {
        read::same_workload(&a, &b)?;
    }
    let slo = read::common_slo(&a, &b);
    let sides = [Side::of(&a, slo), Side::of(&b, slo)];
    for (side, files) in sides.iter().zip([&options.a, &options.b]) {
        ensure!(side.requests() > 0, "{}: no request was measured", read::name(files));
    }
    Ok(Comparison {
        bench: "compare",
        names: [read::name(&options.a), read::name(&options.b)],
        runs: [a.len(), b.len()],
        requests: [sides[0].requests(), sides[1].requests()],
        rows: rows(&sides),
        sides,
    })
}

fn rows(sides: &[Side; 2]) -> Vec<Row> {
    let [a, b] = sides.each_ref().map(|side| figures(&side.whole()));
    let mut rng = Rng::new(SEED);
    let draws: Vec<[Figures; 2]> = (0..RESAMPLES)
        .map(|_| sides.each_ref().map(|side| figures(&side.draw(&mut rng))))
        .collect();
    let row = |at: usize| {
        let metric = &METRICS[at];
        let (a, b) = (a[at]?, b[at]?);
        let over = |of: fn(f64, f64) -> f64| {
            let each = draws.iter().filter_map(|[a, b]| Some(of(a[at]?, b[at]?)));
            estimate(of(a, b), each.filter(|value| value.is_finite()).collect())
        };
        let difference = over(|a, b| b - a)?;
        let verdict = match (difference.low <= 0.0 && difference.high >= 0.0, metric.more) {
            (true, _) => Verdict::Level,
            (false, more) if (difference.low > 0.0) == more => Verdict::Better,
            (false, _) => Verdict::Worse,
        };
        let ratio = over(|a, b| b / a).filter(|ratio| ratio.value.is_finite());
        Some(Row { metric: metric.name, unit: metric.unit, a, b, difference, ratio, verdict })
    };
    (0..COUNT).filter_map(row).collect()
}

fn estimate(value: f64, mut of: Vec<f64>) -> Option<Estimate> {
    of.sort_by(f64::total_cmp);
    let at = |share| stats::sorted_quantile(&of, share);
    Some(Estimate { value, low: at(0.025)?, high: at(0.975)? })
}

#[cfg(test)]
mod tests;
