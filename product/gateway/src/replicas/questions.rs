//! The gateway's own requests to replicas: small pages, within `timeouts.probe`.

use std::sync::Arc;

use http::uri::Authority;
use meridian_base::Duration;

use crate::fault::AttemptError;
use crate::inputs::in_force::ConfigNow;
use crate::replicas::dial::Dial;
use crate::replicas::member::Member;
use crate::replicas::upstream::{Page, Upstream};

/// Connections for discovery and probes. Within the region they are separate from those of
/// requests.
pub(crate) struct Questions {
    near: Upstream,
    /// To replicas of other regions; shared with requests.
    far: Upstream,
    config: Arc<ConfigNow>,
}

impl Questions {
    pub(crate) fn new(config: Arc<ConfigNow>, near: Upstream, far: Upstream) -> Questions {
        Questions { near, far, config }
    }

    /// Timeout of an answer: `timeouts.probe`.
    pub(crate) fn limit(&self) -> Duration {
        self.config.now().settings.timeouts.probe.0
    }

    /// Interval between two questions that no request waits for: `probe.idle`.
    pub(crate) fn pace(&self) -> Duration {
        self.config.now().routing.probe.idle
    }

    /// Gets a page of a replica within `limit`.
    pub(crate) async fn get(
        &self,
        member: &Member,
        path: &str,
        limit: Duration,
    ) -> Result<Page, AttemptError> {
        self.at(member, &member.dial, path, limit).await
    }

    /// Gets a page of another server of a replica.
    pub(crate) async fn page(
        &self,
        member: &Member,
        at: &Authority,
        path: &str,
    ) -> Result<Page, AttemptError> {
        self.at(member, &member.dial.plain(at.clone()), path, self.limit()).await
    }

    async fn at(
        &self,
        member: &Member,
        at: &Arc<Dial>,
        path: &str,
        limit: Duration,
    ) -> Result<Page, AttemptError> {
        let upstream = if member.rtt().is_zero() { &self.near } else { &self.far };
        let page = upstream.get(at, path, limit).await;
        page.map_err(|e| AttemptError { message: format!("GET {path}: {e}"), ..e })
    }
}
