//! The declaration of an engine.

use std::fmt;

use serde::Deserialize;

use super::private::Private;
use crate::signals::{AdaptersInUse, Load, SignalError};

/// An engine: everything that sets it apart from the others.
pub struct EngineSpec {
    /// Its name in configuration, metrics and status.
    pub name: &'static str,
    /// The software, in one line for the command line and the documentation.
    pub summary: &'static str,
    /// How to detect it from its responses.
    pub detect: Detect,
    /// Its health check path.
    pub health: &'static str,
    /// The page with its load, for probes; `None` if it reports no load.
    pub load: Option<LoadPage>,
    /// The page with its capacity, read at first contact and then from time to time.
    pub capacity: Option<LoadPage>,
    /// Fields that it reads in a request and that no client may send.
    pub private: Private,
    /// Whether it separates its prefix cache by `cache_salt`. Other engines may refuse the unknown
    /// field.
    pub reads_cache_salt: bool,
    /// How to make it report cached tokens in its answers; `None` if it cannot.
    pub cached_tokens: Option<&'static str>,
    /// Whether it reports its load in a header of each answer on request (ORCA).
    pub reports_load: bool,
    /// The protocol by which it usually hands over KV ([`crate::legs`]); `None` if it has none.
    pub transfer: Option<&'static str>,
    /// The page with a JSON object whose `version` is the software's; engines of unequal versions
    /// cannot hand KV to each other.
    pub version: Option<&'static str>,
    /// Whether it loads and unloads LoRA adapters while it runs, and lists each as a model at
    /// `/v1/models`.
    pub loads_adapters: bool,
    /// Reads the adapters in use from its load page; `None` if that does not report them.
    pub adapters_in_use: Option<ReadAdapters>,
    /// Whether it continues a last message of the assistant. A broken chat can then be resumed on
    /// it.
    pub continues_chats: bool,
}

/// Reads the adapters in use from a page; `None` if the page does not name them.
pub type ReadAdapters = fn(&[u8]) -> Option<AdaptersInUse>;

/// A page that reports a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadPage {
    /// Its path.
    pub path: &'static str,
    /// Parses the page. On success a probe's page yields `pending` and `running`, and further
    /// values if the engine reports them.
    pub read: fn(&[u8]) -> Result<Load, SignalError>,
    /// The remedy for operators if the page is missing or incomplete.
    pub remedy: &'static str,
}

/// How to detect an engine.
#[derive(Clone, Copy, Debug)]
pub struct Detect {
    /// Prefixes of its metric names.
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
    /// Reads the page at the path of `load`; an empty load if the engine has no such page.
    ///
    /// # Errors
    /// If the page is cut off, damaged or without the names that every load needs.
    pub fn read_load(&self, page: &[u8]) -> Result<Load, SignalError> {
        self.load.map_or_else(|| Ok(Load::default()), |load| (load.read)(page))
    }

    /// Reads the page at the path of `capacity`; an empty load if the engine has no such page.
    ///
    /// # Errors
    /// If the page differs from the engine's documentation.
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

/// The object on a page. Serde alone would accept an array for a struct, too.
pub(super) fn object<'a, T: Deserialize<'a>>(page: &'a [u8]) -> Option<T> {
    let page = page.trim_ascii_start();
    page.starts_with(b"{").then(|| serde_json::from_slice(page).ok())?
}
