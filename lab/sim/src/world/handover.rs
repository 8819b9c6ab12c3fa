//! Handover of data to a gateway that restarts or is given a replica.

use std::sync::Arc;

use meridian_routing::{Holdings, Input};

use crate::event::Event;
use crate::world::World;

impl World {
    /// A gateway that was given a replica asks the replica's other gateways for their data about
    /// it.
    pub(super) fn ask_holdings(&mut self, at: u16, replica: u32) {
        let own = &self.gateways[usize::from(at)];
        if own.id_of(replica).is_none() {
            return;
        }
        let own = own.region;
        for (other, there) in self.gateways.iter().enumerate() {
            let known =
                there.id_of(replica).filter(|_| !there.is_silent() && other != usize::from(at));
            let Some(id) = known.filter(|_| self.network.passes(there.region, own)) else {
                continue;
            };
            let holdings = there.machine.holdings(id);
            if !holdings.is_empty() {
                let arrival = self.now + self.network.rtt(own, there.region);
                self.queue.push(arrival, Event::Inherited { gateway: at, replica, holdings });
            }
        }
    }

    pub(super) fn inherited(&mut self, gateway: u16, replica: u32, holdings: Holdings) {
        let there = &self.gateways[usize::from(gateway)];
        if let Some(id) = there.id_of(replica).filter(|_| there.up) {
            self.tell_machine(gateway, Input::Inherited { id, holdings });
            self.drive(gateway);
        }
    }

    /// The first digest of each peer reaches a gateway that is back.
    pub(super) fn tell_first(&mut self, to: u16) {
        if self.lazy() {
            return;
        }
        let own = self.gateways[usize::from(to)].region;
        for from in self.gateways[usize::from(to)].peers().to_vec() {
            let there = &mut self.gateways[usize::from(from)];
            if there.is_silent() || !self.network.passes(there.region, own) {
                continue;
            }
            there.told_digests += 1;
            let (number, rtt) = (there.told_digests, self.network.rtt(own, there.region));
            let digest = Arc::new(there.machine.digest());
            self.queue.push(self.now + rtt, Event::Digest { to, from, number, rtt, digest });
        }
    }
}
