//! The file with this gateway's newest view of the registry, for a start while the control plane is
//! down. It is replaced atomically, and only its owner can read it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use meridian_files::NotRead;
use meridian_protocol::registry::Kept;
use meridian_tls::FileError;
use tokio::time::Instant;

/// Largest file, bytes: that of the largest registry that is accepted (`ask.rs`).
const MOST: u64 = 64 << 20;

/// Location of the saved view.
pub(super) struct ViewFile {
    pub(super) path: PathBuf,
    pub(super) region: String,
}

/// A view loaded from the file, in force until the control plane answers.
pub(super) struct SavedView {
    /// Its age when it was loaded.
    age: Duration,
    since: Instant,
}

impl SavedView {
    /// A view that was current at `at`, in seconds of Unix time, and is in force from now on.
    pub(super) fn with(at: u64) -> SavedView {
        let age = Duration::from_secs(unix_seconds().saturating_sub(at));
        SavedView { age, since: Instant::now() }
    }

    pub(super) fn age(&self) -> Duration {
        self.age + self.since.elapsed()
    }
}

impl ViewFile {
    /// The file at `path`, which may not exist yet.
    ///
    /// # Errors
    /// If no file can be written there.
    pub(super) fn new(path: &Path, region: &str) -> Result<ViewFile, FileError> {
        let file = ViewFile { path: path.to_owned(), region: region.to_owned() };
        // A write problem should be reported now, not when the control plane is down. The trial
        // file has its own name, since `meridian check` may run next to a gateway that writes its
        // view.
        let tried = file.beside(".try").and_then(|(new, _)| fs::remove_file(new));
        let is_file = match fs::metadata(path) {
            Ok(there) if !there.is_file() => Err(io::Error::other("it is not a regular file")),
            _ => Ok(()),
        };
        tried.and(is_file).map_err(|error| FileError {
            section: "control".into(),
            field: "view",
            path: path.to_owned(),
            problem: format!("cannot be written: {error}"),
            remedy: "use a file in an existing folder that this gateway may write to",
        })?;
        Ok(file)
    }

    /// Its contents; none if it does not exist.
    pub(super) fn read(&self) -> Result<Option<Kept>, String> {
        let problem = |error: String| {
            let path = self.path.display();
            format!(
                "control.view: {path}: {error}; the gateway ignores it, and replaces it when the control plane answers"
            )
        };
        let bytes = match meridian_files::read(&self.path, MOST) {
            Ok(bytes) => bytes,
            Err(error) if error.is_missing() => return Ok(None),
            Err(NotRead::TooLarge(most)) => {
                return Err(problem(format!("it is larger than {most} bytes")));
            }
            Err(error) => return Err(problem(error.to_string())),
        };
        Kept::read(&bytes, &self.region).map(Some).map_err(|error| problem(error.to_string()))
    }

    /// A new file next to it, readable only by its owner. A crash may have left an earlier one.
    fn beside(&self, suffix: &str) -> io::Result<(PathBuf, File)> {
        let mut new = self.path.clone().into_os_string();
        new.push(suffix);
        let new = PathBuf::from(new);
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        Ok((new, file))
    }

    /// Replaces the view atomically.
    pub(super) fn write(&self, kept: &Kept) -> io::Result<()> {
        let (new, mut file) = self.beside(".new")?;
        file.write_all(&kept.to_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

#[expect(clippy::disallowed_methods, reason = "the age of a view outlives the process")]
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
