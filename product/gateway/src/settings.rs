//! The settings of requests and of clients' connections. A request keeps those of its arrival, and a
//! connection those of its start.

use std::time::Duration;

use http::HeaderName;
use meridian_config::{self as config, EngineFields, Gateway as Config, Isolation, Timeouts};

/// What requests and connections need of the configuration.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) region: String,
    /// Further paths that pass to replicas, besides the API's.
    pub(crate) paths: Vec<String>,
    pub(crate) engine_fields: EngineFields,
    /// Whether tenants share no prefixes.
    pub(crate) isolates: bool,
    /// Headers with the affinity key; the first one present counts.
    pub(crate) key_headers: Vec<HeaderName>,
    /// The header in which clients name their tenant.
    pub(crate) tenant_header: Option<HeaderName>,
    pub(crate) timeouts: Timeouts,
    /// How long after a prefill leg its KV may be used: half of the engines' lease. KV that was
    /// released is read without an error, and is another prompt's.
    pub(crate) kv_fresh: Duration,
    /// Whether and how broken streams are resumed.
    pub(crate) resume: Option<config::Resume>,
    /// Most bytes of a request's head.
    pub(crate) head_bytes: usize,
    /// Most bytes of a request's body.
    pub(crate) body_bytes: u64,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Settings {
        let header = |name: &String| name.parse().ok();
        let kv_fresh = config.kv_lease.0 / 2;
        assert!(kv_fresh <= config.kv_lease.0, "KV is another prompt's after its lease");
        Settings {
            region: config.region.clone(),
            paths: config.paths.clone(),
            engine_fields: config.engine_fields,
            isolates: config.isolation == Isolation::Tenant,
            key_headers: config.keys.headers.iter().filter_map(header).collect(),
            tenant_header: header(&config.keys.tenant_header),
            timeouts: config.timeouts,
            kv_fresh,
            resume: config.resume,
            head_bytes: config.limits.headers.bytes(),
            body_bytes: config.limits.body.0,
        }
    }
}
