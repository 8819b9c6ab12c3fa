//! llm-cache-router's run on one machine, on real llama.cpp servers.
//!
//! Three servers with four slots each, and six sessions of three turns behind a system prompt of
//! 2 KB. The model is tiny and random, and the servers share this machine's cores, so only ratios
//! between systems compare with the published ones.

use super::super::Context;
use super::super::Findings;
use super::super::claim::Claim;
use super::super::live;
use super::{Points, Row, beside, find, published, until_the_end};
use meridian_tools::plot;
use meridian_tools::plot::Figure;
use meridian_tools::plot::Point;
use meridian_tools::stats;

/// The fleet, in the experiment's file and in the published table.
pub(super) const FLEET: &str = "llama.cpp";
/// The workload, and its sessions.
pub(super) const WORKLOAD: &str = "sessions-6";
const SESSIONS: u32 = 6;
/// Their policy, with its default bound.
const THEIRS: &str = "prefix_aware-8";

/// Runs it on real servers, and in the simulator with their step times.
///
/// # Errors
/// If the file is invalid, llama.cpp can't be installed, or a process misbehaves.
pub(in super::super) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    live::shaped(context, until_the_end, |grid, found| {
        let (at, rows) = (Points { grid }, published());
        found.tables.insert(0, beside(&at, FLEET, &rows));
        found.claims = claims(&at, &rows);
        found.figures = vec![figure(&at)?];
        Ok(())
    })
}

/// A published column, and our metric for it.
struct Column {
    what: &'static str,
    metric: &'static str,
    of: fn(&Row) -> Option<f64>,
}

const COLUMNS: [Column; 4] = [
    Column { what: "cached share", metric: "prefix_hit_ratio", of: |r| r.kv_cached },
    Column { what: "P50 TTFT", metric: "ttft_ms.p50", of: |r| r.p50 },
    Column { what: "P95 TTFT", metric: "ttft_ms.p95", of: |r| r.p95 },
    Column { what: "requests/s", metric: "throughput_rps", of: |r| r.rps },
];

/// Every column of prefix-aware over each other system's.
fn claims(at: &Points<'_>, rows: &[Row]) -> Vec<Claim> {
    let others = ["round_robin", "random", "least_outstanding"];
    let claim = |column: &Column, other: &str| {
        let value = |system| find(rows, FLEET, SESSIONS, system).and_then(column.of);
        let published = value(THEIRS)? / value(other)?;
        let pair = [(SESSIONS, THEIRS), (SESSIONS, other)];
        let ours = stats::median(&at.compare(FLEET, pair, column.metric, |a, b| a / b))?;
        let what = format!("{}, prefix_aware over {other}, local run", column.what);
        Some(Claim::ratios(&what, "README, local run", &[published], &[ours]))
    };
    COLUMNS.iter().flat_map(|c| others.iter().filter_map(move |other| claim(c, other))).collect()
}

/// P95 TTFT of each system.
fn figure(at: &Points<'_>) -> anyhow::Result<Figure> {
    let bar = |system: &str| {
        let mean = at.mean(FLEET, SESSIONS, system, "ttft_ms.p95")?;
        let point = Point { x: 0.0, mean: mean.mean, low: mean.low, high: mean.high };
        Some((system.to_owned(), point))
    };
    let bars: Vec<_> = at.systems().filter_map(bar).collect();
    let title = "P95 TTFT on three llama.cpp servers".to_owned();
    let svg = plot::bars(&title, "P95 TTFT, ms", &bars)?;
    Ok(Figure::new(&["p95", "local"], title, svg))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The published local table is whole: by it, prefix-aware has 1.2 to 1.3 times the hits of the
    // others, and less than half of their P95.
    #[test]
    fn the_local_table_is_whole() {
        let rows = published();
        let row = |system| find(&rows, FLEET, SESSIONS, system).expect("a row");
        for other in ["round_robin", "random", "least_outstanding"] {
            let ratio =
                |of: fn(&Row) -> Option<f64>| of(row(THEIRS)).unwrap() / of(row(other)).unwrap();
            assert!((1.2..1.31).contains(&ratio(|r| r.kv_cached)), "{other}");
            assert!((0.44..0.47).contains(&ratio(|r| r.p95)), "{other}");
        }
    }
}
