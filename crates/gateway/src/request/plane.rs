//! The shared parts for answering requests. Only the request path, the client port and the code
//! that builds a gateway use them as a whole; everything below receives the parts that it needs.

use std::ops::Deref;
use std::sync::Arc;

use http::HeaderName;
use meridian_wire::config::{self, EngineFields, Gateway as Config, Isolation, Timeouts};

use crate::access::AccessNow;
use crate::admin::explain::Explain;
use crate::draining::Draining;
use crate::http::cors::Cors;
use crate::http::limits::Bound;
use crate::ids::Ids;
use crate::inputs::fingerprint::ReadingNow;
use crate::inputs::pins::Pins;
use crate::inputs::residency::Residency;
use crate::inputs::salts::Salts;
use crate::machine::driver::Driver;
use crate::machine::ratios::Ratios;
use crate::metrics::Metrics;
use crate::peers::all::Peers;
use crate::replicas::fleet::{Fleet, Member};
use crate::replicas::upstream::Upstream;

/// The parts that all threads use to answer requests.
pub(crate) struct DataPlane {
    pub(crate) settings: Settings,
    pub(crate) inputs: Inputs,
    pub(crate) limits: Limits,
    pub(crate) driver: Arc<Driver>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) peers: Option<Arc<Peers>>,
    /// Connections to replicas of other regions.
    pub(crate) far: Upstream,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) explain: Arc<Explain>,
    /// Web pages that may read answers; if absent, none may.
    pub(crate) cors: Option<Cors>,
}

/// The gateway's settings for requests.
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
    /// Whether and how broken streams are resumed.
    pub(crate) resume: Option<config::Resume>,
    /// Most bytes of a request's head.
    pub(crate) head_bytes: usize,
    /// Most bytes of a request's body.
    pub(crate) body_bytes: u64,
}

/// Sources of a decision's inputs.
pub(crate) struct Inputs {
    pub(crate) access: Arc<AccessNow>,
    pub(crate) reading: Arc<ReadingNow>,
    pub(crate) ratios: Ratios,
    pub(crate) pins: Arc<Pins>,
    pub(crate) salts: Salts,
    pub(crate) residency: Arc<Residency>,
}

/// Limits for all requests together.
pub(crate) struct Limits {
    pub(crate) requests: Bound,
    /// Bytes of bodies.
    pub(crate) bodies: Bound,
    pub(crate) draining: Draining,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Settings {
        let header = |name: &String| name.parse().ok();
        Settings {
            region: config.region.clone(),
            paths: config.paths.clone(),
            engine_fields: config.engine_fields,
            isolates: config.isolation == Isolation::Tenant,
            key_headers: config.keys.headers.iter().filter_map(header).collect(),
            tenant_header: header(&config.keys.tenant_header),
            timeouts: config.timeouts,
            resume: config.resume,
            head_bytes: config.limits.headers.bytes(),
            body_bytes: config.limits.body.0,
        }
    }
}

impl Limits {
    pub(crate) fn new(config: &Config) -> Limits {
        Limits {
            requests: Bound::new(config.limits.requests),
            bodies: Bound::new(config.limits.bodies.bytes()),
            draining: Draining::default(),
        }
    }
}

/// The parts of one thread: the data plane, and its own connections.
pub(crate) struct ThreadPlane {
    plane: Arc<DataPlane>,
    upstream: Upstream,
}

impl ThreadPlane {
    pub(crate) fn new(plane: Arc<DataPlane>, upstream: Upstream) -> ThreadPlane {
        ThreadPlane { plane, upstream }
    }

    /// The connection pool for a replica: this thread's own, or the shared one for other regions.
    pub(crate) fn upstream(&self, member: &Member) -> &Upstream {
        if member.rtt().is_zero() { &self.upstream } else { &self.plane.far }
    }
}

impl Deref for ThreadPlane {
    type Target = DataPlane;
    fn deref(&self) -> &DataPlane {
        &self.plane
    }
}
