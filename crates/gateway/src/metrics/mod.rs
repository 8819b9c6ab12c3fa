//! Prometheus metrics. Every label has few values by construction: reasons and outcomes are words
//! of fixed lists, replicas are bounded by `limits.replicas` and peers by the configuration; nothing
//! a client sends is a label.

mod peers;
mod residency;
mod sources;

use std::sync::atomic::Ordering;
use std::time::Duration;

use meridian_routing::{Outcome, Why};
use meridian_wire::admin::Status;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::error::Source;
use crate::http::refusal::Refusal;
use crate::request::odd::Odd;

type Float = Gauge<f64, std::sync::atomic::AtomicU64>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FieldLabel {
    field: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Limit {
    limit: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndedAs {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReplicaLabel {
    replica: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReplicaInfo {
    replica: String,
    url: String,
    engine: String,
    model: String,
    region: String,
}

pub(crate) struct Metrics {
    registry: Registry,
    decisions: Family<Reason, Counter>,
    refusals: Family<Reason, Counter>,
    limited: Family<Limit, Counter>,
    retries: Family<Reason, Counter>,
    resumes: Family<EndedAs, Counter>,
    engine_fields: Family<FieldLabel, Counter>,
    probe_failures: Counter,
    odd: Family<Kind, Counter>,
    ttft: Histogram,
    e2e: Histogram,
    upstream: Histogram,
    page: Page,
    peers: peers::Peers,
    residency: residency::Residency,
    sources: sources::Sources,
}

/// What is copied from the status page at each scrape.
#[derive(Default)]
struct Page {
    requests: Family<EndedAs, Counter>,
    in_flight: Float,
    held: Float,
    control_up: Float,
    control_losses: Counter,
    control_revision: Float,
    control_view_age: Float,
    adopted: Float,
    connections: Float,
    body_bytes: Float,
    prompt_tokens: Counter,
    matched_tokens: Counter,
    known_prompt_tokens: Counter,
    cached_tokens: Counter,
    info: Family<ReplicaInfo, Float>,
    up: Family<ReplicaLabel, Float>,
    breaker_open: Family<ReplicaLabel, Float>,
    pending: Family<ReplicaLabel, Float>,
    running: Family<ReplicaLabel, Float>,
    outstanding: Family<ReplicaLabel, Float>,
    kv_used: Family<ReplicaLabel, Float>,
    dispatched: Family<ReplicaLabel, Counter>,
    failed: Family<ReplicaLabel, Counter>,
    drift: Family<ReplicaLabel, Float>,
    trust: Family<ReplicaLabel, Float>,
    ms_per_token: Family<ReplicaLabel, Float>,
}

fn seconds() -> Histogram {
    // 1 ms to 131 s by doubling.
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let metrics = Metrics {
            registry: Registry::with_prefix("meridian"),
            decisions: Family::default(),
            refusals: Family::default(),
            limited: Family::default(),
            retries: Family::default(),
            resumes: Family::default(),
            engine_fields: Family::default(),
            probe_failures: Counter::default(),
            odd: Family::default(),
            ttft: seconds(),
            e2e: seconds(),
            upstream: seconds(),
            page: Page::default(),
            peers: peers::Peers::default(),
            residency: residency::Residency::default(),
            sources: sources::Sources::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Metrics {
        let r = &mut self.registry;
        r.register("decisions", "Dispatches by the policy's reason", self.decisions.clone());
        r.register("refusals", "Requests the gateway refused, by cause", self.refusals.clone());
        let help = "Of those, requests over a limit of their tenant, by limit";
        r.register("rate_limited", help, self.limited.clone());
        r.register("retries", "Attempts repeated elsewhere, by cause", self.retries.clone());
        r.register("resumes", "Streams that broke, by what came of it", self.resumes.clone());
        let fields = "Fields and headers of clients that only engines send each other";
        r.register("engine_fields", fields, self.engine_fields.clone());
        r.register("probe_failures", "Probes without a usable answer", self.probe_failures.clone());
        r.register("odd_answers", "Answers unlike what was asked for", self.odd.clone());
        let s = || Unit::Seconds;
        r.register_with_unit(
            "ttft_gateway",
            "Request's first byte in to first token",
            s(),
            self.ttft.clone(),
        );
        r.register_with_unit(
            "e2e_gateway",
            "Request's first byte in to its end",
            s(),
            self.e2e.clone(),
        );
        r.register_with_unit(
            "upstream",
            "Last attempt sent to its end",
            s(),
            self.upstream.clone(),
        );
        self.page.register(&mut self.registry);
        self.peers.register(&mut self.registry);
        self.residency.register(&mut self.registry);
        self.sources.register(&mut self.registry);
        self
    }

    pub(crate) fn decided(&self, why: &Why) {
        self.decisions.get_or_create(&Reason { reason: why.word() }).inc();
    }

    pub(crate) fn refused(&self, refusal: &Refusal) {
        self.refusals.get_or_create(&Reason { reason: refusal.code }).inc();
        if let Some(limited) = &refusal.limited {
            self.limited.get_or_create(&Limit { limit: limited.limit }).inc();
        }
    }

    pub(crate) fn retried(&self, source: Source) {
        let reason = match source {
            Source::Full => "engine_full",
            Source::Replica | Source::Engine | Source::Died => "replica_failed",
            Source::Unreached => "replica_unreachable",
            Source::PeerFull => "peer_full",
            Source::PeerNoRoom => "peer_no_room",
            Source::Peer | Source::PeerDied => "peer_failed",
        };
        self.retries.get_or_create(&Reason { reason }).inc();
    }

    /// A stream broke where it might be gone on with.
    pub(crate) fn resumed(&self, outcome: &'static str) {
        self.resumes.get_or_create(&EndedAs { outcome }).inc();
    }

    /// A client sent what only engines send each other; `field` is one of a short list.
    pub(crate) fn engine_field(&self, field: &'static str) {
        self.engine_fields.get_or_create(&FieldLabel { field }).inc();
    }

    pub(crate) fn probe_failed(&self) {
        self.probe_failures.inc();
    }

    pub(crate) fn odd(&self, odd: Odd) {
        self.odd.get_or_create(&Kind { kind: odd.word() }).inc();
    }

    pub(crate) fn first_token(&self, ttft: Duration) {
        self.ttft.observe(ttft.as_secs_f64());
    }

    pub(crate) fn ended(&self, outcome: Outcome, e2e: Duration, upstream: Duration) {
        if outcome == Outcome::Done {
            self.e2e.observe(e2e.as_secs_f64());
            self.upstream.observe(upstream.as_secs_f64());
        }
    }

    /// The page for a scraper, with the connections of clients and the bytes of bodies in memory.
    pub(crate) fn page(&self, status: &Status, connections: usize, body_bytes: usize) -> String {
        self.page.copy(status);
        self.peers.copy(status);
        self.residency.copy(status);
        self.sources.copy(status);
        self.page.connections.set(connections as f64);
        self.page.body_bytes.set(body_bytes as f64);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }
}

impl Page {
    fn register(&self, r: &mut Registry) {
        r.register("requests", "Requests read whole, by how they ended", self.requests.clone());
        r.register("requests_in_flight", "Requests not ended yet", self.in_flight.clone());
        r.register("held", "Requests held for want of room", self.held.clone());
        r.register("control_up", "1 when the control plane is followed", self.control_up.clone());
        r.register("control_losses", "Times it was lost", self.control_losses.clone());
        r.register("control_revision", "Revision of the view", self.control_revision.clone());
        let age = "Seconds since the control plane last told that the view holds";
        r.register("control_view_age_seconds", age, self.control_view_age.clone());
        r.register("adopted_replicas", "Replicas of other regions", self.adopted.clone());
        r.register("connections", "Client connections", self.connections.clone());
        r.register("body_bytes", "Bytes of request bodies in memory", self.body_bytes.clone());
        r.register(
            "prompt_tokens",
            "Prompt tokens dispatched, estimated",
            self.prompt_tokens.clone(),
        );
        r.register("matched_tokens", "Of those, expected in cache", self.matched_tokens.clone());
        r.register(
            "known_prompt_tokens",
            "Prompt tokens engines counted",
            self.known_prompt_tokens.clone(),
        );
        r.register("cached_tokens", "Of those, found in cache", self.cached_tokens.clone());
        r.register("replica_info", "1 for each replica, with what it is", self.info.clone());
        r.register("replica_up", "1 when the replica answers its probes", self.up.clone());
        r.register(
            "replica_breaker_open",
            "1 when its breaker is not closed",
            self.breaker_open.clone(),
        );
        r.register(
            "replica_pending",
            "Reported pending and dispatches since",
            self.pending.clone(),
        );
        r.register("replica_running", "In the replica's batch", self.running.clone());
        r.register(
            "replica_outstanding",
            "Dispatched there and not ended",
            self.outstanding.clone(),
        );
        r.register("replica_kv_used_ratio", "Reported share of KV in use", self.kv_used.clone());
        r.register("replica_dispatched", "Attempts sent", self.dispatched.clone());
        r.register("replica_failed", "Attempts that failed by its fault", self.failed.clone());
        r.register("replica_drift", "Requests it has beyond ours", self.drift.clone());
        r.register(
            "replica_index_trust_ratio",
            "Weight of inferred prefix matches",
            self.trust.clone(),
        );
        r.register(
            "replica_ms_per_prefill_token",
            "Learned prefill time",
            self.ms_per_token.clone(),
        );
    }

    fn copy(&self, status: &Status) {
        let q = &status.requests;
        for (outcome, n) in [
            ("done", q.done),
            ("client_error", q.client_error),
            ("rejected", q.rejected),
            ("failed", q.failed),
            ("cancelled", q.cancelled),
        ] {
            set(&self.requests.get_or_create(&EndedAs { outcome }), n);
        }
        self.in_flight.set(q.in_flight as f64);
        self.held.set(f64::from(status.held));
        if let Some(control) = &status.control {
            self.control_up.set(f64::from(u8::from(control.state == "up")));
            set(&self.control_losses, control.losses);
            self.control_revision.set(control.revision as f64);
            self.control_view_age.set(control.view_age_s.unwrap_or_default());
            self.adopted.set(control.adopted_replicas as f64);
        }
        set(&self.prompt_tokens, status.prefix.prompt_tokens);
        set(&self.matched_tokens, status.prefix.matched_tokens);
        set(&self.known_prompt_tokens, status.prefix.known_prompt_tokens);
        set(&self.cached_tokens, status.prefix.cached_tokens);
        self.copy_replicas(status);
    }

    fn copy_replicas(&self, status: &Status) {
        let gauges = [
            &self.up,
            &self.breaker_open,
            &self.pending,
            &self.running,
            &self.outstanding,
            &self.kv_used,
            &self.drift,
            &self.trust,
            &self.ms_per_token,
        ];
        // Replicas that left shall not linger.
        gauges.iter().for_each(|f| f.clear());
        [&self.dispatched, &self.failed].iter().for_each(|f| f.clear());
        self.info.clear();
        for r in &status.replicas {
            let label = ReplicaLabel { replica: r.name.clone() };
            let info = ReplicaInfo {
                replica: r.name.clone(),
                url: r.url.clone(),
                engine: r.engine.clone(),
                model: r.models.first().cloned().unwrap_or_default(),
                region: r.region.clone(),
            };
            self.info.get_or_create(&info).set(1.0);
            let values = [
                f64::from(u8::from(r.state == "up")),
                f64::from(u8::from(r.breaker != "closed")),
                f64::from(r.pending),
                f64::from(r.running),
                f64::from(r.outstanding),
                f64::from(r.kv_used),
                f64::from(r.drift),
                f64::from(r.trust),
                f64::from(r.ms_per_token),
            ];
            for (family, value) in gauges.iter().zip(values) {
                family.get_or_create(&label).set(value);
            }
            set(&self.dispatched.get_or_create(&label), r.dispatched);
            set(&self.failed.get_or_create(&label), r.failed);
        }
    }
}

/// Counts are kept with the machine; a scrape copies them.
fn set(counter: &Counter, value: u64) {
    counter.inner().store(value, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use meridian_wire::admin::{Peer, Residency, RuleCounts};

    use super::*;

    // The page and its documentation name the same metrics.
    #[test]
    fn documented() {
        let mut page = String::new();
        let metrics = Metrics::new();
        // A family without a member is not on the page.
        metrics.page.copy(&Status { replicas: vec![Default::default()], ..Status::default() });
        let peer = Peer { digest_age_ms: Some(1.0), ..Peer::default() };
        metrics.peers.copy(&Status { peers: vec![peer], ..Status::default() });
        let residency = Residency { rules: vec![RuleCounts::default()], breaches: 0 };
        metrics.residency.copy(&Status { residency: Some(residency), ..Status::default() });
        metrics.decided(&Why::Only);
        metrics.refused(&Refusal::draining());
        metrics.limited.get_or_create(&Limit { limit: "requests" }).inc();
        metrics.retried(Source::Full);
        metrics.engine_field("kv_transfer_params");
        metrics.odd(Odd::NotJson);
        encode(&mut page, &metrics.registry).expect("writing to a string does not fail");
        let docs = include_str!("../../../../docs/gateway.md");
        let names: Vec<&str> = page
            .lines()
            .filter_map(|l| l.strip_prefix("# HELP "))
            .filter_map(|l| l.split(' ').next())
            .collect();
        assert!(names.len() >= 38, "{names:?}");
        for name in names {
            assert!(docs.contains(&format!("| `{name}")), "{name} is not in docs/gateway.md");
        }
    }
}
