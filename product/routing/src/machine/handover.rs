//! Handover of cache and speed data to a gateway that starts or gets a replica back.
//!
//! A gateway that starts knows neither its replicas' cache contents nor their speed, and for a
//! while sends sessions away from their cached prefixes. The gateways that served its replicas
//! meanwhile know both.
//!
//! Deliberately not here: the driver decides which gateway to ask, and when.

use alloc::vec::Vec;
use meridian_base::{Holdings, ReplicaId, Time};

use super::Routing;
use super::shadow::both;
use crate::replica::State;

/// Most blocks sent for one replica: 500,000 tokens at the usual granularity.
pub const MOST_HOLDINGS: usize = 1 << 15;

impl Routing {
    /// The data about a replica's cache and speed.
    #[must_use]
    pub fn holdings(&self, id: ReplicaId) -> Holdings {
        let index = self.rule.index();
        Holdings {
            branches: index.map_or_else(Vec::new, |index| index.holdings(id.0, MOST_HOLDINGS)),
            // Of its kind: one replica's own difference is not the next gateway's first guess.
            ms_per_token: self.fleet.replicas().learned_ms_per_token(id).map(|ms| ms as f32),
        }
    }

    pub(super) fn inherited(&mut self, now: Time, id: ReplicaId, holdings: &Holdings) {
        // A replica that is gone or down has nothing cached any more.
        if self.fleet.get(id).is_none_or(|replica| replica.state == State::Down) {
            return;
        }
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.learn_holdings(id, &holdings.branches);
        }
        if let Some(speed) = holdings.ms_per_token.filter(|ms| ms.is_finite() && *ms > 0.0) {
            self.fleet.learn(now, id, |kind, _| kind.assume(speed.into()));
        }
        self.release(now);
    }
}
