//! The metrics page: every label is a region, a gateway or a replica of the registry, or a word of a
//! fixed list.

use std::sync::atomic::{AtomicU64, Ordering};

use meridian_dns::Counters;
use meridian_protocol::intervals::{History, Intervals, REMOVED};
use meridian_protocol::registry::{RegionStatus, RoleStatus, Status};
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Float = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RegionLabel {
    region: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RoleLabel {
    region: String,
    role: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NameLabel {
    name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    name: String,
    state: String,
    cause: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueryLabel {
    kind: &'static str,
    outcome: &'static str,
    region: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

/// Figures of the records in Route 53.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostedFigures {
    /// Whether this control plane makes the changes.
    pub(super) leads: bool,
    /// Its records in the zone.
    pub(super) records: usize,
    /// When they were last as the fleet needs them, in ms since 1970.
    pub(super) last_success_ms: Option<u64>,
    /// Changes, by their kind.
    pub(super) changes: [(&'static str, u64); 4],
    /// Failed attempts.
    pub(super) failures: u64,
}

type RoleColumn = (&'static str, &'static str, fn(&RoleStatus) -> Option<f64>);

/// One value per region and role of its replicas.
const ROLE_COLUMNS: &[RoleColumn] = &[
    ("role_replicas", "Replicas of a role that should serve", |r| Some(f64::from(r.replicas))),
    ("role_replicas_up", "Of those, up according to a gateway", |r| Some(f64::from(r.up))),
    ("role_replicas_needed", "Replicas that the role's load needs", |r| r.needed.map(f64::from)),
    ("role_work", "Load of a role, as a number of fully used replicas", |r| r.work),
];

type Column = (&'static str, &'static str, fn(&RegionStatus) -> Option<f64>);

/// One value per region.
const COLUMNS: &[Column] = &[
    ("region_gateways", "Running gateways", |r| Some(r.gateways.len() as f64)),
    ("region_replicas", "Replicas that should serve", |r| Some(f64::from(r.replicas))),
    ("region_replicas_up", "Of those, up according to a gateway", |r| Some(f64::from(r.up))),
    ("region_replicas_needed", "Replicas that the load needs", |r| r.needed.map(f64::from)),
    ("region_work", "Load, as a number of fully used replicas", |r| r.work),
    ("region_held", "Requests in the queues of the region's gateways", |r| Some(f64::from(r.held))),
];

/// The page for a scraper.
pub(super) fn page(
    status: &Status,
    intervals: &Intervals,
    dns: Option<&Counters>,
    hosted: Option<HostedFigures>,
) -> String {
    let mut registry = Registry::with_prefix("meridian");
    let mut one = |name: &str, help: &str, value: f64| {
        let gauge = Float::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    one("control_revision", "The store's newest revision", status.revision as f64);
    one("control_followers", "Followers of the watch", status.followers as f64);
    one("control_unreadable", "Records that can't be read", status.unreadable.len() as f64);
    for (name, help, value) in COLUMNS {
        let family: Family<RegionLabel, Float> = Family::default();
        for (region, of) in &status.regions {
            if let Some(value) = value(of) {
                family.get_or_create(&RegionLabel { region: region.clone() }).set(value);
            }
        }
        registry.register(*name, *help, family);
    }
    for (name, help, value) in ROLE_COLUMNS {
        let family: Family<RoleLabel, Float> = Family::default();
        let all =
            status.regions.iter().flat_map(|(name, of)| of.roles.iter().map(move |r| (name, r)));
        for (region, (role, of)) in all {
            if let Some(value) = value(of) {
                let label = RoleLabel { region: region.clone(), role: role.clone() };
                family.get_or_create(&label).set(value);
            }
        }
        registry.register(*name, *help, family);
    }
    histories(&mut registry, "fleet_gateway", &intervals.gateways);
    histories(&mut registry, "fleet_replica", &intervals.replicas);
    if let Some(dns) = dns {
        name_server(&mut registry, dns);
    }
    if let Some(hosted) = hosted {
        hosted_zone(&mut registry, &hosted);
    }
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string does not fail");
    text
}

/// Queries of the name server.
fn name_server(registry: &mut Registry, counters: &Counters) {
    let queries: Family<QueryLabel, Counter> = Family::default();
    for count in counters.queries() {
        let (kind, outcome) = (count.kind.name(), count.outcome.name());
        let label = QueryLabel { kind, outcome, region: count.region };
        queries.get_or_create(&label).inner().store(count.queries, Ordering::Relaxed);
    }
    registry.register("dns_queries", "Queries, by type, outcome and serving region", queries);
    for (name, help, value) in [
        ("dns_malformed", "Messages that could not be read", counters.malformed()),
        ("dns_truncated", "Answers that were too large for UDP", counters.truncated()),
        ("dns_refused_connections", "Connections over the limit", counters.refused_connections()),
    ] {
        let counter: Counter = Counter::default();
        counter.inner().store(value, Ordering::Relaxed);
        registry.register(name, help, counter);
    }
    let connections = Float::default();
    connections.set(counters.connections() as f64);
    registry.register("dns_connections", "Open TCP connections", connections);
}

/// Records in Route 53.
fn hosted_zone(registry: &mut Registry, figures: &HostedFigures) {
    let gauges = [
        ("leads", "1 if this control plane makes the changes", f64::from(u8::from(figures.leads))),
        ("records", "Records in the hosted zone that Meridian made", figures.records as f64),
    ];
    let success = figures.last_success_ms.map(|ms| {
        let help = "When the records were last as the fleet needs them, in seconds since 1970";
        ("last_success_seconds", help, ms as f64 / 1e3)
    });
    for (name, help, value) in gauges.into_iter().chain(success) {
        let gauge = Float::default();
        gauge.set(value);
        registry.register(format!("route53_{name}"), help, gauge);
    }
    let changes: Family<KindLabel, Counter> = Family::default();
    for (kind, n) in figures.changes {
        changes.get_or_create(&KindLabel { kind }).inner().store(n, Ordering::Relaxed);
    }
    registry.register("route53_changes", "Changes of records and health checks", changes);
    let failures: Counter = Counter::default();
    failures.inner().store(figures.failures, Ordering::Relaxed);
    registry.register("route53_failures", "Attempts that failed", failures);
}

/// States, changes of state and downtime of the gateways or replicas that are not removed.
fn histories(registry: &mut Registry, prefix: &str, all: &[History]) {
    let states: Family<StateLabel, Float> = Family::default();
    let transitions: Family<StateLabel, Counter> = Family::default();
    let down: Family<NameLabel, Counter<f64, AtomicU64>> = Family::default();
    for one in all.iter().filter(|one| one.state() != Some(REMOVED)) {
        let label = |state: &str, cause: &str| StateLabel {
            name: one.name.clone(),
            state: state.to_owned(),
            cause: cause.to_owned(),
        };
        if let Some(now) = one.intervals.back() {
            states.get_or_create(&label(&now.state, &now.cause)).set(1.0);
        }
        for (state, causes) in &one.totals.transitions {
            for (cause, n) in causes {
                let counter = transitions.get_or_create(&label(state, cause));
                counter.inner().store(*n, Ordering::Relaxed);
            }
        }
        let seconds = one.totals.down_ms as f64 / 1e3;
        let counter = down.get_or_create(&NameLabel { name: one.name.clone() });
        counter.inner().store(seconds.to_bits(), Ordering::Relaxed);
    }
    let name = |what: &str| format!("{prefix}_{what}");
    registry.register(name("state"), "1 for its state, with the cause", states);
    registry.register(name("transitions"), "Changes of state, by the new one", transitions);
    registry.register(name("down_seconds"), "Time that it was down", down);
}

#[cfg(test)]
mod tests {
    use super::*;

    // The page and its documentation list the same metrics.
    #[test]
    fn documented() {
        let role = RoleStatus { needed: Some(1), work: Some(0.5), ..RoleStatus::default() };
        let roles = [("prefill".to_owned(), role)].into();
        let region =
            RegionStatus { needed: Some(1), work: Some(0.5), roles, ..RegionStatus::default() };
        let regions = [("eu".to_owned(), region)].into();
        let mut one = History::of("eu-1");
        one.enter(1000, "down", "lease_expired");
        let intervals =
            Intervals { now_ms: 3500, replicas: vec![one.at(3500)], gateways: vec![one.at(3500)] };
        let status = Status { regions, ..Status::default() };
        let hosted = HostedFigures { last_success_ms: Some(1), ..HostedFigures::default() };
        let page = page(&status, &intervals, Some(&Counters::default()), Some(hosted));
        let docs = include_str!("../../../../docs/control.md");
        let names: Vec<&str> = page
            .lines()
            .filter_map(|l| l.strip_prefix("# HELP "))
            .filter_map(|l| l.split(' ').next())
            .collect();
        assert_eq!(names.len(), 18 + COLUMNS.len() + ROLE_COLUMNS.len(), "{names:?}");
        for name in names {
            assert!(docs.contains(&format!("| `{name}`")), "{name} is not in docs/control.md");
        }
        let by_role = "meridian_role_replicas_needed{region=\"eu\",role=\"prefill\"} 1";
        assert!(page.contains(by_role), "{page}");
        let down = "meridian_fleet_gateway_down_seconds_total{name=\"eu-1\"} 2.5";
        assert!(page.contains(down), "{page}");
        assert!(page.contains("meridian_region_replicas_needed{region=\"eu\"} 1"), "{page}");
    }
}
