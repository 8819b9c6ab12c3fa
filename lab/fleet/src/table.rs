//! The two forms of a table in a terminal.

use comfy_table::{CellAlignment, Table, presets};

/// A table without lines, whose figures are aligned: a state, which a next one may replace.
#[must_use]
pub fn table(header: &[&str]) -> Table {
    of(presets::NOTHING, header)
}

/// A table with horizontal lines, whose figures are aligned: results.
#[must_use]
pub fn lined(header: &[&str]) -> Table {
    of(presets::UTF8_HORIZONTAL_ONLY, header)
}

fn of(style: comfy_table::TableStyle, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
