//! Reads small files below `/sys`, and the counters of drivers through `ethtool`.
//!
//! A missing or unreadable file is no error here: cards leave while they are watched, and many files
//! exist for some kinds of cards only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A tree of files as the kernel shows it in `/sys`.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// The tree below `root`, which is `/sys` outside of tests.
    pub fn new(root: impl Into<PathBuf>) -> Sysfs {
        Sysfs { root: root.into() }
    }

    /// A path below the root.
    pub(super) fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.join(below)
    }

    /// The text of a file without its line end; `None` if it is missing, empty or unreadable.
    pub(super) fn text(&self, below: impl AsRef<Path>) -> Option<String> {
        let text = fs::read_to_string(self.path(below)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A file with one number.
    pub(super) fn number(&self, below: impl AsRef<Path>) -> Option<u64> {
        self.text(below)?.parse().ok()
    }

    /// The names in a folder, sorted; empty without the folder.
    pub(super) fn names(&self, below: impl AsRef<Path>) -> Vec<String> {
        self.list(below).unwrap_or_default()
    }

    /// The names in a folder, sorted.
    pub(super) fn list(&self, below: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.path(below))?;
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    /// The last name of a link's target.
    pub(super) fn link(&self, below: impl AsRef<Path>) -> Option<String> {
        let target = fs::read_link(self.path(below)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// The real path behind links; `None` if there is none.
    pub(super) fn real(&self, below: impl AsRef<Path>) -> Option<PathBuf> {
        fs::canonicalize(self.path(below)).ok()
    }
}

/// Prints the counters of a network device's driver, as `ethtool -S` does.
type Ethtool = dyn Fn(&str) -> io::Result<String> + Send + Sync;

/// What is read: the files of the kernel, and the drivers' counters.
pub struct Host {
    pub(super) sysfs: Sysfs,
    ethtool: Box<Ethtool>,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn here() -> Host {
        Host::new(Sysfs::new("/sys"), ethtool)
    }

    /// A tree of files, and a function in place of `ethtool -S NAME`.
    pub fn new(
        sysfs: Sysfs,
        ethtool: impl Fn(&str) -> io::Result<String> + Send + Sync + 'static,
    ) -> Host {
        Host { sysfs, ethtool: Box::new(ethtool) }
    }

    /// The counters of a driver; `None` if `ethtool` is missing or refuses.
    pub(super) fn driver_counters(&self, netdev: &str) -> Option<String> {
        (self.ethtool)(netdev).ok()
    }
}

/// Runs `ethtool -S`. Its ioctl would be `unsafe` here.
fn ethtool(netdev: &str) -> io::Result<String> {
    let mut command = Command::new("ethtool");
    let output =
        command.args(["-S", netdev]).stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(io::Error::other("ethtool failed"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
