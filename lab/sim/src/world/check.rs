//! Invariants, and samples of the replicas.
//!
//! Some invariants are checked where they could break: a second end, a second hop, a region that a
//! rule forbids. This file has those that need the whole state.

use meridian_base::{Duration, ReplicaId, RequestId};
use meridian_routing::{Ineligible, RejectWhy, Target};

use crate::event::Event;
use crate::replica::Replica;
use crate::report::Sample;
use crate::world::World;

impl World {
    /// Queues a replica for the check after this event.
    pub(super) fn touched_replica(&mut self, at: u32) {
        if self.paranoid && !self.touched.replicas.contains(&at) {
            self.touched.replicas.push(at);
        }
    }

    /// Queues a gateway for the check after this event.
    pub(super) fn touched_gateway(&mut self, at: u16) {
        if self.paranoid && !self.touched.gateways.contains(&at) {
            self.touched.gateways.push(at);
        }
    }

    /// Checks that the residency rules permit a request where it is going.
    pub(super) fn check_place(&mut self, id: RequestId, region: usize, what: &str) {
        if !self.permitted(id, region) {
            self.violated(format!("{id} was {what} region {region}, which its rule forbids"));
        }
    }

    /// Checks that no client is finally refused by a rule that permits a living replica, if the
    /// topology leads to its region.
    pub(super) fn check_refusal(&mut self, id: RequestId, gateway: u16, why: RejectWhy) {
        match why {
            RejectWhy::NotPermitted => {}
            RejectWhy::NoReplicaInTime { limit } => return self.check_wait(id, gateway, limit),
            _ => return,
        }
        let serves = |replica: &Replica| {
            let region = replica.hardware.region;
            replica.up && self.permitted(id, region) && self.reaches(gateway, region)
        };
        if let Some(at) = self.replicas.iter().position(serves) {
            self.violated(format!(
                "{id} was refused as not permitted, and replica {at} may serve it"
            ));
        }
    }

    /// Checks that a request was refused for want of a replica only after the whole time, and while its
    /// gateway knows no replica in use that may serve it.
    fn check_wait(&mut self, id: RequestId, gateway: u16, limit: Duration) {
        let Some(flight) = self.flights.get(id) else { return };
        let (asked, entry) = (flight.request(), flight.entry());
        let waited = self.now.since(asked.sent);
        let residence = self.rules.residence(asked.load, self.region_of(entry));
        let machine = &self.gateways[usize::from(gateway)].machine;
        let table = machine.replicas();
        let serves = |at: &&ReplicaId| {
            let row = table.row(**at);
            !matches!(row.closed, Some(Ineligible::Draining | Ineligible::Down))
                && row.pool.role.answers()
                && machine.permits(&residence, Target::Replica(**at))
        };
        let found = table.ids().iter().find(serves).copied();
        if let Some(at) = found {
            self.violated(format!("{id} was refused for want of a replica, and {at} is in use"));
        }
        if waited < limit {
            self.violated(format!("{id} waited {waited:?} for a replica, and not {limit:?}"));
        }
    }

    /// Checks the machines that the last event changed: after each event of a paranoid run.
    pub(super) fn check(&mut self) {
        if !self.paranoid {
            return;
        }
        if self.legs.has_pairs() {
            self.check_legs();
        }
        for at in std::mem::take(&mut self.touched.replicas) {
            self.replicas[at as usize].engine.check_invariants();
        }
        for at in std::mem::take(&mut self.touched.gateways) {
            self.check_index(at);
            let machine = &mut self.gateways[usize::from(at)].machine;
            machine.check_invariants();
            let (held, most) = (machine.held_len(), self.system.held.max);
            if held > most {
                self.violated(format!("gateway {at} holds {held} requests, more than {most}"));
            }
        }
    }

    /// Takes a sample of every replica, once a second of the measured window.
    pub(super) fn sample(&mut self) {
        let now = self.now;
        if !self.counts(now) {
            return;
        }
        for (at, replica) in self.replicas.iter().enumerate().filter(|(_, r)| r.up) {
            let stats = replica.engine.stats();
            self.report.samples.push(Sample {
                at: now,
                replica: at as u32,
                running: stats.running,
                outstanding: stats.outstanding(),
                kv_used: stats.kv_used() as f32,
            });
        }
        self.queue.push(now + Duration::from_secs(1), Event::Sample);
    }
}
