//! What GORGO's tables need beside the usual runs: the line that describes its engine (Table 1), and
//! times as its benchmark saw them (Tables 2 to 4).

use anyhow::Context as _;
use meridian_sim::{Fate, Report};
use meridian_tools::dist::Dist;
use meridian_tools::fit;
use meridian_tools::plot::{self, Figure};

use super::plan::Plan;
use super::values::{Row, Values};
use super::{Context, Findings, build, cells, params};
use crate::calibration::prefill;

/// The prompts of its benchmark.
const BENCHMARK: &str = "the benchmark's";

/// Table 1: TTFT over input tokens on an idle engine.
///
/// # Errors
/// If the file is invalid, or a run has no two different prompts.
pub(super) fn fit(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = Plan::new(&context.spec, context.quick)?;
    let cell = *plan.cells().first().context("a plan has a cell")?;
    let (mut lines, mut first, mut violations) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 1..=u64::from(context.seeds) {
        let report = (context.simulate)(build::scenario(&plan, cell, seed)?)?;
        let points = points(&report);
        lines.push(
            fit::line(&points)
                .context("workloads: all prompts have the same length, so no line fits them")?,
        );
        violations.extend(report.violations);
        (context.progress)(lines.len(), context.seeds as usize, &format!("seed {seed}"));
        if seed == 1 {
            first = points;
        }
    }
    let (intercept, slope) = prefill::gorgo(None);
    let rows = vec![
        Row::new(BENCHMARK, "idle", "")
            .with("intercept_ms", lines.iter().map(|line| line.intercept))
            .with("slope_ms", lines.iter().map(|line| line.slope))
            .with("slope_error_ms", lines.iter().map(|line| line.slope_error))
            .with("r2", lines.iter().map(|line| line.r2))
            .with("points", lines.iter().map(|line| line.points as f64)),
        Row::new("256 to 8,192 tokens, all lengths equally often", "idle", "")
            .with("intercept_ms", [intercept])
            .with("slope_ms", [slope])
            .with("points", [32.0]),
    ];
    let mut found = Findings::computed(&context.spec, Values { rows }, params::hash(&plan)?)?;
    let title = "TTFT over input tokens, first seed (simulated)".to_owned();
    let (published, ours) = (Values::published(&context.spec), Row::new(BENCHMARK, "idle", ""));
    let theirs = published.stated(&ours, "intercept_ms").zip(published.stated(&ours, "slope_ms"));
    let labels = ["input tokens", "TTFT, ms"];
    let svg = plot::scatter(&title, labels, &first, lines.first().copied(), theirs)?;
    found.figures.push(Figure::new(&["ttft", "line"], title, svg));
    found.violations = violations;
    Ok(found)
}

fn points(report: &Report) -> Vec<(f64, f64)> {
    let done = report.requests.iter().filter(|r| r.fate == Fate::Done);
    done.map(|r| (f64::from(r.prompt_tokens), r.ttft.as_secs_f64() * 1e3)).collect()
}

/// Tables 2 to 5.
///
/// # Errors
/// If the file is invalid, or a plot can't be drawn.
pub(super) fn tables(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = Plan::new(&context.spec, context.quick)?;
    let grid = cells::simulate(context, &plan)?;
    cells::findings_with(context, &grid, as_measured(context, &plan)?)
}

/// The systems of Tables 2 to 5, each with the workload that corresponds to its benchmark.
const MEASURED: [(&str, &str); 4] = [
    ("least-load", TUNNEL),
    ("prefix-trie", TUNNEL),
    ("gorgo", TUNNEL),
    ("gorgo-proxy", "at-the-proxy"),
];
/// The workload whose benchmark used a tunnel.
const TUNNEL: &str = "wildchat";

/// A statistic of the times.
type Statistic = fn(&Dist) -> f64;

/// TTFT as measured at the benchmark's machine, a row for each statistic: `user_ms` at the user's
/// site; `tunnel_ms` plus the round trip from there to the user's site, twice, since each request
/// opens a connection; and `measured_ms` plus the missing part of Table 1's intercept.
fn as_measured(context: &Context<'_>, plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let missing = context.knob("missing_intercept_ms")?;
    let mut rows = Vec::new();
    for (system, workload) in MEASURED {
        let is = |cell: &super::plan::Cell| {
            plan.system(*cell) == system && plan.workload(*cell) == workload
        };
        let Some(cell) = plan.cells().into_iter().find(is) else { continue };
        let (mut user, mut tunnel) = (Vec::new(), Vec::new());
        for seed in 1..=u64::from(context.seeds) {
            let report = (context.simulate)(build::scenario(plan, cell, seed)?)?;
            let done = || report.requests.iter().filter(|r| r.fate == Fate::Done);
            let trips = if workload == TUNNEL { 2.0 } else { 0.0 };
            let far = |region: u16| trips * plan.regions.rtt_ms[0][usize::from(region)];
            user.extend(Dist::of(done().map(|r| r.ttft.as_secs_f64() * 1e3).collect()));
            let shifted = done().map(|r| r.ttft.as_secs_f64() * 1e3 + far(r.region));
            tunnel.extend(Dist::of(shifted.collect()));
        }
        let statistics: [(&str, Statistic); 3] =
            [("mean", |d| d.mean), ("P50", |d| d.p(50)), ("P99", |d| d.p(99))];
        rows.extend(statistics.map(|(name, of)| {
            Row::new(system, name, "as the benchmark saw it")
                .with("user_ms", user.iter().map(of))
                .with("tunnel_ms", tunnel.iter().map(of))
                .with("measured_ms", tunnel.iter().map(|d| of(d) + missing))
        }));
    }
    Ok(rows)
}
