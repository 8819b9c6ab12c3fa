//! The report as text, in at most 100 columns.

mod measured;
mod verdict;

use comfy_table::{CellAlignment, Table, presets};

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
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heads);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text = table.to_string();
    text.lines().map(|line| format!(" {}\n", line.trim_end())).collect()
}

/// A number, or a dash.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}
