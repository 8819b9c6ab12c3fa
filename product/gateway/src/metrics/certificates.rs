//! Metrics of the certificates in force.

use meridian_protocol::admin::Status;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::Float;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PortLabel {
    port: String,
}

#[derive(Default)]
pub(super) struct Certificates {
    expiry: Family<PortLabel, Float>,
}

impl Certificates {
    pub(super) fn register(&self, r: &mut Registry) {
        let help = "When the certificate of a port expires, in seconds since 1970";
        r.register("certificate_expiry_seconds", help, self.expiry.clone());
    }

    pub(super) fn copy(&self, status: &Status) {
        for row in &status.certificates {
            let label = PortLabel { port: row.port.clone() };
            self.expiry.get_or_create(&label).set(row.expires as f64);
        }
    }
}
