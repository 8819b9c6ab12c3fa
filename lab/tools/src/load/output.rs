//! The report of a run as files: JSON with its requests, a row of CSV, plots.

use super::report::{Quantiles, Report};
use super::{ErrorKind, Record};
use crate::dist::Dist;
use crate::plot::Point;
use crate::table::Table;
use crate::{plot, stats};

/// Points of a plot over time.
const SLICES: usize = 40;

/// The whole report as JSON, its requests one a line.
///
/// # Errors
/// Never for reports that this program made.
pub fn json(report: &Report) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    let lines: Result<Vec<_>, _> = report.requests.iter().map(serde_json::to_string).collect();
    text.truncate(text.trim_end_matches(['}', '\n']).len());
    text.push_str(",\n  \"requests\": [\n");
    text.push_str(&lines?.join(",\n"));
    text.push_str("\n  ]\n}\n");
    Ok(text)
}

/// A header and one row, to be joined with those of other runs.
#[must_use]
pub fn csv(report: &Report) -> String {
    let Some(row) = report.rows.first() else { return String::new() };
    let counts = &report.counts;
    let number = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.3}"));
    let mut cells = vec![
        ("system", row.system.clone()),
        ("workload", row.workload.clone()),
        ("model", report.model.clone()),
        ("window_s", format!("{:.3}", report.window_s)),
        ("sent", counts.sent.to_string()),
        ("ok", counts.ok.to_string()),
        ("aborted", counts.aborted.to_string()),
        ("throughput_rps", number(row.throughput_rps)),
        ("output_tps", number(row.output_tps)),
        ("goodput_rps", number(row.goodput_rps)),
        ("slo_attainment", number(row.slo_attainment)),
        ("prefix_hit_ratio", number(row.prefix_hit_ratio)),
    ];
    let times = [
        (["ttft_ms_mean", "ttft_ms_p50", "ttft_ms_p90", "ttft_ms_p95", "ttft_ms_p99"], row.ttft_ms),
        (["tpot_ms_mean", "tpot_ms_p50", "tpot_ms_p90", "tpot_ms_p95", "tpot_ms_p99"], row.tpot_ms),
        (["e2e_ms_mean", "e2e_ms_p50", "e2e_ms_p90", "e2e_ms_p95", "e2e_ms_p99"], row.e2e_ms),
    ];
    for (names, of) in times {
        let all = |q: Quantiles| [q.mean, q.p50, q.p90, q.p95, q.p99].map(Some);
        cells.extend(names.into_iter().zip(of.map_or([None; 5], all).map(number)));
    }
    cells.extend(ErrorKind::ALL.map(|kind| (kind.name(), report.errors_of(kind).to_string())));
    let header: Vec<&str> = cells.iter().map(|(name, _)| *name).collect();
    let mut table = Table::new("", &header);
    table.row(cells.into_iter().map(|(_, cell)| cell));
    table.csv()
}

/// Distributions of TTFT, TPOT and whole requests, and TTFT over the run.
///
/// # Errors
/// Those of the plotting library.
pub fn svg(report: &Report) -> anyhow::Result<String> {
    let title = |what: &str| {
        let row = report.rows.first();
        let (system, workload) = row.map_or(("", ""), |row| (&*row.system, &*row.workload));
        format!("{what} ({workload} at {system}, {} requests)", report.requests.len())
    };
    let whole = || report.requests.iter().filter(|record| record.error.is_none());
    let dist = |name: &str, of: &dyn Fn(&Record) -> Option<f64>| {
        Some((name.to_owned(), Dist::of(whole().filter_map(of).collect())?))
    };
    let times = [dist("TTFT", &|r| r.ttft_ms), dist("E2E", &|r| Some(r.e2e_ms))];
    let times: Vec<_> = times.into_iter().flatten().collect();
    let tpot: Vec<_> = dist("TPOT", &Record::tpot_ms).into_iter().collect();
    let over_time = over_time(&report.requests);
    plot::stack(&[
        plot::cdf(&title("Times"), "ms", &times, true)?,
        plot::cdf(&title("Time per token after the first"), "ms", &tpot, false)?,
        plot::timeline(&title("TTFT over the run"), "TTFT, ms", &over_time)?,
    ])
}

/// The median and the 99th percentile of TTFT in slices of the run, by the time of sending.
fn over_time(requests: &[Record]) -> Vec<plot::Line> {
    let end = requests.last().map_or(0.0, |record| record.sent_ms);
    let start = requests.first().map_or(0.0, |record| record.sent_ms);
    let width = (end - start).max(1.0) / SLICES as f64;
    let mut slices = vec![Vec::new(); SLICES];
    for record in requests {
        let at = ((record.sent_ms - start) / width) as usize;
        slices[at.min(SLICES - 1)].extend(record.ttft_ms);
    }
    let line = |share: f64| -> Vec<Point> {
        let point = |(at, slice): (usize, &Vec<f64>)| {
            let mean = stats::quantile(slice, share)?;
            let x = (start + (at as f64 + 0.5) * width) / 1e3;
            Some(Point { x, mean, low: mean, high: mean })
        };
        slices.iter().enumerate().filter_map(point).collect()
    };
    vec![("p50".to_owned(), line(0.5)), ("p99".to_owned(), line(0.99))]
}
