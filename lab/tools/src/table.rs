//! A table of text, for the terminal, for Markdown and for golden files.

use comfy_table::CellAlignment;
use meridian_fleet::lined;

/// A table with its title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(title: impl Into<String>, header: &[&str]) -> Table {
        let header = header.iter().map(|h| (*h).to_owned()).collect();
        Table { title: title.into(), header, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let header: Vec<&str> = self.header.iter().map(String::as_str).collect();
        let mut drawn = lined(&header);
        drawn.add_rows(self.rows.clone());
        for (i, column) in drawn.column_iter_mut().enumerate() {
            if !self.is_number(i) {
                column.set_cell_alignment(CellAlignment::Left);
            }
        }
        format!("{}\n{}\n", self.title, drawn.trim_fmt())
    }

    /// For a page.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<_> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule: Vec<_> = (0..self.header.len())
            .map(|i| if self.is_number(i) { "---:" } else { "---" }.to_owned())
            .collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("**{}**\n\n{}{}{rows}", self.title, line(&self.header), line(&rule))
    }

    /// For a spreadsheet: the header and the rows as CSV (RFC 4180).
    #[must_use]
    pub fn csv(&self) -> String {
        let cell = |cell: &String| match cell.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.clone(),
        };
        let line =
            |cells: &Vec<String>| cells.iter().map(cell).collect::<Vec<_>>().join(",") + "\n";
        [&self.header].into_iter().chain(&self.rows).map(line).collect()
    }

    /// Columns of numbers are aligned to the right.
    fn is_number(&self, column: usize) -> bool {
        let numeric = |cell: &String| {
            cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit() || "-+<".contains(c))
        };
        column > 0 && self.rows.iter().filter_map(|row| row.get(column)).all(numeric)
    }
}

#[cfg(test)]
mod tests {
    use crate::table::*;

    // Words to the left, numbers to the right, bars escaped in Markdown.
    #[test]
    fn markdown_aligns_numbers() {
        let mut t = Table::new("Speed", &["who", "rps", "note"]);
        t.row(["a|b".to_owned(), "1.5".to_owned(), "fine".to_owned()]);
        let lines = t.markdown();
        assert_eq!(
            lines,
            "**Speed**\n\n| who | rps | note |\n| --- | ---: | --- |\n| a\\|b | 1.5 | fine |\n"
        );
        assert!(t.text().starts_with("Speed\n"));
    }

    // Cells with commas and quotes are quoted.
    #[test]
    fn csv_quotes() {
        let mut t = Table::new("Speed", &["who", "rps"]);
        t.row(["a, \"b\"".to_owned(), "1.5".to_owned()]);
        assert_eq!(t.csv(), "who,rps\n\"a, \"\"b\"\"\",1.5\n");
    }
}
