//! The report as text, in at most 100 columns.

mod measured;
mod verdict;

use super::report::Report;

#[cfg(test)]
mod tests;

/// The whole report.
pub(super) fn text(report: &Report) -> String {
    let parts = [
        measured::cards(report),
        measured::engines(report),
        measured::gateways(report),
        verdict::gains(report),
        verdict::advice(report),
        verdict::limits(report),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// A table without lines; columns after the first are numbers.
fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = meridian_fleet::table(heads);
    table.add_rows(rows);
    let text = table.to_string();
    text.lines().map(|line| format!(" {}\n", line.trim_end())).collect()
}

/// A number, or a dash.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}
