//! Compares each answer with the prediction, and checks the indexes: no more blocks of a replica
//! than its capacity, none of a replica that left, and none of one that is down, since it returns
//! empty.

use meridian_base::{ReplicaId, RequestId};
use meridian_routing::State;

use crate::claims::MOST;
use crate::gateway::Gateway;
use crate::world::World;

/// Predictions shorter than this are mostly rounding to whole blocks, tokens.
const JUDGED_FROM: u32 = 64;

impl World {
    /// Judges the prediction for a request whose end is about to be reported to its gateway.
    pub(super) fn weigh_claim(&mut self, id: RequestId, gateway: u16) {
        let Some(flight) = self.flights.get(id).filter(|_| self.paranoid) else { return };
        if flight.sender() != gateway || flight.matched() < JUDGED_FROM {
            return;
        }
        let found = (f64::from(flight.cached()) / f64::from(flight.matched())).min(1.0);
        let there = &mut self.gateways[usize::from(gateway)];
        let Some(own) = flight.replica().and_then(|replica| there.id_of(replica)) else { return };
        let trust = f64::from(there.machine.replicas().row(own).trust);
        let excess = there.claims.weigh(own, trust, found);
        if excess > MOST {
            self.violated(format!(
                "gateway {gateway} claims {excess:.1} answers more of {own} than were found there, \
                 over {MOST}: its index lies beyond its trust"
            ));
        }
    }

    /// Checks how much a gateway's index has of each replica.
    pub(super) fn check_index(&mut self, gateway: u16) {
        let there = &self.gateways[usize::from(gateway)];
        let wrong: Vec<String> =
            (0..there.knows().len()).filter_map(|at| self.overclaimed(there, at)).collect();
        for what in wrong {
            self.violated(format!("gateway {gateway} {what}"));
        }
    }

    fn overclaimed(&self, gateway: &Gateway, at: usize) -> Option<String> {
        let id = ReplicaId(at as u16);
        let held = gateway.machine.index()?.held_by(id.0);
        let Some(replica) = gateway.knows()[at] else {
            return (held > 0).then(|| format!("remembers {held} blocks of {id}, which left"));
        };
        let most = crate::gateway::most_blocks(&self.system, &self.replicas[replica as usize])?;
        if held > most {
            return Some(format!("remembers {held} blocks of {id}, which has room for {most}"));
        }
        let status = gateway.machine.replicas().status(id, self.now)?;
        let down = status.state == State::Down && held > 0;
        down.then(|| format!("remembers {held} blocks of {id}, which is down"))
    }
}

#[cfg(test)]
mod tests;
