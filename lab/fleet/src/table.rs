//! The two forms of a table in a terminal.

use comfy_table::{CellAlignment, LineStyle, Table, presets};

/// A table without lines, whose figures are aligned: a state, which a next one may replace.
#[must_use]
pub fn table(header: &[&str]) -> Table {
    of(presets::NOTHING, header)
}

/// A table with a line below its header, whose figures are aligned: results.
#[must_use]
pub fn lined(header: &[&str]) -> Table {
    of(presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─')), header)
}

fn of(style: comfy_table::TableStyle, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    // Defect command-line: a table of results has one line, below its header, and none between its rows.
    #[test]
    fn one_line() {
        let mut drawn = lined(&["who", "rps"]);
        drawn.add_rows([["a", "1"], ["b", "2"], ["c", "3"]]);
        let lines = drawn.to_string().lines().filter(|line| line.contains('─')).count();
        assert_eq!((lines, drawn.to_string().lines().count()), (1, 5), "{drawn}");
    }
}
