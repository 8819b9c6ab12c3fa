//! What one gateway knows, for another that starts or gets a replica back.
//!
//! A gateway that starts knows no cache and no speed, and for a while sends sessions away from where
//! their prefixes are. The gateways that served its replicas meanwhile know both.
//!
//! Deliberately not here: who asks whom and when, which is the driver's.

use alloc::vec::Vec;
use meridian_base::{ReplicaId, Time};

use super::Routing;
use crate::index::Branch;
use crate::replica::State;

/// Blocks that are told of one replica at most: 500,000 tokens in the usual granularity.
pub const MOST_HOLDINGS: usize = 1 << 15;

/// What a gateway knows of a replica that another does not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holdings {
    /// Chains that it is thought to hold, the most recently used first.
    pub branches: Vec<Branch>,
    /// Its prefill time, ms a token, where answers taught it.
    pub ms_per_token: Option<f32>,
}

impl Holdings {
    /// Blocks of all chains.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.branches.iter().map(|branch| branch.blocks.len()).sum()
    }

    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.branches.is_empty() && self.ms_per_token.is_none()
    }
}

impl Routing {
    /// What is known of a replica's cache and speed.
    #[must_use]
    pub fn holdings(&self, id: ReplicaId) -> Holdings {
        let index = self.index.as_ref();
        let speed = self.replicas.get(id).map(|replica| replica.speed);
        Holdings {
            branches: index.map_or_else(Vec::new, |index| index.holdings(id.0, MOST_HOLDINGS)),
            ms_per_token: speed.filter(|s| s.is_learned()).map(|s| s.ms_per_token() as f32),
        }
    }

    pub(super) fn inherited(&mut self, now: Time, id: ReplicaId, holdings: &Holdings) {
        // What is gone or down holds nothing any more.
        if self.replicas.get(id).is_none_or(|replica| replica.state == State::Down) {
            return;
        }
        if let Some(index) = &mut self.index {
            index.inherit(id.0, &holdings.branches);
        }
        if let Some(speed) = holdings.ms_per_token.filter(|ms| ms.is_finite() && *ms > 0.0) {
            self.replicas.update(now, id, |replica| replica.speed.assume(speed.into()));
        }
        self.release(now);
    }
}
