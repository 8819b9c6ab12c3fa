//! The parts that requests are answered with. Only the request path, the clients' port and the code that
//! puts a gateway together name them as one; everything below is handed the part that it uses.

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

/// The parts that all threads answer requests with.
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
    /// Pages that may read answers; without it none may.
    pub(crate) cors: Option<Cors>,
}

/// The gateway's settings for requests.
pub(crate) struct Settings {
    pub(crate) region: String,
    /// Paths beside the API's that pass to replicas.
    pub(crate) paths: Vec<String>,
    pub(crate) engine_fields: EngineFields,
    /// Tenants share no prefixes.
    pub(crate) isolates: bool,
    /// Headers that may hold the affinity key, first found.
    pub(crate) key_headers: Vec<HeaderName>,
    /// The header in which clients name their tenant.
    pub(crate) tenant_header: Option<HeaderName>,
    pub(crate) timeouts: Timeouts,
    /// Where broken streams are continued.
    pub(crate) resume: Option<config::Resume>,
    /// The most bytes of a request's head.
    pub(crate) head_bytes: usize,
    /// The most bytes of a request's body.
    pub(crate) body_bytes: u64,
}

/// The sources of what a request brings to the decision.
pub(crate) struct Inputs {
    pub(crate) access: Arc<AccessNow>,
    pub(crate) reading: Arc<ReadingNow>,
    pub(crate) ratios: Ratios,
    pub(crate) pins: Arc<Pins>,
    pub(crate) salts: Salts,
    pub(crate) residency: Arc<Residency>,
}

/// The limits that hold for all requests together.
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

/// What one thread answers requests with: the data plane, and connections of its own.
pub(crate) struct Worker {
    plane: Arc<DataPlane>,
    upstream: Upstream,
}

impl Worker {
    pub(crate) fn new(plane: Arc<DataPlane>, upstream: Upstream) -> Worker {
        Worker { plane, upstream }
    }

    /// The connections to a replica: this thread's own, or those to other regions that all threads
    /// share.
    pub(crate) fn upstream(&self, member: &Member) -> &Upstream {
        if member.rtt().is_zero() { &self.upstream } else { &self.plane.far }
    }
}

impl Deref for Worker {
    type Target = DataPlane;
    fn deref(&self) -> &DataPlane {
        &self.plane
    }
}
