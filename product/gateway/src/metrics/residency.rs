//! Metrics of residency. A rule's label is its name in the configuration, or `others`.

use meridian_protocol::admin::Status;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::set;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RuleEnd {
    rule: String,
    outcome: &'static str,
}

#[derive(Default)]
pub(super) struct Residency {
    requests: Family<RuleEnd, Counter>,
    breaches: Counter,
}

impl Residency {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("residency", "Requests that a residency rule names", self.requests.clone());
        r.register("residency_breaches", "Answers given where none may be", self.breaches.clone());
    }

    pub(super) fn copy(&self, status: &Status) {
        let Some(residency) = &status.residency else { return };
        for row in &residency.rules {
            for (outcome, n) in
                [("served", row.served), ("sent", row.sent), ("refused", row.refused)]
            {
                set(&self.requests.get_or_create(&RuleEnd { rule: row.rule.clone(), outcome }), n);
            }
        }
        set(&self.breaches, residency.breaches);
    }
}
