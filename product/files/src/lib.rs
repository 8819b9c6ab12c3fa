//! Reading the files that a configuration names, or an operator.
//!
//! A path may lead to a pipe, which never ends, to a device without an end, to a directory, or to a
//! file system that does not answer. None of them may stop a reload, or fill the memory: only
//! regular files (and links to them) are read, up to a size, and for a limited time. A thread of its
//! own reads each file, because a call that hangs in the kernel cannot be interrupted. While it hangs, the
//! file counts as unreadable; the next read after it has returned tries again.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::OFlags;

/// Most bytes of a file of certificates, of keys or of settings.
pub const MOST: u64 = 16 << 20;
/// Most time for one file.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most files that hang at a time; beyond it nothing more is read.
const MOST_HUNG: usize = 32;

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum NotRead {
    /// The system's error.
    #[error("{}", words(.0))]
    Io(#[from] io::Error),
    /// A pipe, a socket or a device.
    #[error("is not a regular file; use a file, or a link to one")]
    Special,
    /// Beyond the limit.
    #[error("is larger than {0} bytes; use a smaller file")]
    TooLarge(u64),
    /// The file system does not answer.
    #[error("could not be read within {} s; check the file system that it is on", PATIENCE.as_secs())]
    Hung,
}

impl NotRead {
    /// Whether there is no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, NotRead::Io(error) if error.kind() == ErrorKind::NotFound)
    }
}

/// An error of the system, as a predicate of the file.
fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::PermissionDenied => "this process may not read the file".to_owned(),
        ErrorKind::IsADirectory => "is a directory".to_owned(),
        kind => format!("cannot be read: {kind}"),
    }
}

/// The bytes of a regular file, at most `most`.
///
/// # Errors
/// If it is no such file, or could not be read in time.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, NotRead> {
    read_by(path, PATIENCE, move |path| read_now(path, most))
}

/// The same as text.
///
/// # Errors
/// Also if it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, NotRead> {
    let bytes = read(path, most)?;
    let bad = |_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(bytes).map_err(|error| NotRead::Io(bad(error)))
}

fn read_now(path: &Path, most: u64) -> Result<Vec<u8>, NotRead> {
    // Without this flag, the open of a pipe waits for a program that writes to it.
    let nonblock = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::from(ErrorKind::IsADirectory).into());
    }
    if !kind.is_file() {
        return Err(NotRead::Special);
    }
    let mut bytes = Vec::new();
    // The size may change, and that of /proc is 0.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(NotRead::TooLarge(most)) } else { Ok(bytes) }
}

/// The files whose reads hang.
static HUNG: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn hung() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    HUNG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a reading thread and the one that waits for it share.
enum ReadState {
    Waiting,
    Done(Result<Vec<u8>, NotRead>),
    GivenUp,
}

fn read_by(
    path: &Path,
    patience: Duration,
    read: impl FnOnce(&Path) -> Result<Vec<u8>, NotRead> + Send + 'static,
) -> Result<Vec<u8>, NotRead> {
    {
        let hung = hung();
        if hung.len() >= MOST_HUNG || hung.contains(path) {
            return Err(NotRead::Hung);
        }
    }
    let shared = Arc::new((Mutex::new(ReadState::Waiting), Condvar::new()));
    let (own, theirs) = (path.to_owned(), shared.clone());
    std::thread::Builder::new().name("file".to_owned()).spawn(move || {
        let done = read(&own);
        let (slot, ready) = &*theirs;
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match *slot {
            ReadState::GivenUp => drop(hung().remove(&own)),
            _ => *slot = ReadState::Done(done),
        }
        ready.notify_one();
    })?;
    let (slot, ready) = &*shared;
    let slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    let waits = |slot: &mut ReadState| matches!(slot, ReadState::Waiting);
    let waited = ready.wait_timeout_while(slot, patience, waits);
    let (mut slot, _) = waited.unwrap_or_else(PoisonError::into_inner);
    match std::mem::replace(&mut *slot, ReadState::GivenUp) {
        ReadState::Done(done) => done,
        ReadState::Waiting | ReadState::GivenUp => {
            hung().insert(path.to_owned());
            Err(NotRead::Hung)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::mpsc;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("meridian-named-{name}-{}", std::process::id()))
    }

    // Defect stuck-reload: a pipe, a device and a directory are refused at once and by name, and a
    // file beyond the limit is not read to its end. A link to a regular file is one.
    #[test]
    fn only_regular_files() {
        let (pipe, file, link) = (scratch("pipe"), scratch("file"), scratch("link"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        std::fs::write(&file, "four").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(matches!(read(&pipe, MOST), Err(NotRead::Special)));
        assert!(matches!(read(Path::new("/dev/zero"), MOST), Err(NotRead::Special)));
        let folder = read(&std::env::temp_dir(), MOST).unwrap_err();
        assert_eq!(folder.to_string(), "is a directory");
        assert!(read(&scratch("none"), MOST).unwrap_err().is_missing());
        assert!(matches!(read(&file, 3), Err(NotRead::TooLarge(3))));
        assert_eq!(read_text(&link, 4).unwrap(), "four");
        [pipe, file, link].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }

    // Defect stuck-reload: a read that hangs is given up and reported, does not stop reads of other
    // files, and is not tried a second time beside the first. Once it has returned, the file is
    // read again.
    #[test]
    fn a_read_that_hangs_is_given_up() {
        let path = scratch("hangs");
        let (go, goes) = mpsc::channel::<()>();
        let hangs = move |_: &Path| {
            let _ = goes.recv();
            Ok(Vec::new())
        };
        assert!(matches!(read_by(&path, Duration::ZERO, hangs), Err(NotRead::Hung)));
        let fine = |_: &Path| Ok(vec![1]);
        assert!(matches!(read_by(&path, PATIENCE, fine), Err(NotRead::Hung)));
        assert_eq!(read_by(&scratch("other"), PATIENCE, fine).unwrap(), [1]);
        drop(go);
        while hung().contains(&path) {
            std::thread::yield_now();
        }
        assert_eq!(read_by(&path, PATIENCE, fine).unwrap(), [1]);
    }
}
