//! `meridian check`: what a start would make of a control plane's configuration and its files,
//! without opening the store, which a running control plane has for itself.

use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use meridian_wire::config::Control as Config;

use super::ServeError;
use super::secured::{Secured, files};

/// Everything in `config`, and in the files that it names, that keeps a control plane from starting
/// or from working. Whether its address is free is seen at a start only.
#[must_use]
pub fn check(config: &Config) -> Vec<String> {
    let mut found = config.problems();
    if let Some(Err(error)) = config.tls.as_ref().map(Secured::load) {
        found.push(error.to_string());
    }
    found.extend(doubts(config));
    found.extend(store(&config.store).err().map(|error| error.to_string()));
    found
}

/// What is wrong with certificates that a start can use.
pub(super) fn doubts(config: &Config) -> Vec<String> {
    #[expect(clippy::disallowed_methods, reason = "certificates hold from one date to another")]
    let now = SystemTime::now();
    let Some(files) = config.tls.as_ref().map(files) else { return Vec::new() };
    // What cannot be read is an error, and was found before.
    let Ok(material) = files.read() else { return Vec::new() };
    let doubts = files.doubts(&material, now);
    doubts.iter().chain(&files.mismatch(&material)).map(ToString::to_string).collect()
}

/// Whether the store can be opened or made at `path`.
///
/// # Errors
/// Why it cannot.
pub(super) fn store(path: &Path) -> Result<(), ServeError> {
    let tried = if path.exists() {
        OpenOptions::new().read(true).write(true).open(path).map(drop)
    } else {
        beside(path)
    };
    tried.map_err(|source| ServeError::StoreFile { path: path.to_owned(), source })
}

/// Makes a file beside `path`, and removes it.
fn beside(path: &Path) -> io::Result<()> {
    let mut probe = path.as_os_str().to_owned();
    probe.push(".try");
    File::create(&probe).and_then(|_| remove_file(&probe))
}
