//! The autoscaler: adds a replica when the present ones are busy, after a provisioning delay.
//!
//! It uses the outstanding requests per replica, region by region. A new replica arrives after the
//! provisioning delay; a removed one is drained first. A perfect autoscaler without delay is a
//! bound that the experiments compute separately.

use meridian_base::{Duration, Time};

use crate::scenario::Autoscaler;

/// The autoscaler's state.
pub(crate) struct Scaling {
    pub(crate) rule: Autoscaler,
    /// The most replicas that the world may have: gateways have tables for as many. A lost region
    /// is replaced, and then comes back.
    pub(crate) most: usize,
    /// Replicas on their way, by region.
    pub(crate) coming: Vec<u32>,
    /// Since when fewer have been needed, by region.
    pub(crate) fewer_since: Vec<Option<Time>>,
}

impl Scaling {
    /// For a world of this many regions and replicas.
    pub(crate) fn new(rule: Autoscaler, regions: usize, replicas: usize) -> Scaling {
        let most = replicas + rule.max as usize * regions;
        Scaling { rule, most, coming: Vec::new(), fewer_since: Vec::new() }
    }

    pub(crate) fn every(&self) -> Duration {
        self.rule.every
    }

    /// The most replicas at one time.
    pub(crate) fn most(&self) -> usize {
        self.most
    }
}
