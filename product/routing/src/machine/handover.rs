//! Handover of cache and speed data to a gateway that starts or gets a replica back.
//!
//! A gateway that starts knows neither its replicas' cache contents nor their speed, and for a
//! while sends sessions away from their cached prefixes. The gateways that served its replicas
//! meanwhile know both.
//!
//! Deliberately not here: the driver decides which gateway to ask, and when.

use alloc::vec::Vec;
use meridian_base::{ReplicaId, Time};

use super::Routing;
use super::shadow::both;
use crate::index::Branch;
use crate::replica::State;

/// Most blocks sent for one replica: 500,000 tokens at the usual granularity.
pub const MOST_HOLDINGS: usize = 1 << 15;

/// One gateway's data about a replica that another does not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holdings {
    /// Chains that it is expected to have cached, most recently used first.
    pub branches: Vec<Branch>,
    /// Its prefill time, ms a token, if measured from answers.
    pub ms_per_token: Option<f32>,
}

impl Holdings {
    /// Blocks of all chains.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.branches.iter().map(|branch| branch.blocks.len()).sum()
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.branches.is_empty() && self.ms_per_token.is_none()
    }
}

impl Routing {
    /// The data about a replica's cache and speed.
    #[must_use]
    pub fn holdings(&self, id: ReplicaId) -> Holdings {
        let index = self.rule.index.as_ref();
        let speed = self.replicas.get(id).map(|replica| replica.speed);
        Holdings {
            branches: index.map_or_else(Vec::new, |index| index.holdings(id.0, MOST_HOLDINGS)),
            ms_per_token: speed.filter(|s| s.is_learned()).map(|s| s.ms_per_token() as f32),
        }
    }

    pub(super) fn inherited(&mut self, now: Time, id: ReplicaId, holdings: &Holdings) {
        // A replica that is gone or down has nothing cached any more.
        if self.replicas.get(id).is_none_or(|replica| replica.state == State::Down) {
            return;
        }
        for index in both(&mut self.rule, &mut self.shadow).filter_map(|rule| rule.index.as_mut()) {
            index.inherit(id.0, &holdings.branches);
        }
        if let Some(speed) = holdings.ms_per_token.filter(|ms| ms.is_finite() && *ms > 0.0) {
            self.replicas.update(now, id, |replica| replica.speed.assume(speed.into()));
        }
        self.release(now);
    }
}
