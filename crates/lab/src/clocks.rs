//! Wall clocks that can be set: each program of a fleet sees one of its own, through libfaketime.
//!
//! A machine's clock may jump, by an operator or by NTP, and nobody's requests may notice. The
//! library stands between a program and the kernel and moves CLOCK_REALTIME by what a file says; it
//! leaves CLOCK_MONOTONIC, which every timeout should be measured by, as it is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Where Debian's package has it, for each kind of machine.
const USUAL: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/// The clocks of a fleet.
#[derive(Debug)]
pub(crate) struct Clocks {
    library: PathBuf,
}

/// libfaketime, where Debian's package put it.
///
/// # Errors
/// When it is not installed.
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

    /// What a program is started with.
    pub(crate) fn env(&self, dir: &Path, name: &str) -> Result<Vec<(OsString, OsString)>> {
        let file = file(dir, name);
        if !file.exists() {
            self.set(dir, name, 0)?;
        }
        let set = |name: &str, value: OsString| (name.into(), value);
        Ok(vec![
            set("LD_PRELOAD", self.library.clone().into()),
            set("FAKETIME_TIMESTAMP_FILE", file.into()),
            // The file is read at each look at the clock, so that a step comes at once.
            set("FAKETIME_NO_CACHE", "1".into()),
            set("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ])
    }

    pub(crate) fn set(&self, dir: &Path, name: &str, by: i64) -> Result<()> {
        let (file, new) = (file(dir, name), dir.join(format!("{name}.clock.new")));
        std::fs::write(&new, format!("{by:+}\n")).map_err(Error::file("writing", &new))?;
        // In one step: a program may be reading.
        std::fs::rename(&new, &file).map_err(Error::file("writing", &file))
    }
}

fn file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.clock"))
}
