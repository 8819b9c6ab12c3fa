//! llm-cache-router's benchmark: how TTFT grows with the number of sessions.
//!
//! A run is a fixed amount of work, every session once, and not a window of time: its length is the
//! time until the last answer, and its rate the number of requests divided by that. Everything else
//! is the usual kind of experiment; the published tables are in
//! `data/llm-cache-router/published.csv`.

mod local;

use meridian_base::{Duration, Time};
use meridian_sim::{Report, Scenario};

use super::Context;
use super::Findings;
use super::cells;
use super::claim::{Claim, Verdict};
use super::grid::Grid;
use super::plan::Plan;
use meridian_tools::metric;
use meridian_tools::plot;
use meridian_tools::plot::Figure;
use meridian_tools::plot::Point;
use meridian_tools::stats;
use meridian_tools::stats::Mean;
use meridian_tools::table::Table;

pub(super) use local::run as local;

const CSV: &str = include_str!("../../data/llm-cache-router/published.csv");

/// The session counts at both ends of the headline slope.
const ENDS: (u32, u32) = (4, 24);

/// One line of the published tables.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    model: &'static str,
    sessions: u32,
    strategy: &'static str,
    /// Share of the prompt tokens, 0 to 1.
    kv_cached: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    rps: Option<f64>,
}

fn published() -> Vec<Row> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<f64>().ok();
        Row {
            model: cells[0],
            sessions: cells[1].parse().expect("the file counts sessions"),
            strategy: cells[2],
            kv_cached: number(3).map(|percent| percent / 100.0),
            p50: number(4),
            p95: number(5),
            rps: number(7),
        }
    };
    CSV.lines().skip(1).map(row).collect()
}

/// The experiment.
///
/// # Errors
/// If the file is invalid, or a plot can't be drawn.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let mut plan = Plan::new(&context.spec, context.quick)?;
    // The local run is on real servers only.
    plan.fleets.retain(|fleet| fleet.name != local::FLEET);
    plan.workloads.retain(|(workload, _)| workload.name != local::WORKLOAD);
    let whole = |scenario: Scenario| (context.simulate)(scenario).map(until_the_end);
    let Context { seeds, quick, runs, progress, .. } = *context;
    let spec = context.spec.clone();
    let whole = Context {
        spec,
        seeds,
        quick,
        commit: None,
        servers: None,
        runs,
        simulate: &whole,
        progress,
    };
    let grid = cells::simulate(&whole, &plan)?;
    let mut found = cells::findings(&whole, &grid)?;
    let published = published();
    let at = Points { grid: &grid };
    for (model, _) in models(&grid) {
        found.tables.insert(0, beside(&at, model, &published));
    }
    let slopes = slopes(&at, &published);
    found.tables.insert(0, slopes.0);
    found.claims.extend(slopes.1);
    found.claims.extend(comparisons(&at, &published));
    for (model, _) in models(&grid) {
        found.figures.insert(0, over_sessions(&at, model)?);
    }
    Ok(found)
}

/// A report whose window is the time of its work.
fn until_the_end(mut report: Report) -> Report {
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

fn models<'a>(grid: &Grid<'a>) -> impl Iterator<Item = (&'a str, usize)> {
    grid.plan.fleets.iter().enumerate().map(|(i, fleet)| (fleet.name.as_str(), i)).rev()
}

/// Cells by model, sessions and system.
struct Points<'a> {
    grid: &'a Grid<'a>,
}

impl Points<'_> {
    fn cell(&self, model: &str, sessions: u32, system: &str) -> Option<usize> {
        let plan = self.grid.plan;
        let name = format!("sessions-{sessions}");
        let workload = plan.workloads.iter().position(|(w, _)| w.name == name)?;
        let fleet = plan.fleets.iter().position(|f| f.name == model)?;
        self.grid.at(workload, fleet, system)
    }

    /// A metric by seed.
    fn seeds(&self, model: &str, sessions: u32, system: &str, name: &str) -> Vec<Option<f64>> {
        let place = metric::find(name).map(|(place, _)| place);
        let cell = self.cell(model, sessions, system);
        place.zip(cell).map(|(place, cell)| self.grid.by_seed(cell, place)).unwrap_or_default()
    }

    fn mean(&self, model: &str, sessions: u32, system: &str, name: &str) -> Option<Mean> {
        let values: Vec<f64> =
            self.seeds(model, sessions, system, name).into_iter().flatten().collect();
        stats::mean(&values)
    }

    /// Median over seeds of how `a` compares with `b`, both a (sessions, system) of a model.
    fn compare(
        &self,
        model: &str,
        [a, b]: [(u32, &str); 2],
        name: &str,
        how: fn(f64, f64) -> f64,
    ) -> Vec<f64> {
        let of = |(sessions, system): (u32, &str)| self.seeds(model, sessions, system, name);
        stats::paired(&of(a), &of(b), how)
    }

    fn systems(&self) -> impl Iterator<Item = &str> {
        self.grid.plan.systems.iter().map(|(s, ..)| s.name.as_str())
    }
}

