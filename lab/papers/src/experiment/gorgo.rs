//! GORGO's tables: the line that describes its engine (Table 1), and its four systems (Tables 2 to
//! 5).
//!
//! The tables are the usual kind of experiment, with one table more: each published figure is of
//! one run of 60 s with 57 to 141 requests, so our mean over seeds is shown with the minimum and
//! maximum of single runs.

use anyhow::Context as _;
use meridian_sim::{Fate, Report};
use serde_json::json;

use super::Context;
use super::Findings;
use super::build;
use super::cells;
use super::claim::{self, Claim, Verdict};
use super::grid::Grid;
use super::params;
use super::plan::Plan;
use super::results;
use super::spec::{Published, Workload};
use crate::calibration::prefill;
use meridian_tools::dist::Dist;
use meridian_tools::fit;
use meridian_tools::fit::Line;
use meridian_tools::metric;
use meridian_tools::plot;
use meridian_tools::plot::Figure;
use meridian_tools::stats;
use meridian_tools::table::Table;

/// Table 1: intercept in ms, slope in ms a token, R2, samples.
const TABLE_1: (f64, f64, f64, usize) = (150.72, 0.0938, 0.9863, 87);
/// The largest error of the slope (evaluation's bound for the engine model).
const SLOPE_WITHIN: f64 = 0.05;

/// Table 1: TTFT over input tokens on an idle engine.
///
/// # Errors
/// If the file is invalid, or a run has no two different prompts.
pub(super) fn fit(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = Plan::new(&context.spec, context.quick)?;
    let cell = *plan.cells().first().context("a plan has a cell")?;
    let mut found = Findings { params: params::hash(&plan)?, ..Findings::default() };
    let (mut lines, mut shown) = (Vec::new(), Vec::new());
    for seed in 1..=u64::from(context.seeds) {
        let report = (context.simulate)(build::scenario(&plan, cell, seed)?)?;
        let points = points(&report);
        lines.push(
            fit::line(&points)
                .context("workloads: all prompts have the same length, so no line fits them")?,
        );
        found.violations.extend(report.violations);
        (context.progress)(lines.len(), context.seeds as usize, &format!("seed {seed}"));
        if seed == 1 {
            shown = points;
        }
    }
    let title = "TTFT over input tokens, first seed (simulated)".to_owned();
    let published = Some((TABLE_1.0, TABLE_1.1));
    let labels = ["input tokens", "TTFT, ms"];
    let svg = plot::scatter(&title, labels, &shown, lines.first().copied(), published)?;
    found.figures.push(Figure::new(&["ttft", "line"], title, svg));
    let even = prefill::gorgo(None);
    found.tables.push(line_table(&lines, even));
    found.claims = line_claims(&lines, even);
    let of = |get: fn(&Line) -> f64| json!(mean(&lines, get));
    found.rows.push(results::bare(
        "direct",
        "idle",
        &[
            ("intercept_ms", of(|l| l.intercept)),
            ("slope_ms", of(|l| l.slope)),
            ("r2", of(|l| l.r2)),
            ("points", json!(lines[0].points)),
        ],
    ));
    Ok(found)
}

fn points(report: &Report) -> Vec<(f64, f64)> {
    let done = report.requests.iter().filter(|r| r.fate == Fate::Done);
    done.map(|r| (f64::from(r.prompt_tokens), r.ttft.as_secs_f64() * 1e3)).collect()
}

fn mean(lines: &[Line], get: fn(&Line) -> f64) -> f64 {
    lines.iter().map(get).sum::<f64>() / lines.len() as f64
}

fn line_table(lines: &[Line], (intercept, slope): (f64, f64)) -> Table {
    let title = "TTFT = intercept + slope x input tokens";
    let header = ["prompts", "intercept ms", "slope ms/token", "error of the slope", "R2", "N"];
    let mut table = Table::new(title, &header);
    for (seed, line) in (1..).zip(lines) {
        table.row([
            format!("the benchmark's, seed {seed}"),
            format!("{:.2}", line.intercept),
            format!("{:.4}", line.slope),
            format!("{:.4}", line.slope_error),
            format!("{:.4}", line.r2),
            line.points.to_string(),
        ]);
    }
    let even = ["256 to 8,192 tokens, all lengths equally often".to_owned()];
    let values = [format!("{intercept:.2}"), format!("{slope:.4}")];
    let none = ["-", "-", "32"].map(str::to_owned);
    table.row(even.into_iter().chain(values).chain(none));
    table
}

