//! Metrics that a scrape copies from the status page.

use meridian_protocol::admin::Status;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{EndedAs, Float, set};

/// For a series that may be absent: a family without members is not on the page.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NoLabels {}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModelLabel {
    model: String,
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
    role: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Build {
    version: String,
    commit: String,
}

/// Metrics copied from the status page at each scrape.
#[derive(Default)]
pub(super) struct Page {
    requests: Family<EndedAs, Counter>,
    reload_problems: Float,
    in_flight: Float,
    held: Float,
    model_held: Family<ModelLabel, Float>,
    sessions: Float,
    largest_session: Float,
    /// These six are absent without a control plane.
    control_up: Family<NoLabels, Float>,
    control_losses: Family<NoLabels, Counter>,
    control_moves: Family<NoLabels, Counter>,
    control_revision: Family<NoLabels, Float>,
    control_view_age: Family<NoLabels, Float>,
    adopted: Family<NoLabels, Float>,
    pub(super) connections: Float,
    pub(super) body_bytes: Float,
    prompt_tokens: Counter,
    matched_tokens: Counter,
    known_prompt_tokens: Counter,
    cached_tokens: Counter,
    build: Family<Build, Float>,
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

impl Page {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("build_info", "1, with the version of the program", self.build.clone());
        r.register("requests", "Requests read whole, by how they ended", self.requests.clone());
        let help = "Parts whose newest reload failed";
        r.register("reload_problems", help, self.reload_problems.clone());
        r.register("requests_in_flight", "Requests not ended yet", self.in_flight.clone());
        r.register("held", "Requests held for want of room", self.held.clone());
        let help = "Of these, those of a model";
        r.register("model_held", help, self.model_held.clone());
        r.register("sessions", "Sessions served within minutes", self.sessions.clone());
        let help = "Share of their tokens that the largest one was served";
        r.register("session_largest_share", help, self.largest_session.clone());
        r.register("control_up", "1 when the control plane is followed", self.control_up.clone());
        r.register("control_losses", "Times it was lost", self.control_losses.clone());
        let moves = "Moves to another control plane";
        r.register("control_moves", moves, self.control_moves.clone());
        r.register("control_revision", "Revision of the view", self.control_revision.clone());
        let age = "Seconds since the control plane last confirmed the view";
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

    pub(super) fn copy(&self, status: &Status) {
        let Status { version, commit, .. } = status;
        let build = Build { version: version.clone(), commit: commit.clone() };
        self.build.get_or_create(&build).set(1.0);
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
        self.reload_problems.set(status.reload_problems.len() as f64);
        self.in_flight.set(q.in_flight as f64);
        self.held.set(f64::from(status.held));
        self.sessions.set(f64::from(status.sessions.known));
        self.largest_session.set(status.sessions.largest_share);
        self.model_held.clear();
        for pool in status.pools.iter().filter(|pool| !pool.model.is_empty()) {
            self.model_held.get_or_create(&ModelLabel { model: pool.model.clone() }).set(0.0);
        }
        for (model, held) in &status.held_by_model {
            let label = ModelLabel { model: model.clone() };
            self.model_held.get_or_create(&label).set(f64::from(*held));
        }
        if let Some(control) = &status.control {
            let gauges = [
                (&self.control_up, f64::from(u8::from(control.state == "up"))),
                (&self.control_revision, control.revision as f64),
                (&self.control_view_age, control.view_age_s.unwrap_or_default()),
                (&self.adopted, control.adopted_replicas as f64),
            ];
            for (family, value) in gauges {
                family.get_or_create(&NoLabels {}).set(value);
            }
            set(&self.control_losses.get_or_create(&NoLabels {}), control.losses);
            set(&self.control_moves.get_or_create(&NoLabels {}), control.moves);
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
        // Removes the series of replicas that left.
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
                role: r.role.clone(),
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
