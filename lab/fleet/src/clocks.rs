//! Adjustable wall clocks: each program of a fleet sees its own, through libfaketime.
//!
//! A machine's clock may jump, because of an operator or NTP, and no request may be affected. The
//! library sits between a program and the kernel and shifts CLOCK_REALTIME by the amount in a file.
//! It leaves CLOCK_MONOTONIC, which every timeout should use, unchanged.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Paths of Debian's package, for each kind of machine.
const USUAL: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/// The clocks of a fleet.
#[derive(Debug)]
pub(crate) struct Clocks {
    library: PathBuf,
}

/// libfaketime at the path of Debian's package.
///
/// # Errors
/// If it is not installed.
pub fn library() -> Result<PathBuf> {
    let found = USUAL.iter().map(PathBuf::from).find(|path| path.exists());
    found.ok_or_else(|| Error::Missing {
        what: "libfaketime, which lets a program see another time,".into(),
        remedy: "install it (Debian: apt-get install faketime)".into(),
    })
}

impl Clocks {
    pub(crate) fn new(library: &Path) -> Clocks {
        Clocks { library: library.to_owned() }
    }

    /// The environment of a program.
    pub(crate) fn env(&self, dir: &Path, name: &str) -> Result<Vec<(OsString, OsString)>> {
        let file = file(dir, name);
        if !file.exists() {
            self.set(dir, name, 0)?;
        }
        let set = |name: &str, value: OsString| (name.into(), value);
        Ok(vec![
            set("LD_PRELOAD", self.library.clone().into()),
            set("FAKETIME_TIMESTAMP_FILE", file.into()),
            // The file is read at each reading of the clock, so a step takes effect at once.
            set("FAKETIME_NO_CACHE", "1".into()),
            set("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ])
    }

    pub(crate) fn set(&self, dir: &Path, name: &str, by: i64) -> Result<()> {
        let (file, new) = (file(dir, name), dir.join(format!("{name}.clock.new")));
        std::fs::write(&new, format!("{by:+}\n")).map_err(Error::file("writing", &new))?;
        // Replaced atomically: a program may be reading it.
        std::fs::rename(&new, &file).map_err(Error::file("writing", &file))
    }
}

fn file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.clock"))
}