fn line_claims(lines: &[Line], (_, even): (f64, f64)) -> Vec<Claim> {
    let about = |what: &str, published: f64, ours: f64, digits: usize, within: f64| {
        let show = |v: f64| format!("{v:.digits$}");
        let verdict = Verdict::of((ours / published - 1.0).abs() <= within);
        Claim::about(what, "Table 1", show(published), show(ours), verdict)
    };
    let (intercept, slope, r2, samples) = TABLE_1;
    vec![
        about("slope, ms a token (within 5 %)", slope, mean(lines, |l| l.slope), 4, SLOPE_WITHIN),
        about("slope over 256 to 8,192 tokens (within 5 %)", slope, even, 4, SLOPE_WITHIN),
        about("intercept, ms (within a fifth)", intercept, mean(lines, |l| l.intercept), 2, 0.2),
        about("R2 (within 5 %)", r2, mean(lines, |l| l.r2), 4, 0.05),
        about("samples", samples as f64, lines[0].points as f64, 0, 0.0),
    ]
}

/// Tables 2 to 5.
///
/// # Errors
/// If the file is invalid, or a plot can't be drawn.
pub(super) fn tables(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = Plan::new(&context.spec, context.quick)?;
    let grid = cells::simulate(context, &plan)?;
    let mut found = cells::findings(context, &grid)?;
    if context.seeds > 1 {
        found.tables.push(single_runs(&context.spec.published, &grid));
    }
    let (table, claims) = as_measured(context, &plan)?;
    found.tables.push(table);
    found.claims.extend(claims);
    found.tables.push(in_flight());
    Ok(found)
}

