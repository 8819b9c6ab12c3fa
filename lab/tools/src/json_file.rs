//! The results of a measurement, as a file.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// Writes the results as JSON, into a folder that is there.
///
/// # Errors
/// When the file can't be written.
pub fn write(results: &impl Serialize, path: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(results)?;
    std::fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))
}
