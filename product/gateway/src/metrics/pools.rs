//! Metrics of the pools of prefill and decode replicas, which a scrape copies from the status page.

use meridian_protocol::admin::{Pool, Replica, Status};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{Float, set};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PoolLabel {
    model: String,
    role: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReplicaLabel {
    replica: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NoLabels {}

type Gauge = (&'static str, &'static str, fn(&Pool) -> f64);

/// One value for each pool.
const GAUGES: [Gauge; 9] = [
    ("pool_replicas", "Replicas of a model with a role", |p| f64::from(p.replicas)),
    ("pool_replicas_up", "Of those, up", |p| f64::from(p.up)),
    ("pool_replicas_needed", "Replicas that the load needs", |p| f64::from(p.needed)),
    ("pool_pending", "Accepted by their engines, not in a batch yet", |p| f64::from(p.pending)),
    ("pool_running", "In their batches", |p| f64::from(p.running)),
    ("pool_front_tokens", "Prompt tokens to compute before new ones", |p| p.front_tokens.into()),
    ("pool_held_tokens", "Tokens of KV prefilled and not fetched", |p| p.held_tokens.into()),
    ("pool_moving_tokens", "Tokens of KV under way", |p| p.moving_tokens.into()),
    ("pool_kv_used_ratio", "Mean reported share of KV in use", |p| p.kv_used.into()),
];

type Count = (&'static str, &'static str, fn(&Replica) -> Option<u64>);

/// One count for each replica; those of an engine only if it reports them.
const COUNTS: [Count; 6] = [
    ("replica_fetched", "Prompts whose KV came from a prefill replica", |r| Some(r.fetched)),
    ("replica_fetched_tokens", "Tokens of that KV, estimated", |r| Some(r.fetched_tokens)),
    ("replica_kv_bytes", "KV that its engine fetched", |r| r.transfers?.bytes),
    ("replica_kv_failed", "Transfers that failed, as it reports", |r| r.transfers?.failed),
    ("replica_kv_expired", "Prompts whose KV it released unread", |r| r.transfers?.expired),
    ("replica_kv_late", "Transfers that ended after its release", |r| r.transfers?.late),
];

/// Copied at each scrape.
#[derive(Default)]
pub(super) struct Pools {
    gauges: [Family<PoolLabel, Float>; GAUGES.len()],
    counts: [Family<ReplicaLabel, Counter>; COUNTS.len()],
    /// Absent without pairs.
    cut: Family<NoLabels, Float>,
}

impl Pools {
    pub(super) fn register(&self, r: &mut Registry) {
        for ((name, help, _), family) in GAUGES.iter().zip(&self.gauges) {
            r.register(*name, *help, family.clone());
        }
        for ((name, help, _), family) in COUNTS.iter().zip(&self.counts) {
            r.register(*name, *help, family.clone());
        }
        r.register("pairs_cut", "Pairs that pause as transfers failed", self.cut.clone());
    }

    pub(super) fn copy(&self, status: &Status) {
        // Removes the series of pools and replicas that left.
        self.gauges.iter().for_each(Family::clear);
        self.counts.iter().for_each(Family::clear);
        self.cut.clear();
        for pool in &status.pools {
            let label = PoolLabel { model: pool.model.clone(), role: pool.role.clone() };
            for ((_, _, value), family) in GAUGES.iter().zip(&self.gauges) {
                family.get_or_create(&label).set(value(pool));
            }
        }
        for replica in &status.replicas {
            let label = ReplicaLabel { replica: replica.name.clone() };
            for ((_, _, count), family) in COUNTS.iter().zip(&self.counts) {
                if let Some(count) = count(replica) {
                    set(&family.get_or_create(&label), count);
                }
            }
        }
        if let Some(links) = &status.links {
            self.cut.get_or_create(&NoLabels {}).set(links.cut.len() as f64);
        }
    }
}
