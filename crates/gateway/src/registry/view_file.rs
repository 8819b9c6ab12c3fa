//! The file in which this gateway keeps its newest view of the registry, so that it can start while
//! the control plane is away. It is replaced whole or not at all, and only its owner reads it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use meridian_tls::FileError;
use meridian_wire::registry::Kept;
use tokio::time::Instant;

/// Largest file, bytes: that of the largest registry that is read (`ask.rs`).
const MOST: u64 = 64 << 20;

/// Where the view is kept.
pub(super) struct ViewFile {
    pub(super) path: PathBuf,
    pub(super) region: String,
}

/// The view of the file, in force until the control plane answers.
pub(super) struct Begun {
    /// How old it was.
    age: Duration,
    since: Instant,
}

impl Begun {
    /// A view that held at `at`, in seconds of Unix time, counts from now on.
    pub(super) fn with(at: u64) -> Begun {
        let age = Duration::from_secs(unix_seconds().saturating_sub(at));
        Begun { age, since: Instant::now() }
    }

    pub(super) fn age(&self) -> Duration {
        self.age + self.since.elapsed()
    }
}

impl ViewFile {
    /// The file at `path`, which may not be there yet.
    ///
    /// # Errors
    /// When none can be written there.
    pub(super) fn new(path: &Path, region: &str) -> Result<ViewFile, FileError> {
        let file = ViewFile { path: path.to_owned(), region: region.to_owned() };
        // What can't be written is better said now than when the control plane is gone.
        // Under a name of its own: `meridian check` may run beside a gateway that writes its view.
        let tried = file.beside(".try").and_then(|(new, _)| fs::remove_file(new));
        let is_file = match fs::metadata(path) {
            Ok(there) if !there.is_file() => Err(io::Error::other("something else is there")),
            _ => Ok(()),
        };
        tried.and(is_file).map_err(|error| FileError {
            section: "control",
            field: "view",
            path: path.to_owned(),
            problem: format!("no file can be written there: {error}"),
            remedy: "name a file in a folder that is there and that this gateway may write to",
        })?;
        Ok(file)
    }

    /// What it holds; none where it is not there.
    pub(super) fn read(&self) -> Result<Option<Kept>, String> {
        let told = |error: String| {
            let path = self.path.display();
            format!(
                "control.view: {path}: {error}; it is ignored until the control plane answers, which replaces it"
            )
        };
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(told(error.to_string())),
        };
        let mut bytes = Vec::new();
        let read = file.take(MOST + 1).read_to_end(&mut bytes);
        read.map_err(|error| told(error.to_string()))?;
        if bytes.len() as u64 > MOST {
            return Err(told(format!("it is larger than {MOST} bytes")));
        }
        Kept::read(&bytes, &self.region).map(Some).map_err(|error| told(error.to_string()))
    }

    /// A new file beside it, that only its owner reads. A crash may have left an earlier one.
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

    /// Puts a view in the place of the one that is there, whole or not at all.
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
