//! The autoscaler: adds a replica when those present are used, some time after it is wanted.
//!
//! It looks at outstanding requests a replica, region by region. What it asks for comes after the
//! provisioning delay; what it gives up is drained first. A perfect one, without delay, is a bound
//! that the experiments compute without it.

mod resize;

use meridian_base::{Duration, Time};

use crate::scenario::Autoscaler;

/// The autoscaler's state.
pub(crate) struct Scaling {
    rule: Autoscaler,
    /// Replicas on their way, by region.
    coming: Vec<u32>,
    /// Since when fewer are wanted, by region.
    fewer_since: Vec<Option<Time>>,
}

impl Scaling {
    pub(crate) fn new(rule: Autoscaler) -> Scaling {
        Scaling { rule, coming: Vec::new(), fewer_since: Vec::new() }
    }

    pub(crate) fn every(&self) -> Duration {
        self.rule.every
    }

    /// Most replicas of a region.
    pub(crate) fn most(&self) -> usize {
        self.rule.max as usize
    }
}
