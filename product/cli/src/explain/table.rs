//! Tables of at most 100 columns.
//!
//! A table that is too wide loses spare columns first, then the middle of long names, then the last
//! terms.

use comfy_table::{CellAlignment, Table, presets};

use super::words::cut;

/// Longest line.
pub(super) const COLUMNS: usize = 100;
/// The shortest form of a name.
const SHORTEST: usize = 12;

/// What becomes of a column if the table is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It stays.
    Always,
    /// Its cells are cut.
    Name,
    /// It is left out if cutting names is not enough, the last one first.
    Term,
    /// It is left out before names are cut, the last one first.
    Spare,
}

/// A column of a table.
pub(super) struct Column {
    pub(super) head: String,
    pub(super) cells: Vec<String>,
    pub(super) need: Need,
    /// Aligned to the right.
    pub(super) number: bool,
}

impl Column {
    pub(super) fn text(head: &str, need: Need, cells: Vec<String>) -> Column {
        Column { head: head.to_owned(), cells, need, number: false }
    }

    pub(super) fn number(head: &str, need: Need, cells: Vec<String>) -> Column {
        Column { head: head.to_owned(), cells, need, number: true }
    }

    fn width(&self) -> usize {
        self.cell_width().max(self.head.chars().count())
    }

    /// The width without the head, which is never cut.
    fn cell_width(&self) -> usize {
        self.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

/// The table, and the heads of terms for which it has no room. Columns without any text are left
/// out.
pub(super) fn text(mut columns: Vec<Column>) -> (String, Vec<String>) {
    columns.retain(|column| column.width() > 0);
    let left_out = fit(&mut columns);
    let gap = if width(&columns, 2) <= COLUMNS { 2 } else { 1 };
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(columns.iter().map(|column| &column.head));
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let is_even = columns.iter().all(|column| column.cells.len() == rows);
    assert!(is_even, "each column of a table has a cell in each row");
    table.add_rows((0..rows).map(|row| columns.iter().map(move |column| &column.cells[row])));
    for (shown, column) in table.column_iter_mut().zip(&columns) {
        shown.set_padding((0, gap));
        if column.number {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.to_string();
    (lines.lines().map(|line| format!("{}\n", line.trim_end())).collect(), left_out)
}

/// The width of a table with this many spaces between columns.
fn width(columns: &[Column], gap: u16) -> usize {
    let text: usize = columns.iter().map(Column::width).sum();
    text + usize::from(gap) * columns.len().saturating_sub(1)
}

/// Makes a table fit, and returns the heads of the terms that it leaves out.
fn fit(columns: &mut Vec<Column>) -> Vec<String> {
    let mut left_out = Vec::new();
    loop {
        let excess = width(columns, 1).saturating_sub(COLUMNS);
        let last = |need| columns.iter().rposition(|column: &Column| column.need == need);
        let names = columns.iter().filter(|column| column.need == Need::Name);
        let widest = names.map(Column::cell_width).max().unwrap_or(0);
        if excess == 0 {
            break;
        } else if let Some(spare) = last(Need::Spare) {
            columns.remove(spare);
        } else if widest > SHORTEST {
            let most = widest.saturating_sub(excess).max(SHORTEST);
            assert!(most < widest, "each step makes the table narrower");
            let is_widest =
                |column: &&mut Column| column.need == Need::Name && column.cell_width() == widest;
            if let Some(column) = columns.iter_mut().find(is_widest) {
                column.cells.iter_mut().for_each(|cell| *cell = cut(cell, most));
            }
        } else if let Some(term) = last(Need::Term) {
            left_out.push(columns.remove(term).head);
        } else {
            break;
        }
    }
    left_out.reverse();
    left_out
}

/// Breaks a line between words to fit [`COLUMNS`]; further lines start with `indent`.
pub(super) fn wrapped(line: &str, indent: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if width > indent.len() && width + length > COLUMNS {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.push_str(indent);
            width = indent.len();
        }
        text.push_str(word);
        width += word.chars().count();
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // Defect small-overflows: a name's column whose head is longer than a name is cut to is not cut
    // without end; the table ends, as narrow as it gets.
    #[test]
    fn a_long_head_ends() {
        let head = "h".repeat(2 * COLUMNS);
        let cells = vec!["c".repeat(50)];
        let mut columns = vec![Column::text(&head, Need::Name, cells)];
        assert_eq!(fit(&mut columns), Vec::<String>::new());
        assert_eq!(columns[0].cell_width(), SHORTEST);
    }
}