fn find<'a>(rows: &'a [Row], model: &str, sessions: u32, strategy: &str) -> Option<&'a Row> {
    rows.iter().find(|r| r.model == model && r.sessions == sessions && r.strategy == strategy)
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |v| format!("{v:.digits$}"))
}

fn interval(mean: Option<Mean>, digits: usize) -> String {
    mean.map_or("-".to_owned(), |m| {
        format!("{:.digits$} ({:.digits$}-{:.digits$})", m.mean, m.low, m.high)
    })
}

/// The published tables of a model, compared with ours.
fn beside(at: &Points<'_>, model: &str, rows: &[Row]) -> Table {
    let title = format!("{model}: published | ours, mean over seeds with interval");
    let header = [
        "sessions",
        "system",
        "P50 ms",
        "ours",
        "P95 ms",
        "ours",
        "cached %",
        "ours",
        "requests/s",
        "ours",
    ];
    let mut table = Table::new(title, &header);
    let mut sessions: Vec<u32> = rows.iter().map(|r| r.sessions).collect();
    sessions.sort_unstable();
    sessions.dedup();
    for n in sessions {
        for system in at.systems().filter(|s| at.cell(model, n, s).is_some()) {
            let row = find(rows, model, n, system);
            let ours = |name, scale: f64, digits| {
                let mean = at.mean(model, n, system, name);
                let scaled = |m: Mean| Mean {
                    mean: m.mean * scale,
                    low: m.low * scale,
                    high: m.high * scale,
                };
                interval(mean.map(scaled), digits)
            };
            table.row([
                n.to_string(),
                system.to_owned(),
                shown(row.and_then(|r| r.p50), 0),
                ours("ttft_ms.p50", 1.0, 0),
                shown(row.and_then(|r| r.p95), 0),
                ours("ttft_ms.p95", 1.0, 0),
                shown(row.and_then(|r| r.kv_cached).map(|v| v * 100.0), 1),
                ours("prefix_hit_ratio", 100.0, 1),
                shown(row.and_then(|r| r.rps), 1),
                ours("throughput_rps", 1.0, 1),
            ]);
        }
    }
    table
}

/// The headline: the growth of P50 from 4 sessions to 24.
fn slopes(at: &Points<'_>, rows: &[Row]) -> (Table, Vec<Claim>) {
    let title = "Growth of P50 TTFT from 4 sessions to 24, ms";
    let header = ["model", "system", "published", "ours", "published ratio", "our ratio"];
    let (mut table, mut claims) = (Table::new(title, &header), Vec::new());
    let (from, to) = ENDS;
    for (model, _) in models(at.grid).collect::<Vec<_>>().into_iter().rev() {
        for system in at.systems() {
            let ends = [(to, system), (from, system)];
            let ours = stats::mean(&at.compare(model, ends, "ttft_ms.p50", |a, b| a - b));
            let ratio = stats::mean(&at.compare(model, ends, "ttft_ms.p50", |a, b| a / b));
            let p50 = |n| find(rows, model, n, system).and_then(|r| r.p50);
            let known = p50(to).zip(p50(from));
            table.row([
                model.to_owned(),
                system.to_owned(),
                known.map_or("-".to_owned(), |(b, a)| format!("{:+.0} ({a:.0} to {b:.0})", b - a)),
                interval(ours, 1),
                known.map_or("-".to_owned(), |(b, a)| format!("{:.2}", b / a)),
                shown(ratio.map(|m| m.mean), 2),
            ]);
        }
        claims.extend(gentlest(at, model, rows));
    }
    (table, claims)
}

