//! In place of `kubernetes.rs` in a build without that feature: a source that always fails.

use std::sync::Arc;

use meridian_config as config;

use super::source::Source;

const WHY: &str = "this build has no Kubernetes; use one with the feature `kubernetes`, as packages are, or discover replicas by `dns`";

pub(super) async fn keep(source: Arc<Source>, _: &config::Kubernetes) {
    if source.failed(WHY) {
        source.log_trouble(WHY);
    }
    std::future::pending().await
}

pub(crate) async fn meet(_: &config::Kubernetes) -> Result<String, String> {
    Err(WHY.to_owned())
}
