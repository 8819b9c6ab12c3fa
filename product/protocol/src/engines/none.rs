//! Any other OpenAI-compatible server. It reports no load, so the gateway relies on its own
//! accounting.

use super::private::Private;
use super::spec::{Detect, EngineSpec};

pub(super) static SPEC: EngineSpec = EngineSpec {
    name: "none",
    summary: "Any other OpenAI-compatible server; its load is what the gateway itself counts",
    detect: Detect { metrics: &[], own_page: None },
    health: "/health",
    load: None,
    capacity: None,
    private: Private::NONE,
    reads_cache_salt: false,
    cached_tokens: None,
    reports_load: false,
    transfer: None,
    version: None,
    loads_adapters: false,
    adapters_in_use: None,
    continues_chats: false,
};
