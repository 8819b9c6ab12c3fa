//! What every connection shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use http::HeaderName;
use meridian_base::{ModelId, RequestId, keyed};
use meridian_wire::config::{Gateway as Config, Isolation};
use tokio_util::sync::CancellationToken;

use crate::access::AccessNow;
use crate::admin::explain::Explained;
use crate::admin::{AdminTls, Sessions};
use crate::certificates::ClientTls;
use crate::http::cors::Cors;
use crate::http::limits::Bound;
use crate::inputs::fingerprint::ReadingNow;
use crate::inputs::pins::Pins;
use crate::inputs::residency::Residency;
use crate::inputs::salts::Salts;
use crate::machine::driver::Driver;
use crate::metrics::Metrics;
use crate::peers::Peers;
use crate::registry::Following;
use crate::replicas::fleet::{Fleet, Member};
use crate::replicas::upstream::Upstream;
use crate::sources::Source;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) driver: Arc<Driver>,
    pub(crate) fleet: Arc<Fleet>,
    /// To replicas of this region, for all but requests.
    pub(crate) near: Upstream,
    /// To those of others.
    pub(crate) far: Upstream,
    pub(crate) metrics: Metrics,
    pub(crate) pins: Pins,
    pub(crate) ratios: Ratios,
    pub(crate) requests: Bound,
    pub(crate) bodies: Bound,
    pub(crate) connections: Bound,
    pub(crate) draining: AtomicBool,
    /// Ends every connection and every look at a replica.
    pub(crate) over: CancellationToken,
    /// How prompts are fingerprinted.
    pub(crate) reading: ReadingNow,
    pub(crate) key_headers: Vec<HeaderName>,
    pub(crate) tenant_header: Option<HeaderName>,
    pub(crate) access: AccessNow,
    /// Of the engines' prefix caches.
    pub(crate) salts: Salts,
    pub(crate) residency: Residency,
    /// Whose pages may read answers; none's without.
    pub(crate) cors: Option<Cors>,
    /// On the clients' port; plain without.
    pub(crate) tls: Option<ClientTls>,
    /// On the admin port; plain without.
    pub(crate) admin_tls: Option<AdminTls>,
    /// Browsers that logged in there.
    pub(crate) sessions: Sessions,
    pub(crate) ids: Ids,
    pub(crate) explained: Explained,
    pub(crate) peers: Option<Arc<Peers>>,
    pub(crate) registry: Option<Arc<Following>>,
    pub(crate) sources: Vec<Arc<Source>>,
}

impl Shared {
    /// What reaches a replica, for all but requests.
    pub(crate) fn asking(&self, member: &Member) -> &Upstream {
        if member.rtt().is_zero() { &self.near } else { &self.far }
    }

    pub(crate) fn isolates(&self) -> bool {
        self.config.isolation == Isolation::Tenant
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// A keyed hash of something a client sent, 0 for nothing.
    pub(crate) fn hash(&self, bytes: Option<&[u8]>) -> u64 {
        bytes.map_or(0, |b| keyed(self.reading.seed, b))
    }
}

/// Request ids: a counter, shown with a prefix of this process so that two gateways' logs do not
/// mix.
pub(crate) struct Ids {
    prefix: u32,
    next: AtomicU64,
}

impl Ids {
    pub(crate) fn new(seed: u64) -> Ids {
        Ids { prefix: seed as u32, next: AtomicU64::new(1) }
    }

    pub(crate) fn next(&self) -> RequestId {
        RequestId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn show(&self, id: RequestId) -> String {
        format!("req-{:08x}-{:x}", self.prefix, id.0)
    }

    pub(crate) fn parse(&self, text: &str) -> Option<RequestId> {
        let (prefix, id) = text.strip_prefix("req-")?.split_once('-')?;
        let ours = u32::from_str_radix(prefix, 16).ok()? == self.prefix;
        let id = u64::from_str_radix(id, 16).ok()?;
        ours.then_some(RequestId(id))
    }
}

/// Tokens per byte of prompt, by model: begins at a quarter and follows what engines count.
pub(crate) struct Ratios(Vec<AtomicU32>);

/// Models with a ratio of their own; further ones share.
const RATIOS: usize = 256;
/// Weight of one answer.
const GAIN: f32 = 0.05;

impl Ratios {
    pub(crate) fn new() -> Ratios {
        Ratios((0..RATIOS).map(|_| AtomicU32::new(0.25f32.to_bits())).collect())
    }

    pub(crate) fn get(&self, model: ModelId) -> f32 {
        f32::from_bits(self.slot(model).load(Ordering::Relaxed))
    }

    /// An engine counted `tokens` in a prompt of `bytes`.
    pub(crate) fn learn(&self, model: ModelId, bytes: u64, tokens: u32) {
        if bytes < 64 || tokens == 0 {
            return;
        }
        let seen = (tokens as f32 / bytes as f32).clamp(0.05, 1.5);
        let old = self.get(model);
        // Two racing updates lose one sample of many.
        self.slot(model).store((old + GAIN * (seen - old)).to_bits(), Ordering::Relaxed);
    }

    fn slot(&self, model: ModelId) -> &AtomicU32 {
        &self.0[usize::from(model.0) % RATIOS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An id shown is an id parsed; another process's is not ours.
    #[test]
    fn ids_round_trip() {
        let ids = Ids::new(0xABCD);
        let id = ids.next();
        assert_eq!(ids.parse(&ids.show(id)), Some(id));
        assert_eq!(Ids::new(1).parse(&ids.show(id)), None);
        assert_eq!(ids.parse("req-zz"), None);
    }

    // The ratio moves towards what engines count, and nonsense does not move it far.
    #[test]
    fn ratios_learn() {
        let ratios = Ratios::new();
        (0..500).for_each(|_| ratios.learn(ModelId(3), 1000, 500));
        assert!((ratios.get(ModelId(3)) - 0.5).abs() < 0.01);
        ratios.learn(ModelId(3), 10, 10_000);
        assert!((ratios.get(ModelId(3)) - 0.5).abs() < 0.01);
        assert!((ratios.get(ModelId(4)) - 0.25).abs() < 1e-6);
    }
}
