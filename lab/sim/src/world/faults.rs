//! Faults and their repair.
//!
//! A replica that stops resets its connections: the gateways waiting for answers learn this one way
//! later. A gateway that stops loses its requests in progress. The nearest living gateway adopts
//! its replicas once the loss is noticed, and hands them back afterwards (SkyWalker, section 4.2).

use meridian_base::assign::{Serving, serving};
use meridian_base::{Duration, RequestId};
use meridian_routing::Outcome;

use crate::event::Event;
use crate::report::Fate;
use crate::scenario::{Fault, System};
use crate::world::World;

impl World {
    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::ReplicaDown(at) => self.replica_down(at as u32),
            Fault::ReplicaUp(at) => self.replica_up(at as u32),
            Fault::ReplicaSlow(at, factor) => self.replicas[at].engine.slow_down(factor),
            Fault::ReplicaStopped(at) => self.replica_stopped(at as u32),
            Fault::ReplicaContinued(at) => self.replica_continued(at as u32),
            Fault::GatewaysStopped(region) => self.each_gateway(region, World::gateway_stopped),
            Fault::GatewaysContinued(region) => self.each_gateway(region, World::gateway_continued),
            Fault::ControlDown => self.uncontrolled = true,
            Fault::ControlUp => {
                self.uncontrolled = false;
                self.adopt();
            }
            Fault::Reload(region) => self.each_gateway(region, World::reload),
            Fault::CardDown(at) => self.card(at as u32, true),
            Fault::CardUp(at) => self.card(at as u32, false),
            Fault::LinkSlow(from, to, by) => self.network.slow_down(from, to, by),
            Fault::GatewaysDown(region) => self.each_gateway(region, World::gateway_down),
            Fault::GatewaysUp(region) => self.each_gateway(region, World::gateway_up),
            Fault::RegionDown(region) => {
                self.each_gateway(region, World::gateway_down);
                self.each_replica(region, World::replica_down);
            }
            Fault::RegionUp(region) => {
                self.each_replica(region, World::replica_up);
                self.each_gateway(region, World::gateway_up);
            }
            Fault::LinkDown(from, to) => self.link_down(from, to),
            Fault::LinkUp(from, to) => self.network.set(from, to, true),
        }
        self.news_everywhere();
    }

    fn each_gateway(&mut self, region: usize, act: fn(&mut World, u16)) {
        for at in 0..self.gateways.len() as u16 {
            if self.gateways[usize::from(at)].region == region {
                act(self, at);
            }
        }
    }

    fn each_replica(&mut self, region: usize, act: fn(&mut World, u32)) {
        for at in 0..self.replicas.len() as u32 {
            if self.replicas[at as usize].hardware.region == region {
                act(self, at);
            }
        }
    }

    pub(super) fn replica_down(&mut self, at: u32) {
        if !self.replicas[at as usize].up {
            return;
        }
        let there = &mut self.replicas[at as usize];
        there.up = false;
        there.restart();
        self.remember(at);
        for id in self.flights.ids(|f| f.replica() == Some(at)) {
            let Some(flight) = self.flights.get(id) else { continue };
            let (attempt, gateway) = (flight.attempt(), flight.sender());
            self.reset(id, gateway, attempt, self.replicas[at as usize].hardware.region);
        }
        self.legs_lost(at);
    }

    /// The gateway learns of a broken connection one way later.
    fn reset(&mut self, id: RequestId, gateway: u16, attempt: u32, from: usize) {
        if self.oracle.is_some() {
            self.end_at_client(id, from, self.now, Fate::Lost);
            return;
        }
        let to = self.gateways[usize::from(gateway)].region;
        let delay = self.network.one_way(from, to, id.0 ^ 0x5253_5400);
        let outcome = self.failure(id, Outcome::Died);
        self.queue.push(self.now + delay, Event::Ended { id, gateway, attempt, outcome });
    }

    pub(super) fn replica_up(&mut self, at: u32) {
        self.replicas[at as usize].up = true;
        self.remember(at);
    }

    fn gateway_down(&mut self, at: u16) {
        let region = self.gateways[usize::from(at)].region;
        if !self.gateways[usize::from(at)].up {
            return;
        }
        self.gateways[usize::from(at)].up = false;
        self.gateways[usize::from(at)].stopped = None;
        for id in self.flights.ids(|f| f.entry() == at || f.peer() == Some(at)) {
            self.abandon(id);
            let Some(flight) = self.flights.get(id) else { continue };
            let (entry, attempt) = (flight.entry(), flight.attempt());
            if entry == at {
                self.end_at_client(id, region, self.now, Fate::Lost);
            } else {
                self.reset(id, entry, attempt, region);
            }
        }
        self.sibling_gone(at);
        self.queue.push(self.now + Duration::from_secs(1), Event::Adopt);
    }

    /// Abandons the attempt: its messages in flight are ignored, and the replica and the peer that
    /// serve it are informed.
    pub(super) fn abandon(&mut self, id: RequestId) {
        let Some(flight) = self.flights.get_mut(id) else { return };
        let (replica, peer) = flight.abandon();
        if let Some(replica) = replica {
            self.abort(id, replica);
        }
        if let Some(peer) = peer {
            self.hang_up(peer, id);
        }
    }

    /// Reloads the same policy, weights and admission.
    fn reload(&mut self, at: u16) {
        if self.gateways[usize::from(at)].is_silent() {
            return;
        }
        let System { policy, params, admission, .. } = self.system.clone();
        self.tell_machine(at, meridian_routing::Input::Configured { policy, params, admission });
        self.drive(at);
    }

    fn gateway_up(&mut self, at: u16) {
        let system = self.system.clone();
        let there = &mut self.gateways[usize::from(at)];
        if there.up {
            return;
        }
        there.restart(&system);
        there.up = true;
        self.introduce(at);
        (0..self.replicas.len() as u32).for_each(|replica| self.ask_holdings(at, replica));
        self.ask_siblings(at);
        self.tell_first(at);
        self.adopt();
    }

    /// Updates the gateways' tables to the assignment for the living gateways; the rule is
    /// [`meridian_base::assign`].
    pub(super) fn adopt(&mut self) {
        if self.uncontrolled {
            return;
        }
        let mut again = false;
        for replica in 0..self.replicas.len() {
            let home = self.replicas[replica].hardware.region;
            let living =
                self.gateways.iter().enumerate().filter(|(at, _)| !self.lost_its_lease(*at));
            let foster = match serving(
                &home,
                living.map(|(at, gateway)| (at, gateway.region)),
                |from| Some(self.network.rtt(*from, home)),
                |_| true,
            ) {
                Serving::Adopted { by, .. } => Some(by),
                Serving::Own(_) | Serving::NoGateway => None,
            };
            for at in 0..self.gateways.len() {
                // A suspended gateway does nothing, and keeps its replicas.
                if self.gateways[at].is_silent() {
                    continue;
                }
                let serves = self.knows_by_rule(at as u16, replica) || foster == Some(at);
                let should = serves && !self.replicas[replica].gone;
                let knows = self.gateways[at].id_of(replica as u32).is_some();
                if should && !knows {
                    self.join(at as u16, replica as u32);
                    self.ask_holdings(at as u16, replica as u32);
                    self.drive(at as u16);
                } else if !should && knows {
                    again |= !self.hand_back(at as u16, replica as u32);
                }
            }
        }
        if again {
            self.queue.push(self.now + Duration::from_secs(1), Event::Adopt);
        }
    }

    /// Hands a replica back; true if it has no requests in progress there.
    fn hand_back(&mut self, gateway: u16, replica: u32) -> bool {
        // Requests in progress there run to their end, and the replica is removed only then.
        let busy = self.flights.ids(|f| f.uses(replica) && f.sender() == gateway);
        if busy.is_empty() {
            self.forget(gateway, replica);
        } else {
            self.drain(gateway, replica);
        }
        busy.is_empty()
    }

    /// Removes a replica from a gateway.
    pub(super) fn forget(&mut self, gateway: u16, replica: u32) {
        let now = self.now;
        self.gateways[usize::from(gateway)].forget(now, replica);
        self.drive(gateway);
    }

    pub(super) fn drain(&mut self, gateway: u16, replica: u32) {
        if let Some(id) = self.gateways[usize::from(gateway)].id_of(replica) {
            self.tell_machine(gateway, meridian_routing::Input::Draining(id));
            self.drive(gateway);
        }
    }

    fn link_down(&mut self, from: usize, to: usize) {
        self.network.set(from, to, false);
        // Answers in flight over the link stop; their receivers time out.
        for id in self.flights.ids(|f| f.peer().is_some()) {
            let Some(flight) = self.flights.get(id) else { continue };
            let (entry, Some(peer)) = (flight.entry(), flight.peer()) else { continue };
            let there = self.gateways[usize::from(peer)].region;
            if there == from && self.gateways[usize::from(entry)].region == to {
                self.abandon(id);
                let Some(attempt) = self.flights.get(id).map(|f| f.attempt()) else { continue };
                let at = self.now + crate::network::CONNECT_TIMEOUT;
                let outcome = Outcome::ReplicaError;
                self.queue.push(at, Event::Ended { id, gateway: entry, attempt, outcome });
            }
        }
    }
}
