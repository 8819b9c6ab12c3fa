//! Metrics of the issuers of tokens. The label is an issuer's URL from the configuration.

use meridian_protocol::admin::Status;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{Float, set};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct IssuerLabel {
    issuer: String,
}

#[derive(Default)]
pub(super) struct Issuers {
    good: Family<IssuerLabel, Float>,
    keys: Family<IssuerLabel, Float>,
    age: Family<IssuerLabel, Float>,
    failures: Family<IssuerLabel, Counter>,
}

impl Issuers {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("issuer_good", "1 when its keys were last fetched well", self.good.clone());
        r.register("issuer_keys", "Its keys in force", self.keys.clone());
        let help = "Seconds since its keys were last fetched";
        r.register("issuer_keys_age_seconds", help, self.age.clone());
        r.register("issuer_failures", "Fetches of its keys that failed", self.failures.clone());
    }

    pub(super) fn copy(&self, status: &Status) {
        // A reload may remove an issuer.
        [&self.good, &self.keys, &self.age].iter().for_each(|family| family.clear());
        self.failures.clear();
        for issuer in &status.issuers {
            let label = IssuerLabel { issuer: issuer.issuer.clone() };
            let good = issuer.trouble.is_none() && issuer.good_s.is_some();
            self.good.get_or_create(&label).set(f64::from(u8::from(good)));
            self.keys.get_or_create(&label).set(issuer.keys as f64);
            if let Some(age) = issuer.good_s {
                self.age.get_or_create(&label).set(age);
            }
            set(&self.failures.get_or_create(&label), issuer.failures);
        }
    }
}
