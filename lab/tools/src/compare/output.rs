//! A comparison as a table, CSV, JSON and plots.

use super::{Comparison, Estimate, Row, Verdict};
use crate::dist::Dist;
use crate::plot;
use crate::plot::Point;
use crate::table::Table;

/// The comparison as text.
#[must_use]
pub fn render(of: &Comparison) -> String {
    let [a, b] = &of.names;
    let sides = format!(
        "A: {a} ({}), B: {b} ({})",
        size(of.runs[0], of.requests[0]),
        size(of.runs[1], of.requests[1])
    );
    let header = ["", "A", "B", "B - A", "95 % of it", "B / A", "95 % of it", "B is"];
    let mut table = Table::new(sides, &header);
    for row in &of.rows {
        let (difference, ratio) = (row.difference, row.ratio);
        table.row([
            format!("{}, {}", row.metric, row.unit),
            format!("{:.2}", row.a),
            format!("{:.2}", row.b),
            format!("{:+.2}", difference.value),
            format!("{:+.2} to {:+.2}", difference.low, difference.high),
            ratio.map_or("-".into(), |r| format!("{:.3}", r.value)),
            ratio.map_or("-".into(), |r| format!("{:.3} to {:.3}", r.low, r.high)),
            verdict(row).to_owned(),
        ]);
    }
    let single = of.runs.contains(&1);
    let note = "One run of a side does not show how runs differ: for small differences, give \
                several runs of each side, separated by commas.";
    table.text() + if single { note } else { "" }
}

fn size(runs: usize, requests: usize) -> String {
    match runs {
        1 => format!("{requests} requests"),
        runs => format!("{runs} runs, {requests} requests"),
    }
}

fn verdict(row: &Row) -> &'static str {
    match row.verdict {
        Verdict::Level => "level",
        Verdict::Better => "better",
        Verdict::Worse => "worse",
    }
}

/// A row for each metric.
#[must_use]
pub fn csv(of: &Comparison) -> String {
    let header = [
        "metric",
        "unit",
        "a",
        "b",
        "difference",
        "difference_low",
        "difference_high",
        "ratio",
        "ratio_low",
        "ratio_high",
        "verdict",
    ];
    let mut table = Table::new("", &header);
    for row in &of.rows {
        let Estimate { value, low, high } = row.difference;
        let mut cells = vec![row.metric.to_owned(), row.unit.to_owned()];
        cells.extend([row.a, row.b, value, low, high].map(|v| format!("{v:.4}")));
        let ratio = row.ratio.map(|r| [r.value, r.low, r.high].map(|v| format!("{v:.5}")));
        cells.extend(ratio.unwrap_or_default());
        cells.push(verdict(row).to_owned());
        table.row(cells);
    }
    table.csv()
}

/// The comparison as JSON.
///
/// # Errors
/// Never: all its numbers are finite.
pub fn json(of: &Comparison) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(of)? + "\n")
}

/// The ratios with their intervals, and the distributions of both sides.
///
/// # Errors
/// Those of the plotting library.
pub fn svg(of: &Comparison) -> anyhow::Result<String> {
    let bar = |row: &Row| {
        let Estimate { value, low, high } = row.ratio?;
        Some((row.metric.to_owned(), Point { x: 0.0, mean: value, low, high }))
    };
    let bars: Vec<_> = of.rows.iter().filter_map(bar).collect();
    let [a, b] = &of.names;
    let title = format!("{b} over {a}, with 95 % intervals");
    let samples = of.sides.each_ref().map(super::Side::whole);
    let cdf = |title: &str, time: fn(&super::draw::Request) -> Option<f64>| {
        let sides = of.names.iter().zip(&samples).filter_map(|(name, sample)| {
            let values = sample.requests.iter().filter_map(time).collect();
            Some((name.clone(), Dist::of(values)?))
        });
        plot::cdf(title, "ms", &sides.collect::<Vec<_>>(), true)
    };
    plot::stack(&[
        plot::bars(&title, "ratio", &bars)?,
        cdf("TTFT", |r| r.ttft)?,
        cdf("Whole requests", |r| r.e2e)?,
    ])
}
