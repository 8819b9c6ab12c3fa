//! What requests share: limits, settings, and handles to the parts that decide and answer.

use std::ops::Deref;
use std::sync::Arc;

use http::HeaderName;
use meridian_base::keyed;
use meridian_wire::config::{Gateway as Config, Isolation};

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

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) driver: Arc<Driver>,
    pub(crate) fleet: Arc<Fleet>,
    /// To replicas of other regions.
    pub(crate) far: Upstream,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) pins: Arc<Pins>,
    pub(crate) ratios: Ratios,
    pub(crate) requests: Bound,
    pub(crate) bodies: Bound,
    pub(crate) draining: Draining,
    /// How prompts are fingerprinted.
    pub(crate) reading: Arc<ReadingNow>,
    pub(crate) key_headers: Vec<HeaderName>,
    pub(crate) tenant_header: Option<HeaderName>,
    pub(crate) access: Arc<AccessNow>,
    /// Of the engines' prefix caches.
    pub(crate) salts: Salts,
    pub(crate) residency: Arc<Residency>,
    /// Whose pages may read answers; none's without.
    pub(crate) cors: Option<Cors>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) explain: Arc<Explain>,
    pub(crate) peers: Option<Arc<Peers>>,
}

impl Shared {
    pub(crate) fn isolates(&self) -> bool {
        self.config.isolation == Isolation::Tenant
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.has_begun()
    }

    /// A keyed hash of something a client sent, 0 for nothing.
    pub(crate) fn hash(&self, bytes: Option<&[u8]>) -> u64 {
        bytes.map_or(0, |b| keyed(self.reading.seed, b))
    }
}

/// What one thread answers requests with.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    upstream: Upstream,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, upstream: Upstream) -> Worker {
        Worker { shared, upstream }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What reaches a replica: this thread's own connections, or those to other regions that all
    /// threads share.
    pub(crate) fn upstream(&self, member: &Member) -> &Upstream {
        if member.rtt().is_zero() { &self.upstream } else { &self.shared.far }
    }
}

impl Deref for Worker {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}
