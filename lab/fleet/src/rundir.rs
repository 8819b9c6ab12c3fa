//! The directory of one run: every program's log and config file.
//!
//! It is in the system's directory for temporary files and is removed with the run. If the run
//! failed, it stays, so that the logs can be read.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::{Error, Result};

/// Log lines in an error.
const LINES_SHOWN: usize = 20;

/// The directory of one run.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    keep: AtomicBool,
}

impl RunDir {
    /// Creates a new directory with a unique name.
    pub(crate) fn new() -> Result<RunDir> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let name = format!("meridian-{}-{run}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // A leftover of an earlier process with the same id has no owner any more.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).map_err(Error::file("making", &path))?;
        Ok(RunDir { path, keep: AtomicBool::new(false) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the directory when the run ends.
    pub(crate) fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the logs of this fleet are in {}", self.path.display());
        } else if !self.keep.load(Ordering::Relaxed) {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The last lines of a log, with a first line that names the file.
pub(crate) fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
    let count = shown.len();
    format!("last {count} lines of {}:\n{}", path.display(), shown.join("\n"))
}
