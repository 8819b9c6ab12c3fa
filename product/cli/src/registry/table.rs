//! Tables without lines, for operators and for `cut`.

use std::io::Write as _;

use comfy_table::{Table, presets};

/// Prints rows under their heads, or `none` if there are no rows.
pub(crate) fn print(heads: &[&str], rows: Vec<Vec<String>>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if rows.is_empty() {
        return writeln!(out, "none");
    }
    let is_even = rows.iter().all(|row| row.len() == heads.len());
    assert!(is_even, "each row has a cell under each head");
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heads);
    table.add_rows(rows);
    for line in table.to_string().lines() {
        writeln!(out, "{}", line.trim())?;
    }
    Ok(())
}
