//! What an engine declares of itself.

use std::fmt;

use serde::Deserialize;

use super::private::Private;
use crate::signals::{Load, SignalError};

/// An engine: everything in which it differs from the others.
pub struct EngineSpec {
    /// Its name in configuration, metrics and status.
    pub name: &'static str,
    /// Which software it is, in one line for the command line and the documentation.
    pub summary: &'static str,
    /// What in its answers identifies it.
    pub detect: Detect,
    /// The path that answers while the server lives.
    pub health: &'static str,
    /// The page with its load, which probes ask for; `None` where it reports none.
    pub load: Option<LoadPage>,
    /// The page with its capacity, asked once and then now and again.
    pub capacity: Option<LoadPage>,
    /// What it reads in a request and no client may send.
    pub private: Private,
    /// Divides its prefix cache by `cache_salt`. Others may refuse the unknown field.
    pub reads_cache_salt: bool,
    /// Reports its load in a header of each answer when a request asks for it (ORCA).
    pub reports_load: bool,
    /// Continues a last message of the assistant, so a broken chat can be resumed on it.
    pub continues_chats: bool,
}

/// A page that is read as a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadPage {
    /// Its path.
    pub path: &'static str,
    /// Reads it. On success a probe's page tells `pending` and `running`, and the rest as far as the
    /// engine tells it.
    pub read: fn(&[u8]) -> Result<Load, SignalError>,
    /// What an operator can do where the page is missing or lacks something.
    pub remedy: &'static str,
}

/// What identifies an engine.
#[derive(Clone, Copy, Debug)]
pub struct Detect {
    /// Prefixes of its metrics' names.
    pub metrics: &'static [&'static str],
    /// A page that no other engine and no router has, for servers whose metrics are off.
    pub own_page: Option<OwnPage>,
}

/// A page that only one engine has.
#[derive(Clone, Copy, Debug)]
pub struct OwnPage {
    /// Its path.
    pub path: &'static str,
    /// Whether this is the engine's page, and not an error or another server's.
    pub is_own: fn(&[u8]) -> bool,
}

impl EngineSpec {
    /// Reads the page at the path of `load`; nothing is known where there is none.
    ///
    /// # Errors
    /// The page is cut, damaged or without the names that every load needs.
    pub fn read_load(&self, page: &[u8]) -> Result<Load, SignalError> {
        self.load.map_or_else(|| Ok(Load::default()), |load| (load.read)(page))
    }

    /// Reads the page at the path of `capacity`; nothing is known where there is none.
    ///
    /// # Errors
    /// The page is not what the engine documents.
    pub fn read_capacity(&self, page: &[u8]) -> Result<Load, SignalError> {
        self.capacity.map_or_else(|| Ok(Load::default()), |capacity| (capacity.read)(page))
    }
}

impl fmt::Debug for EngineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EngineSpec").field(&self.name).finish()
    }
}

impl PartialEq for EngineSpec {
    fn eq(&self, other: &EngineSpec) -> bool {
        self.name == other.name
    }
}

impl Eq for EngineSpec {}

/// The object on a page; serde alone would take an array for a struct, too.
pub(super) fn object<'a, T: Deserialize<'a>>(page: &'a [u8]) -> Option<T> {
    let page = page.trim_ascii_start();
    page.starts_with(b"{").then(|| serde_json::from_slice(page).ok())?
}
