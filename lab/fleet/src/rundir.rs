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

    /// Keeps the directory when the run ends, without the keys in it.
    pub(crate) fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
        remove_keys(&self.path);
        // For the keeper, if this process dies before its end.
        let _ = std::fs::write(self.path.join("kept"), "");
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

/// Removes the private keys below a folder.
fn remove_keys(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder {
            remove_keys(&path);
        } else if path.extension().is_some_and(|end| end == "key") {
            let _ = std::fs::remove_file(&path);
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

#[cfg(test)]
mod tests {
    use super::*;

    // Defect command-line: a folder that stays for its logs keeps no private key.
    #[test]
    fn logs_stay_without_keys() {
        let dir = RunDir::new().expect("makes a folder");
        let certificates = dir.path().join("certs/gateways");
        std::fs::create_dir_all(&certificates).expect("makes folders");
        for name in ["us-1.crt", "us-1.key"] {
            std::fs::write(certificates.join(name), "").expect("writes");
        }
        std::fs::write(dir.path().join("us.log"), "").expect("writes");
        dir.keep();
        let path = dir.path().to_owned();
        drop(dir);
        assert!(path.join("us.log").exists() && certificates.join("us-1.crt").exists());
        assert!(!certificates.join("us-1.key").exists());
        std::fs::remove_dir_all(&path).expect("removes the folder");
    }
}