/// By how much prefix-aware's slope is below each other's.
fn gentlest(at: &Points<'_>, model: &str, rows: &[Row]) -> Vec<Claim> {
    let (from, to) = ENDS;
    let ours = |system: &str| {
        let ends = [(to, system), (from, system)];
        stats::median(&at.compare(model, ends, "ttft_ms.p50", |a, b| a - b))
    };
    let known = |system: &str| {
        let p50 = |n| find(rows, model, n, system).and_then(|r| r.p50);
        Some(p50(to)? - p50(from)?)
    };
    let against = ["random", "round_robin", "least_outstanding"].into_iter();
    let claim = |system: &'static str| {
        let (published, published_pa) = (known(system)?, known("prefix_aware")?);
        let (mine, mine_pa) = (ours(system)?, ours("prefix_aware")?);
        let what = format!("growth of P50 from 4 to 24 sessions, {system} / prefix_aware, {model}");
        let show = |a: f64, b: f64| format!("{a:+.0} / {b:+.0} ms");
        let (theirs, own) = (show(published, published_pa), show(mine, mine_pa));
        let verdict = Verdict::of_difference([published - published_pa; 2], mine - mine_pa);
        Some(Claim::about(&what, "README, headline", theirs, own, verdict))
    };
    against.filter_map(claim).collect()
}

/// A comparison published for prefix-aware, at a number of sessions.
struct Compared {
    what: &'static str,
    metric: &'static str,
    over: &'static str,
    of: fn(&Row) -> Option<f64>,
}

const COMPARED: [Compared; 4] = [
    Compared { what: "P50 TTFT", metric: "ttft_ms.p50", over: "least_outstanding", of: |r| r.p50 },
    Compared { what: "P50 TTFT", metric: "ttft_ms.p50", over: "random", of: |r| r.p50 },
    Compared {
        what: "requests/s",
        metric: "throughput_rps",
        over: "least_outstanding",
        of: |r| r.rps,
    },
    Compared {
        what: "cached share",
        metric: "prefix_hit_ratio",
        over: "round_robin",
        of: |r| r.kv_cached,
    },
];

fn comparisons(at: &Points<'_>, rows: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let points = rows.iter().filter(|r| r.strategy == "prefix_aware");
    for (row, compared) in points.flat_map(|row| COMPARED.iter().map(move |c| (row, c))) {
        let other = find(rows, row.model, row.sessions, compared.over).and_then(compared.of);
        let Some(published) = (compared.of)(row).zip(other).map(|(a, b)| a / b) else { continue };
        let pair = [(row.sessions, "prefix_aware"), (row.sessions, compared.over)];
        let ratios = at.compare(row.model, pair, compared.metric, |a, b| a / b);
        let Some(ours) = stats::median(&ratios) else { continue };
        let what = format!(
            "{}, prefix_aware over {}, {} sessions, {}",
            compared.what, compared.over, row.sessions, row.model
        );
        claims.push(Claim::ratios(&what, "docs/results-cloud.md", &[published], &[ours]));
    }
    claims
}

/// P50 TTFT over sessions, as the project's own chart shows it.
fn over_sessions(at: &Points<'_>, model: &str) -> anyhow::Result<Figure> {
    let sessions = [4, 8, 12, 16, 24];
    let line = |system: &str| {
        let point = |n: &u32| {
            let m = at.mean(model, *n, system, "ttft_ms.p50")?;
            Some(Point { x: f64::from(*n), mean: m.mean, low: m.low, high: m.high })
        };
        (system.to_owned(), sessions.iter().filter_map(point).collect())
    };
    let lines: Vec<plot::Line> = at.systems().map(line).collect();
    let title = format!("P50 TTFT over sessions ({model}, simulated)");
    let svg = plot::lines(&title, ["sessions", "P50 TTFT, ms"], &lines, false)?;
    Ok(Figure::new(&["p50", "sessions", model], title, svg))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The published tables are complete: five points of four strategies for both models and the
    // local run, and the README's headline slopes follow from them.
    #[test]
    fn the_published_tables_are_whole() {
        let rows = published();
        assert_eq!(rows.len(), 44);
        let slope = |model, strategy| {
            let p50 = |n| find(&rows, model, n, strategy).and_then(|r| r.p50).unwrap();
            p50(24) - p50(4)
        };
        assert_eq!(slope("qwen2.5-7b", "prefix_aware"), 16.0);
        assert_eq!(slope("qwen2.5-14b", "prefix_aware"), 25.0);
        assert_eq!(slope("qwen2.5-14b", "random"), 98.0);
    }
}
