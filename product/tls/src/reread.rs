//! Hot reload of a value made from files.
//!
//! Files are polled, not watched. Certificates change a few times a year, a poll costs a few reads,
//! and every way of replacing files (a copy, a rename, a symbolic link of Kubernetes) shows in
//! their contents. If the new contents are unusable, because a file is half written or a key does
//! not match its certificate yet, the current value stays in force and the next poll tries again.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// Time between two polls.
pub const LOOK: Duration = Duration::from_secs(2);

/// Why the value could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unread(pub String);

type Make<T> = Box<dyn Fn() -> Result<T, Unread> + Send + Sync>;
/// The contents of each file; `None` if a file can't be read.
type Bytes = Vec<Option<Vec<u8>>>;

/// A value made from files.
pub struct Reread<T> {
    paths: Vec<PathBuf>,
    make: Make<T>,
    now: watch::Sender<Arc<T>>,
    looked: Mutex<Looked>,
    /// Whether a change counts only after two polls have seen it.
    settles: bool,
}

/// State of the last poll.
#[derive(PartialEq, Eq)]
struct Looked {
    /// The contents in force.
    bytes: Bytes,
    /// Different contents that the last poll saw, if changes have to settle.
    unsettled: Option<Bytes>,
    problem: Option<Unread>,
}

/// The result of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing changed.
    Same,
    /// A new value is in force.
    New,
    /// The files changed and the new contents are unusable; reported once.
    Bad(Unread),
}

