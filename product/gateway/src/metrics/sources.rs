//! Metrics of service discovery and of the control plane as a source of replicas. A source's label is
//! its kind and name from the configuration, so there are as many as configured sources, and one for
//! the control plane.

use meridian_protocol::admin::{EndpointCounts, Status};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{Float, set};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SourceLabel {
    source: String,
}

/// An endpoint's source, and its readiness.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndpointLabel {
    source: String,
    state: &'static str,
}

#[derive(Default)]
pub(super) struct Sources {
    good: Family<SourceLabel, Float>,
    replicas: Family<SourceLabel, Float>,
    failures: Family<SourceLabel, Counter>,
    left_out: Family<SourceLabel, Float>,
    endpoints: Family<EndpointLabel, Float>,
}

/// The label of the control plane among the sources.
const REGISTRY: &str = "control plane";

impl Sources {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("discovery_good", "1 when its newest look went well", self.good.clone());
        r.register("discovery_replicas", "Its replicas that are here", self.replicas.clone());
        r.register("discovery_failures", "Looks that failed", self.failures.clone());
        let left_out = "Replicas left out because limits.replicas is reached";
        r.register("replicas_left_out", left_out, self.left_out.clone());
        let endpoints = "Endpoints of a Kubernetes cluster in the newest list";
        r.register("discovery_endpoints", endpoints, self.endpoints.clone());
    }

    pub(super) fn copy(&self, status: &Status) {
        // A reload may remove a source.
        [&self.good, &self.replicas, &self.left_out].iter().for_each(|family| family.clear());
        self.failures.clear();
        self.endpoints.clear();
        for source in &status.discovery {
            let label = SourceLabel { source: source.name.clone() };
            let good = source.trouble.is_none() && source.good_s.is_some();
            self.good.get_or_create(&label).set(f64::from(u8::from(good)));
            self.replicas.get_or_create(&label).set(source.replicas as f64);
            set(&self.failures.get_or_create(&label), source.failures);
            self.left_out.get_or_create(&label).set(source.left_out as f64);
            let Some(endpoints) = source.endpoints else { continue };
            let EndpointCounts { ready, not_ready, terminating } = endpoints;
            let states = [("ready", ready), ("not_ready", not_ready), ("terminating", terminating)];
            for (state, count) in states {
                let label = EndpointLabel { source: source.name.clone(), state };
                self.endpoints.get_or_create(&label).set(count as f64);
            }
        }
        if let Some(control) = &status.control {
            let label = SourceLabel { source: REGISTRY.to_owned() };
            self.left_out.get_or_create(&label).set(control.left_out as f64);
        }
    }
}
