//! The parts that adopt a new configuration when a reload puts it in force, in order.
//!
//! Every other part reads the snapshot when it needs a value. These keep state of their own that
//! depends on the file: the machine, the policy beside one of the registry, the labels of regions,
//! the peers that may connect, and the lists of replicas. The snapshot itself is one of them: the
//! parts before it are ready when the first request reads it.

use std::sync::Arc;

use meridian_routing::Input;

use crate::inputs::in_force::{ConfigNow, InForce};
use crate::inputs::residency::Residency;
use crate::peers::all::Peers;
use crate::policy::PolicyNow;
use crate::record::Recent;
use crate::replicas::region::Region;
use crate::request::plane::DataPlane;
use crate::sources::Sources;

/// A part that adopts each configuration that a reload puts in force.
pub(crate) trait Follower: Send + Sync {
    /// Adopts it. It has been checked, so nothing fails here.
    fn adopt(&self, next: &Arc<InForce>);
}

/// All of them, in order.
pub(crate) fn followers(
    plane: &DataPlane,
    policy: Arc<PolicyNow>,
    sources: Arc<Sources>,
) -> Vec<Arc<dyn Follower>> {
    let DataPlane { region, inputs, peers, records, .. } = plane;
    let mut all: Vec<Arc<dyn Follower>> = vec![records.recent.clone()];
    // Before any replica joins under the new limit.
    all.push(region.clone());
    all.push(policy);
    if let Some(peers) = peers {
        all.push(peers.clone());
    }
    all.push(inputs.residency.clone());
    all.push(inputs.config.clone());
    all.push(sources);
    all
}

impl Follower for Recent {
    fn adopt(&self, next: &Arc<InForce>) {
        self.configured(next.config.explain_keep);
    }
}

impl Follower for Region {
    fn adopt(&self, next: &Arc<InForce>) {
        self.driver.tell(Input::Tuned(Box::new(next.routing.clone())));
    }
}

impl Follower for PolicyNow {
    fn adopt(&self, next: &Arc<InForce>) {
        if let Err(error) = self.configured(&next.config) {
            tracing::error!(%error, "the policy stays as it is");
        }
    }
}

impl Follower for Peers {
    fn adopt(&self, next: &Arc<InForce>) {
        if let Some(section) = &next.config.peers {
            self.configured(section);
        }
    }
}

impl Follower for Residency {
    fn adopt(&self, next: &Arc<InForce>) {
        self.given(&next.config, &next.rules);
    }
}

impl Follower for ConfigNow {
    fn adopt(&self, next: &Arc<InForce>) {
        self.set(next.clone());
    }
}

impl Follower for Sources {
    fn adopt(&self, next: &Arc<InForce>) {
        self.configured(next.config.replicas.clone(), &next.config.discovery);
    }
}
