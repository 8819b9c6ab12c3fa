//! Prometheus metrics. Every label has few values by construction: reasons and outcomes come from
//! fixed lists, replicas are limited by `limits.replicas`, peers and fallbacks by the configuration, and
//! models and tenants by constants. No client input becomes a label.

mod buckets;
mod certificates;
mod intervals;
mod issuers;
mod labels;
mod legs;
mod page;
mod peers;
mod pools;
mod requests;
mod residency;
mod shadow;
mod sources;

use std::sync::Arc;
use std::time::Duration;

use meridian_protocol::admin::Status;
use meridian_routing::{Outcome, Why};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use self::labels::{EndedAs, Fallback, FieldLabel, Kind, Limit, Reason, Sink};
pub(crate) use self::legs::KvAlarm;
use self::page::Page;
pub(crate) use self::requests::RequestMetrics;
use crate::fault::Fault;
use crate::model_ids::ModelIds;
use crate::refusal::Refusal;

pub(crate) struct Metrics {
    registry: Registry,
    decisions: Family<Reason, Counter>,
    refusals: Family<Reason, Counter>,
    limited: Family<Limit, Counter>,
    retries: Family<Reason, Counter>,
    resumes: Family<EndedAs, Counter>,
    fallbacks: Family<Fallback, Counter>,
    engine_fields: Family<FieldLabel, Counter>,
    probe_failures: Counter,
    odd: Family<Kind, Counter>,
    records_dropped: Family<Sink, Counter>,
    legs: legs::Legs,
    /// Fed by the records of requests.
    pub(crate) requests: Arc<RequestMetrics>,
    upstream: Histogram,
    page: Page,
    pools: pools::Pools,
    peers: peers::Peers,
    intervals: intervals::Intervals,
    residency: residency::Residency,
    shadow: shadow::Shadow,
    sources: sources::Sources,
    certificates: certificates::Certificates,
    issuers: issuers::Issuers,
}

