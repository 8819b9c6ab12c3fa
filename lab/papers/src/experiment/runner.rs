//! Runs every cell under every seed, on all cores, and collects the measurements.
//!
//! Results are in the order of the cells and seeds, whichever finished first. A run depends only on
//! its scenario, so the number of threads has no effect.

use meridian_base::{Duration, Time};
use meridian_sim::{Fate, Report, Sample, Scenario};
use meridian_tools::bits;
use meridian_tools::dist::Dist;
use meridian_tools::metric::{self, Run};
use serde::{Deserialize, Serialize};

use super::plan::{Cell, Plan};
use super::spec::Spec;
use super::{Context, build, params};

/// The function that turns a scenario into a report: the simulator, or a stub in tests.
pub type Simulate<'a> = dyn Fn(Scenario) -> anyhow::Result<Report> + Sync + 'a;

/// The simulator.
///
/// # Errors
/// When the scenario contradicts itself.
pub fn simulate(scenario: Scenario) -> anyhow::Result<Report> {
    Ok(meridian_sim::run(scenario)?)
}

/// What a file makes of the report of a run.
pub(super) fn shape(spec: &Spec) -> fn(Report) -> Report {
    if spec.until_done { until_done } else { |report| report }
}

/// A report whose window is the time of its work, until the last answer.
fn until_done(mut report: Report) -> Report {
    let last = report.requests.iter().map(|r| r.sent + r.e2e).max();
    let took = last.map_or(report.window, |end| end.since(Time::ZERO));
    let share = took.as_secs_f64() / report.window.as_secs_f64().max(1e-9);
    report.replica_seconds *= share;
    // The samples once a second after the end of a short run are meaningless.
    let end = Time::ZERO + took + Duration::from_secs(1);
    report.samples.retain(|sample| sample.at <= end);
    report.window = took;
    report
}

/// Called after each run: the number done, the total, and the name of the one that ended.
pub type Progress<'a> = dyn Fn(usize, usize, &str) + Sync + 'a;

/// The results of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Observed {
    /// The metrics, in the order of [`metric::all`].
    #[serde(with = "bits")]
    pub values: Vec<Option<f64>>,
    /// TTFT, ms.
    pub ttft: Option<Dist>,
    /// E2E, ms.
    pub e2e: Option<Dist>,
    /// TPOT, ms.
    pub tpot: Option<Dist>,
    /// State of the replicas over time, if a plot needs it.
    #[serde(with = "bits")]
    pub samples: Vec<Sample>,
    /// Broken invariants, in words.
    pub violations: Vec<String>,
    /// Requests sent in the window beyond those answered or refused in it: the growth of the
    /// queues.
    #[serde(with = "bits")]
    pub growth: f64,
}

impl Observed {
    /// The results to keep from a report.
    #[must_use]
    pub fn of(report: Report, replica_price: Option<f64>, keep_samples: bool) -> Observed {
        let run = Run::new(&report, replica_price);
        let values = metric::all().map(|m| (m.of)(&run)).collect();
        let refused = |fate| matches!(fate, Fate::Rejected | Fate::Invalid | Fate::Lost);
        let ended = report.requests.iter().filter(|r| refused(r.fate)).count() as f64;
        let growth = report.requests.len() as f64 - ended - report.done_in_window as f64;
        let Run { ttft, e2e, tpot, .. } = run;
        let samples = if keep_samples { report.samples } else { Vec::new() };
        Observed { values, ttft, e2e, tpot, samples, violations: report.violations, growth }
    }

    /// The distribution of this name.
    #[must_use]
    pub fn dist(&self, name: &str) -> Option<&Dist> {
        match name {
            "ttft_ms" => self.ttft.as_ref(),
            "e2e_ms" => self.e2e.as_ref(),
            "tpot_ms" => self.tpot.as_ref(),
            _ => None,
        }
    }
}

/// Runs each of `cells` under each of `seeds`; the result is by cell, then by seed.
///
/// # Errors
/// When a scenario can't be made, and those of [`super::shard`].
pub fn run(
    context: &Context<'_>,
    plan: &Plan,
    cells: &[Cell],
    seeds: &[u64],
    keep_samples: bool,
) -> anyhow::Result<Vec<Vec<Observed>>> {
    let jobs: Vec<(Cell, u64)> =
        cells.iter().flat_map(|cell| seeds.iter().map(|seed| (*cell, *seed))).collect();
    let one = |(cell, seed): (Cell, u64)| -> anyhow::Result<Observed> {
        let report = shape(&context.spec)((context.simulate)(build::scenario(plan, cell, seed)?)?);
        let price = build::replica_price(&plan.fleets[cell.fleet]);
        // A timeline shows a single run, the first seed's.
        Ok(Observed::of(report, price, keep_samples && Some(&seed) == seeds.first()))
    };
    let name = |(cell, seed): &(Cell, u64)| {
        let (workload, fleet) = (plan.workload(*cell), plan.fleet(*cell));
        format!("{workload}, {fleet}, {}, seed {seed}", plan.system(*cell))
    };
    let names: Vec<String> = jobs.iter().map(name).collect();
    let runs = context.runs.round(&params::hash(plan)?, &names, context.progress, |i| one(jobs[i]));
    let mut runs = runs?.into_iter();
    Ok(cells.iter().map(|_| runs.by_ref().take(seeds.len()).collect()).collect())
}