impl<T> Reread<T> {
    /// A value that `make` builds from the files at `paths`, now and on every change.
    ///
    /// # Errors
    /// If `make` fails.
    pub fn new<E: fmt::Display>(
        paths: Vec<PathBuf>,
        make: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Reread<T>, E> {
        // Read before the files are used, so the next poll sees a change in between.
        let bytes = read(&paths);
        let first = make()?;
        let make = move || make().map_err(|error| Unread(error.to_string()));
        Ok(Reread::build(paths, bytes, first, Box::new(make)))
    }

    /// Like [`Reread::new`] for a value that was made from the files earlier. [`Reread::reload`]
    /// picks up a change since then; a poll does not.
    pub fn made(
        paths: Vec<PathBuf>,
        first: T,
        make: impl Fn() -> Result<T, Unread> + Send + Sync + 'static,
    ) -> Reread<T> {
        let bytes = read(&paths);
        Reread::build(paths, bytes, first, Box::new(make))
    }

    fn build(paths: Vec<PathBuf>, bytes: Bytes, first: T, make: Make<T>) -> Reread<T> {
        Reread {
            paths,
            make,
            now: watch::Sender::new(Arc::new(first)),
            looked: Mutex::new(Looked { bytes, unsettled: None, problem: None }),
            settles: false,
        }
    }

    /// Makes a change count only after two polls in a row have seen it. For files that parse even
    /// when an editor or a copy has written only half of them.
    #[must_use]
    pub fn settled(self) -> Reread<T> {
        Reread { settles: true, ..self }
    }

    /// The value in force.
    #[must_use]
    pub fn now(&self) -> Arc<T> {
        self.now.borrow().clone()
    }

    /// Completes when the value in force passes `test`, possibly at once.
    pub fn until(
        &self,
        test: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> impl Future<Output = ()> + Send + 'static
    where
        T: Send + Sync + 'static,
    {
        let mut now = self.now.subscribe();
        async move {
            // Without the sender nothing changes any more.
            if now.wait_for(|now| test(now)).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Polls the files and rebuilds the value if they changed.
    pub fn look(&self) -> Look {
        self.compare(false)
    }

    /// Rebuilds the value because an operator asked, whether or not a change was seen. A change
    /// need not settle, and a problem is reported again.
    pub fn reload(&self) -> Look {
        self.compare(true)
    }

    fn compare(&self, asked: bool) -> Look {
        let bytes = read(&self.paths);
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(looked.bytes.len(), bytes.len(), "each poll reads the same files");
        let is_settled = self.settles || looked.unsettled.is_none();
        assert!(is_settled, "a change waits for a second poll only where changes settle");
        let is_same = looked.bytes == bytes && looked.problem.is_none();
        if is_same && !asked {
            looked.unsettled = None;
            return Look::Same;
        }
        if self.settles
            && !asked
            && looked.bytes != bytes
            && looked.unsettled.as_ref() != Some(&bytes)
        {
            looked.unsettled = Some(bytes);
            return Look::Same;
        }
        looked.unsettled = None;
        let made = (self.make)();
        let reported = looked.problem.take();
        match made {
            Ok(made) => {
                self.now.send_replace(Arc::new(made));
                looked.bytes = bytes;
                if is_same { Look::Same } else { Look::New }
            }
            Err(problem) => {
                looked.bytes = bytes;
                looked.problem = Some(problem.clone());
                let is_known = reported.as_ref() == Some(&problem);
                if is_known && !asked { Look::Same } else { Look::Bad(problem) }
            }
        }
    }
}

fn read(paths: &[PathBuf]) -> Bytes {
    paths.iter().map(|path| meridian_files::read(path, meridian_files::MOST).ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    // The value follows the file. Unusable contents leave it unchanged, are reported once, and are
    // tried again when the file is right.
    #[test]
    fn follows_the_file() {
        let path = std::env::temp_dir().join(format!("meridian-reread-{}", std::process::id()));
        std::fs::write(&path, "1").unwrap();
        let from = path.clone();
        let make = move || {
            let text = std::fs::read_to_string(&from).map_err(|e| Unread(e.to_string()))?;
            text.parse::<u32>().map_err(|e| Unread(e.to_string()))
        };
        let reread = Reread::new(vec![path.clone()], make).unwrap();
        assert_eq!((reread.look(), *reread.now()), (Look::Same, 1));
        std::fs::write(&path, "half").unwrap();
        assert!(matches!(reread.look(), Look::Bad(_)));
        assert_eq!((reread.look(), *reread.now()), (Look::Same, 1));
        std::fs::write(&path, "2").unwrap();
        assert_eq!((reread.look(), *reread.now()), (Look::New, 2));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(reread.look(), Look::Bad(_)));
        assert_eq!(*reread.now(), 2);
    }

    // A requested reload uses a change at once, and reports a problem on every request.
    #[test]
    fn asked_for_it_is_read_at_once() {
        let path = std::env::temp_dir().join(format!("meridian-asked-{}", std::process::id()));
        std::fs::write(&path, "1").unwrap();
        let from = path.clone();
        let make = move || {
            let text = std::fs::read_to_string(&from).map_err(|e| Unread(e.to_string()))?;
            text.parse::<u32>().map_err(|e| Unread(e.to_string()))
        };
        let reread = Reread::new(vec![path.clone()], make).unwrap().settled();
        assert_eq!(reread.reload(), Look::Same);
        std::fs::write(&path, "2").unwrap();
        assert_eq!((reread.reload(), *reread.now()), (Look::New, 2));
        std::fs::write(&path, "half").unwrap();
        for _ in 0..2 {
            assert!(matches!(reread.reload(), Look::Bad(_)));
        }
        assert_eq!((reread.look(), *reread.now()), (Look::Same, 2));
        std::fs::write(&path, "2").unwrap();
        assert_eq!((reread.reload(), *reread.now()), (Look::New, 2));
        std::fs::remove_file(&path).unwrap();
    }

    // A file that may never end is not read: if a device replaces a file, the value stays and the
    // problem is reported.
    #[test]
    fn only_regular_files_are_read() {
        let path = std::env::temp_dir().join(format!("meridian-special-{}", std::process::id()));
        std::fs::write(&path, "1").unwrap();
        let from = path.clone();
        let make = move || {
            meridian_files::read_text(&from, meridian_files::MOST)
                .map_err(|e| Unread(e.to_string()))
        };
        let reread = Reread::new(vec![path.clone()], make).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        for look in [reread.look(), reread.reload()] {
            let Look::Bad(Unread(problem)) = look else { panic!("{look:?}") };
            assert!(problem.ends_with("is not a regular file; use a file, or a link to one"));
        }
        assert_eq!((reread.look(), reread.now().as_str()), (Look::Same, "1"));
        std::fs::remove_file(&path).unwrap();
    }

    // The next poll sees a change made while the value is first built. A reload uses a change made
    // before the first poll, although polls see no difference.
    #[test]
    fn changes_at_the_start() {
        let path = std::env::temp_dir().join(format!("meridian-start-{}", std::process::id()));
        std::fs::write(&path, "1").unwrap();
        let from = path.clone();
        let make = move || {
            let text = std::fs::read_to_string(&from).map_err(|e| Unread(e.to_string()));
            std::fs::write(&from, "2").unwrap();
            text
        };
        let reread = Reread::new(vec![path.clone()], make).unwrap();
        assert_eq!((reread.look(), reread.now().as_str()), (Look::New, "2"));
        let from = path.clone();
        let make = move || std::fs::read_to_string(&from).map_err(|e| Unread(e.to_string()));
        let reread = Reread::made(vec![path.clone()], "1".to_owned(), make);
        assert_eq!((reread.look(), reread.now().as_str()), (Look::Same, "1"));
        assert_eq!((reread.reload(), reread.now().as_str()), (Look::Same, "2"));
        std::fs::remove_file(&path).unwrap();
    }

    // If changes have to settle, contents seen by one poll only do not count: the file may have
    // been half written, or the change may have been undone.
    #[test]
    fn a_change_may_have_to_settle() {
        let path = std::env::temp_dir().join(format!("meridian-settled-{}", std::process::id()));
        std::fs::write(&path, "12").unwrap();
        let from = path.clone();
        let make = move || Ok::<_, Unread>(std::fs::read_to_string(&from).unwrap_or_default());
        let reread = Reread::new(vec![path.clone()], make).unwrap().settled();
        let mut looks = Vec::new();
        for text in ["1", "12", "1", "13", "13", "13"] {
            std::fs::write(&path, text).unwrap();
            looks.push((reread.look(), reread.now().as_str().to_owned()));
        }
        std::fs::remove_file(&path).unwrap();
        let same = |text: &str| (Look::Same, text.to_owned());
        let new = (Look::New, "13".to_owned());
        assert_eq!(looks, [same("12"), same("12"), same("12"), same("12"), new, same("13")]);
    }
}
