//! Output files, checked before the work that they are for: better before a long run than after it;
//! and the results of a measurement as JSON.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::Serialize;

/// Fails if one of the files can't be written, as far as that can be known without writing it; each
/// with its option.
///
/// # Errors
/// A folder in place of a file, a file that refuses writing, or a missing folder.
pub fn check<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a Option<PathBuf>)>,
) -> anyhow::Result<()> {
    for (option, file) in files {
        if let Some(file) = file {
            one(option, file)?;
        }
    }
    Ok(())
}

/// Makes the folder of an output file, and checks the file.
///
/// # Errors
/// A folder that can't be made, a folder in place of the file, and a file that refuses writing.
pub fn prepare(option: &str, file: &Path) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{option} {}: cannot make its folder", file.display()))?;
    }
    one(option, file)
}

/// Writes the results as JSON, into a folder that is there.
///
/// # Errors
/// When the file can't be written.
pub fn write_json(results: &impl Serialize, file: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(results)?;
    std::fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))
}

fn one(option: &str, file: &Path) -> anyhow::Result<()> {
    let shown = file.display();
    ensure!(!file.is_dir(), "{option} {shown}: this is a folder; name a file");
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let is_there = folder.is_none_or(Path::is_dir);
    ensure!(is_there, "{option} {shown}: cannot write it: make its folder");
    // Not /dev/stdout or a pipe.
    if file.is_file() {
        let opened = OpenOptions::new().append(true).open(file);
        opened.with_context(|| format!("{option} {shown}: cannot write it; name another file"))?;
    }
    Ok(())
}