/// Each published value with our mean and the range of single runs.
fn single_runs(published: &[Published], grid: &Grid<'_>) -> Table {
    let title = "One run each: the published figure, our mean, and the range over our runs";
    let header = ["system", "metric", "published", "mean", "single runs", "published within"];
    let mut table = Table::new(title, &header);
    let plain = |p: &&Published| p.over.is_empty() && p.minus.is_empty() && p.of.len() == 1;
    for figure in published.iter().filter(plain) {
        let (place, metric) = metric::find(&figure.metric).expect("the plan was checked");
        let of = |w: &(Workload, _)| figure.workloads.contains(&w.0.name);
        let workload = grid.plan.workloads.iter().position(of);
        let cell = workload.and_then(|w| grid.at(w, 0, &figure.of[0]));
        let Some(cell) = cell else { continue };
        let values: Vec<f64> = grid.by_seed(cell, place).into_iter().flatten().collect();
        let (Some(mean), Some(low), Some(high)) = (
            stats::mean(&values),
            values.iter().copied().reduce(f64::min),
            values.iter().copied().reduce(f64::max),
        ) else {
            continue;
        };
        let Ok([value, _]) = figure.value.ends() else { continue };
        let show = |v| claim::number(metric, v);
        let within = (low..=high).contains(&value);
        table.row([
            figure.of[0].clone(),
            figure.metric.clone(),
            show(value),
            show(mean.mean),
            format!("{} to {}", show(low), show(high)),
            if within { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table
}

/// Published TTFT of a system, in ms.
struct Table2To5 {
    system: &'static str,
    /// The workload that corresponds to its benchmark.
    workload: &'static str,
    /// Whether the benchmark used a tunnel.
    tunnel: bool,
    mean: f64,
    p50: f64,
    p99: f64,
}

const fn published(system: &'static str, [mean, p50, p99]: [f64; 3]) -> Table2To5 {
    Table2To5 { system, workload: "wildchat", tunnel: true, mean, p50, p99 }
}

const PUBLISHED_TTFT: [Table2To5; 4] = [
    published("least-load", [2087.36, 568.27, 18114.67]),
    published("prefix-trie", [1455.33, 564.64, 20594.72]),
    published("gorgo", [522.39, 539.00, 1207.45]),
    Table2To5 {
        workload: "at-the-proxy",
        tunnel: false,
        ..published("gorgo-proxy", [253.76, 224.55, 436.22])
    },
];

/// TTFT as measured at the benchmark's machine: plus the round trip from there to the user's site,
/// twice, since each request opens a connection, and plus the missing part of Table 1's intercept.
fn as_measured(context: &Context<'_>, plan: &Plan) -> anyhow::Result<(Table, Vec<Claim>)> {
    let missing = context.knob("missing_intercept_ms")?;
    let title = "As the benchmark saw it: TTFT in ms, means over seeds";
    let header = [
        "system",
        "statistic",
        "published",
        "at the user",
        "with the tunnel",
        "with the intercept",
    ];
    let mut table = Table::new(title, &header);
    let mut medians: Vec<(&str, Vec<Option<f64>>, f64)> = Vec::new();
    for one in &PUBLISHED_TTFT {
        let Some(cell) = plan
            .cells()
            .into_iter()
            .find(|cell| plan.system(*cell) == one.system && plan.workload(*cell) == one.workload)
        else {
            continue;
        };
        let mut seeds = [Vec::new(), Vec::new()];
        for seed in 1..=u64::from(context.seeds) {
            let report = (context.simulate)(build::scenario(plan, cell, seed)?)?;
            let far = |region: u16| match one.tunnel {
                true => 2.0 * plan.regions.rtt_ms[0][usize::from(region)],
                false => 0.0,
            };
            for (place, dists) in seeds.iter_mut().enumerate() {
                let shift = |region| if place == 0 { 0.0 } else { far(region) };
                let done = report.requests.iter().filter(|r| r.fate == Fate::Done);
                let ttft = done.map(|r| r.ttft.as_secs_f64() * 1e3 + shift(r.region)).collect();
                dists.extend(Dist::of(ttft));
            }
        }
        let read = |d: &Dist| [d.mean, d.p(50), d.p(99)];
        let statistics = [("mean", one.mean), ("P50", one.p50), ("P99", one.p99)];
        for (at, (name, published)) in statistics.into_iter().enumerate() {
            let get = |d: &Dist| read(d)[at];
            let [user, tunnel] = seeds.each_ref().map(|dists| {
                stats::mean(&dists.iter().map(get).collect::<Vec<_>>()).map_or(f64::NAN, |m| m.mean)
            });
            let values = [published, user, tunnel, tunnel + missing];
            let row = [one.system.to_owned(), name.to_owned()];
            table.row(row.into_iter().chain(values.map(|v| format!("{v:.0}"))));
        }
        let p50 = seeds[1].iter().map(|d| Some(d.p(50) + missing)).collect();
        medians.push((one.system, p50, one.p50));
    }
    Ok((table, median_claims(&medians)))
}

/// Section 4.5: GORGO-proxy's median against the others'.
fn median_claims(medians: &[(&str, Vec<Option<f64>>, f64)]) -> Vec<Claim> {
    let Some(((_, proxy, published_proxy), others)) = medians.split_last() else {
        return Vec::new();
    };
    let claim = |(system, p50, published): &(&str, Vec<Option<f64>>, f64)| {
        let ours = stats::median(&stats::paired(p50, proxy, |a, b| a / b)).unwrap_or(f64::NAN);
        let what = format!("P50 TTFT, {system} over gorgo-proxy, as the benchmark saw it");
        Claim::ratios(&what, "section 4.5", &[published / published_proxy], &[ours])
    };
    others.iter().map(claim).collect()
}

/// Requests a second and mean request latency in seconds of Tables 2 to 5.
const PUBLISHED_RATES: [(&str, f64, f64); 4] = [
    ("least-load", 1.65, 8.35),
    ("prefix-trie", 1.40, 8.19),
    ("gorgo", 0.93, 7.09),
    ("gorgo-proxy", 2.33, 7.66),
];

/// Consistency of the published figures: by Little's law the requests in flight are the rate times
/// the time of each, and ten were kept in flight.
fn in_flight() -> Table {
    let title = "Published: requests in flight by Little's law, where ten are said to be kept";
    let header = ["system", "requests/s", "request latency s", "in flight", "requests/s with 10"];
    let mut table = Table::new(title, &header);
    for (system, rate, latency) in PUBLISHED_RATES {
        table.row([
            system.to_owned(),
            format!("{rate:.2}"),
            format!("{latency:.2}"),
            format!("{:.1}", rate * latency),
            format!("{:.2}", 10.0 / latency),
        ]);
    }
    table
}
