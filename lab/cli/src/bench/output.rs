//! The files of a report, and its table.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use meridian_tools::outputs;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Files {
    /// Write the report to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the figures to this file, for a spreadsheet
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Write plots to this file
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// The forms of a report.
pub(super) struct Forms<'a> {
    pub(super) json: &'a dyn Fn() -> anyhow::Result<String>,
    pub(super) csv: &'a dyn Fn() -> String,
    pub(super) svg: &'a dyn Fn() -> anyhow::Result<String>,
}

impl Files {
    /// Fails if a file can't be written.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        outputs::check([("--json", &self.json), ("--csv", &self.csv), ("--svg", &self.svg)])
    }

    /// Writes the files that were asked for.
    pub(super) fn write(&self, forms: &Forms<'_>) -> anyhow::Result<()> {
        if let Some(file) = &self.json {
            write(file, &(forms.json)()?)?;
        }
        if let Some(file) = &self.csv {
            write(file, &(forms.csv)())?;
        }
        if let Some(file) = &self.svg {
            write(file, &(forms.svg)()?)?;
        }
        Ok(())
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Prints a table. The reader may have closed the pipe; the files are still written.
pub(super) fn print(text: &str) {
    writeln!(std::io::stdout(), "{text}").ok();
}
