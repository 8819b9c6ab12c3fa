//! Tables without lines, for operators and for `cut`.

use std::io::Write as _;

use comfy_table::{Table, presets};
use meridian_protocol::intervals::History;

/// The form of a list.
#[derive(clap::Args)]
pub(crate) struct ListForm {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ListForm {
    /// Prints `value` as JSON if that was asked for, else the rows.
    pub(crate) fn print(
        &self,
        value: &impl serde::Serialize,
        heads: &[&str],
        rows: impl FnOnce() -> Vec<Vec<String>>,
    ) -> anyhow::Result<()> {
        match self.json {
            true => writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(value)?)?,
            false => print(heads, rows())?,
        }
        Ok(())
    }

    /// Prints intervals, oldest first under each name.
    pub(crate) fn intervals(&self, all: &[History], now_ms: u64) -> anyhow::Result<()> {
        match self.json {
            true => writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(all)?)?,
            false => crate::intervals::print(&all.iter().collect::<Vec<_>>(), now_ms)?,
        }
        Ok(())
    }
}

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
