//! Messages between gateways.

use std::sync::Arc;

use meridian_base::Duration;
use meridian_routing::{Digest, Input};

use crate::event::Event;
use crate::world::World;

impl World {
    /// Sends the regular digest, and the one after a change.
    pub(super) fn tell(&mut self, gateway: u16) {
        let every = self.system.digests.every;
        if !self.gateways[usize::from(gateway)].up {
            return;
        }
        if self.twin.is_some() {
            self.publish(gateway);
            return;
        }
        self.send_digest(gateway);
        self.queue.push(self.now + every, Event::Tell { gateway });
    }

    /// After a change: if digests are pushed, one goes out as soon as the pace allows.
    pub(super) fn tell_soon(&mut self, gateway: u16) {
        if self.system.digests.on_change.is_none() || !self.forwards() || self.lazy() {
            return;
        }
        if self.twin.is_some() {
            self.publish_soon(gateway);
            return;
        }
        let gap = self.digest_gap();
        if self.now >= self.gateways[usize::from(gateway)].told_at + gap {
            self.send_digest(gateway);
        }
    }

    pub(super) fn send_digest(&mut self, gateway: u16) {
        let now = self.now;
        let there = &mut self.gateways[usize::from(gateway)];
        there.told_digests += 1;
        there.told_at = now;
        let (number, region) = (there.told_digests, there.region);
        let digest = Arc::new(there.machine.digest());
        for at in 0..self.gateways[usize::from(gateway)].peers().len() {
            let to = self.gateways[usize::from(gateway)].peers()[at];
            let there = self.gateways[usize::from(to)].region;
            if !self.network.passes(region, there) {
                continue;
            }
            self.report.digests += u64::from(self.counts(now));
            let name = number ^ u64::from(to) << 32 ^ u64::from(gateway) << 48;
            let delay = self.network.one_way(region, there, name);
            // Peers measure the round trip of a message.
            let rtt = delay + self.network.one_way(there, region, name);
            let digest = digest.clone();
            let event = Event::Digest { to, from: gateway, number, rtt, digest };
            self.queue.push(now + delay, event);
        }
    }

    pub(super) fn digest(
        &mut self,
        to: u16,
        from: u16,
        number: u64,
        rtt: Duration,
        digest: Arc<Digest>,
    ) {
        if !self.gateways[usize::from(to)].up {
            return;
        }
        let Some(peer) = self.peer_of(to, from) else { return };
        self.tell_machine(to, Input::Digested { peer, sent: number, rtt: Some(rtt), digest });
        self.drive(to);
    }

    pub(super) fn steal(&mut self, to: u16, from: u16, count: u32) {
        let Some(by) = self.peer_of(to, from) else { return };
        if self.gateways[usize::from(to)].up {
            self.tell_machine(to, Input::StealAsked { by, count });
            self.drive(to);
        }
    }
}
