//! The file in which this gateway keeps its newest view of the registry, so that it can start while
//! the control plane is away.
//!
//! The view that was found there counts only where the control plane can't be reached, or says
//! nothing for a while, and until it answers: then everything is read from it anew. A file that is
//! nothing to go by is told and left aside; the next view replaces it. It is written by a task of its
//! own, a second after a change at the soonest, so that a burst of changes becomes one file; where
//! nothing changes it is written now and then, since it says when its view held.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use meridian_tls::FileError;
use meridian_wire::registry::{Kept, Snapshot};
use tokio::time::{Instant, sleep, timeout};

use super::Following;

/// For the control plane's first answer; the doors stay closed for longer (`opening.rs`).
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two writes at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two writes while nothing changes, and before one that failed is tried again.
const REFRESH: Duration = Duration::from_secs(30);
/// Largest file, bytes: that of the largest registry that is read (`ask.rs`).
const MOST: u64 = 64 << 20;

/// Where the view is kept.
pub(super) struct ViewFile {
    path: PathBuf,
    region: String,
}

/// The view of the file, in force until the control plane answers.
pub(super) struct Begun {
    /// How old it was.
    age: Duration,
    since: Instant,
}

impl Begun {
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
                "control.view: {path}: {error}; it is ignored until the control plane answers, which writes it anew"
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
    fn write(&self, kept: &Kept) -> io::Result<()> {
        let (new, mut file) = self.beside(".new")?;
        file.write_all(&kept.to_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Following {
    /// Reads the file once, before anything is asked of the control plane.
    pub(super) fn recall(&self) {
        let Some(file) = &self.file else { return };
        let mut state = self.state();
        match file.read() {
            Ok(found) => state.found = found,
            Err(problem) => {
                tracing::warn!(problem, "no view to begin with");
                state.unkept = Some(problem);
            }
        }
    }

    /// The control plane does not answer: the view of the file counts, where there is one and no
    /// other came.
    pub(super) fn begin_with_kept(&self) {
        let mut state = self.state();
        let Some(kept) = state.found.take() else { return };
        let age = Duration::from_secs(unix_seconds().saturating_sub(kept.at));
        let (revision, replicas) = (kept.view.revision, kept.view.replicas.len());
        let view = Arc::new(kept.view);
        let begins = self.view.send_if_modified(|held| {
            let first = held.is_none();
            if first {
                *held = Some(view);
            }
            first
        });
        if begins {
            state.begun = Some(Begun { age, since: Instant::now() });
            let (url, age_s) = (&self.config.url, age.as_secs());
            tracing::warn!(%url, revision, replicas, age_s, "the control plane does not answer; this gateway begins with the view that it kept");
        }
    }

    /// The control plane told this view, and whether anything in it changed. The one before it comes
    /// back.
    pub(super) fn hear(&self, view: &Arc<Snapshot>, changed: bool) -> Option<Arc<Snapshot>> {
        let mut state = self.state();
        state.told = Some(Instant::now());
        state.found = None;
        if let Some(begun) = state.begun.take() {
            let age_s = begun.age().as_secs();
            tracing::info!(age_s, "the control plane's view replaces the one that was kept");
        }
        let mut before = None;
        self.view.send_if_modified(|held| {
            before = held.replace(view.clone());
            changed
        });
        before
    }

    /// The view that the control plane told, and when it last said that it holds.
    pub(super) fn heard(&self) -> Option<(Arc<Snapshot>, Instant)> {
        let state = self.state();
        let told = state.told.filter(|_| state.begun.is_none())?;
        Some((self.view.borrow().clone()?, told))
    }
}

/// Begins with the file where the control plane is silent, and keeps the file up to date, for ever.
pub(super) async fn keep(following: Arc<Following>) {
    let Some(file) = &following.file else { return };
    let mut view = following.view.subscribe();
    if timeout(PATIENCE, view.wait_for(Option::is_some)).await.is_err() {
        following.begin_with_kept();
    }
    let mut last = None;
    loop {
        if let Some((view, told)) = following.heard()
            && last != Some(told)
            && put(&following, file, view, told).await
        {
            last = Some(told);
        }
        sleep(PAUSE).await;
        let _ = timeout(REFRESH, view.changed()).await;
    }
}

/// Writes the file where nobody waits for it; whether that went well.
async fn put(
    following: &Arc<Following>,
    file: &ViewFile,
    view: Arc<Snapshot>,
    told: Instant,
) -> bool {
    let at = unix_seconds().saturating_sub(told.elapsed().as_secs());
    let following_too = following.clone();
    let written = tokio::task::spawn_blocking(move || {
        let file = following_too.file.as_ref()?;
        let view = Snapshot::clone(&view);
        Some(file.write(&Kept { region: file.region.clone(), at, view }))
    });
    let error = match written.await {
        Ok(Some(Err(error))) => error.to_string(),
        Ok(_) => {
            following.state().unkept = None;
            return true;
        }
        Err(error) => error.to_string(),
    };
    let path = file.path.display();
    let problem = format!("control.view: {path}: cannot be written: {error}; the one before stays");
    let mut state = following.state();
    if state.unkept.as_ref() != Some(&problem) {
        tracing::error!(problem, "the view is not kept");
    }
    state.unkept = Some(problem);
    false
}

#[expect(clippy::disallowed_methods, reason = "the age of a view outlives the process")]
fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