impl Metrics {
    /// `model_ids` names the models.
    pub(crate) fn new(model_ids: Arc<ModelIds>) -> Metrics {
        let metrics = Metrics {
            registry: Registry::with_prefix("meridian"),
            decisions: Family::default(),
            refusals: Family::default(),
            limited: Family::default(),
            retries: Family::default(),
            resumes: Family::default(),
            fallbacks: Family::default(),
            engine_fields: Family::default(),
            probe_failures: Counter::default(),
            odd: Family::default(),
            records_dropped: Family::default(),
            legs: legs::Legs::default(),
            requests: Arc::new(RequestMetrics::new(model_ids)),
            upstream: buckets::step(),
            page: Page::default(),
            pools: pools::Pools::default(),
            peers: peers::Peers::default(),
            intervals: intervals::Intervals::default(),
            residency: residency::Residency::default(),
            shadow: shadow::Shadow::default(),
            sources: sources::Sources::default(),
            certificates: certificates::Certificates::default(),
            issuers: issuers::Issuers::default(),
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
        r.register("resumes", "Streams that broke, by outcome", self.resumes.clone());
        let help = "Requests given to another model, by the model asked for and that one";
        r.register("fallbacks", help, self.fallbacks.clone());
        let fields = "Fields and headers of clients that only engines send each other";
        r.register("engine_fields", fields, self.engine_fields.clone());
        r.register("probe_failures", "Probes without a usable answer", self.probe_failures.clone());
        r.register("odd_answers", "Answers unlike what was asked for", self.odd.clone());
        let help =
            "Lines of the access log and the journal, and requests of traces, that were lost";
        r.register("records_dropped", help, self.records_dropped.clone());
        let help = "Last attempt sent to its end";
        r.register_with_unit("upstream", help, Unit::Seconds, self.upstream.clone());
        self.requests.register(&mut self.registry);
        self.legs.register(&mut self.registry);
        self.page.register(&mut self.registry);
        self.pools.register(&mut self.registry);
        self.peers.register(&mut self.registry);
        self.intervals.register(&mut self.registry);
        self.residency.register(&mut self.registry);
        self.shadow.register(&mut self.registry);
        self.sources.register(&mut self.registry);
        self.certificates.register(&mut self.registry);
        self.issuers.register(&mut self.registry);
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

    pub(crate) fn retried(&self, fault: Fault) {
        let reason = match fault {
            Fault::Full => "engine_full",
            Fault::Replica | Fault::Engine | Fault::Died => "replica_failed",
            Fault::Unreached => "replica_unreachable",
            Fault::NotServed => "model_not_served",
            Fault::PeerFull => "peer_full",
            Fault::PeerNoRoom => "peer_no_room",
            Fault::Peer | Fault::PeerDied => "peer_failed",
        };
        self.retries.get_or_create(&Reason { reason }).inc();
    }

    /// Counts a broken stream that might be resumed.
    pub(crate) fn resumed(&self, outcome: &'static str) {
        self.resumes.get_or_create(&EndedAs { outcome }).inc();
    }

    /// Counts a request that is given to another model; both names are of the configuration.
    pub(crate) fn gives_way(&self, model: &str, to: &str) {
        let of = Fallback { model: model.to_owned(), to: to.to_owned() };
        self.fallbacks.get_or_create(&of).inc();
    }

    /// Counts a private engine field sent by a client; `field` is one of a short list.
    pub(crate) fn engine_field(&self, field: &'static str) {
        self.engine_fields.get_or_create(&FieldLabel { field }).inc();
    }

    pub(crate) fn probe_failed(&self) {
        self.probe_failures.inc();
    }

    /// Counts an answer unlike the one that was asked for; `kind` is one of a short list.
    pub(crate) fn odd(&self, kind: &'static str) {
        self.odd.get_or_create(&Kind { kind }).inc();
    }

    /// The counter of lost lines of the access log or of the journal.
    pub(crate) fn records_dropped(&self, sink: &'static str) -> Counter {
        self.records_dropped.get_or_create_owned(&Sink { sink })
    }

    /// An answer has ended; its last attempt was sent `upstream` ago.
    pub(crate) fn answered(&self, outcome: Outcome, upstream: Duration) {
        if outcome == Outcome::Done {
            self.upstream.observe(upstream.as_secs_f64());
        }
    }

    /// The page for a scraper, with the number of client connections and the bytes of bodies in
    /// memory.
    pub(crate) fn page(&self, status: &Status, connections: usize, body_bytes: usize) -> String {
        let models = status.replicas.iter().flat_map(|replica| &replica.models);
        models.for_each(|model| self.requests.knows(model));
        self.page.copy(status);
        self.pools.copy(status);
        self.peers.copy(status);
        self.intervals.copy(status);
        self.residency.copy(status);
        self.shadow.copy(status);
        self.sources.copy(status);
        self.certificates.copy(status);
        self.issuers.copy(status);
        self.page.connections.set(connections as f64);
        self.page.body_bytes.set(body_bytes as f64);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use meridian_protocol::admin::{
        Control, Issuer, Peer, Residency, RuleCounts, Shadow, Transfers,
    };

    use meridian_protocol::intervals::History;

    use super::*;
    use crate::facts::tests::answered;

    // The series of a control plane, without labels, are on the page only where one is followed.
    #[test]
    fn control_plane() {
        let metrics = Metrics::new(Arc::default());
        let page = |control| metrics.page(&Status { control, ..Status::default() }, 0, 0);
        assert!(!page(None).contains("control"), "{}", page(None));
        let control = Control { state: "up".to_owned(), losses: 2, moves: 3, ..Control::default() };
        let page = page(Some(control));
        for line in [
            "meridian_control_up{} 1.0\n",
            "meridian_control_losses_total{} 2\n",
            "meridian_control_moves_total{} 3\n",
        ] {
            assert!(page.contains(line), "{page}");
        }
    }

    // The page and its documentation list the same metrics.
    #[test]
    fn documented() {
        let mut page = String::new();
        let metrics = Metrics::new(Arc::default());
        // A family without members does not appear on the page.
        let (replicas, control) = (vec![Default::default()], Some(Default::default()));
        let mut status = Status { replicas, control, ..Status::default() };
        let all = Some(1);
        status.replicas[0].transfers =
            Some(Transfers { bytes: all, failed: all, expired: all, late: all });
        status.pools = vec![Default::default()];
        status.links = Some(Default::default());
        metrics.page.copy(&status);
        metrics.pools.copy(&status);
        let mut history = History::default();
        history.enter(0, "down", "refused");
        let standing = history.standing(1);
        status.replicas[0].standing.clone_from(&standing);
        let peer = Peer { digest_age_ms: Some(1.0), standing, ..Peer::default() };
        status.peers = vec![peer];
        metrics.peers.copy(&status);
        metrics.intervals.copy(&status);
        metrics.requests.ended(&answered());
        let residency = Residency { rules: vec![RuleCounts::default()], breaches: 0 };
        metrics.residency.copy(&Status { residency: Some(residency), ..Status::default() });
        let decisions = [("same".to_owned(), 1)].into();
        let shadow = Some(Shadow { decisions, ..Shadow::default() });
        metrics.shadow.copy(&Status { shadow, ..Status::default() });
        let certificates = vec![Default::default()];
        metrics.certificates.copy(&Status { certificates, ..Status::default() });
        let issuers = vec![Issuer { good_s: Some(1.0), ..Issuer::default() }];
        metrics.issuers.copy(&Status { issuers, ..Status::default() });
        metrics.decided(&Why::Turn);
        metrics.refused(&Refusal::draining());
        metrics.limited.get_or_create(&Limit { limit: "requests" }).inc();
        metrics.retried(Fault::Full);
        metrics.engine_field("kv_transfer_params");
        metrics.odd("not_json");
        let _ = metrics.records_dropped("journal");
        metrics.gives_way("m", "n");
        metrics.fell_back("prefill");
        metrics.stays_whole("answers");
        metrics.kv_alarm(KvAlarm::Late, 1);
        encode(&mut page, &metrics.registry).expect("writing to a string does not fail");
        let docs = include_str!("../../../../docs/observability.md");
        let names: Vec<&str> = page
            .lines()
            .filter_map(|l| l.strip_prefix("# HELP "))
            .filter_map(|l| l.split(' ').next())
            .collect();
        assert!(names.len() >= 38, "{names:?}");
        for name in names {
            assert!(docs.contains(&format!("| `{name}")), "{name} is not in docs/observability.md");
        }
    }
}
