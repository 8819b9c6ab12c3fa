//! Publishes digests when a gateway's process would (`peers/bulletin.rs` there).

use meridian_base::Time;

use crate::event::Event;
use crate::world::World;

impl World {
    /// A gateway's machine changed.
    pub(super) fn publish_soon(&mut self, gateway: u16) {
        let gap = self.digest_gap();
        let at = self.gateways[usize::from(gateway)].publisher.soon(self.now, gap);
        self.look_at(gateway, at);
    }

    /// Checks whether to publish the digest.
    pub(super) fn publish(&mut self, gateway: u16) {
        let (now, every) = (self.now, self.system.digests.every);
        let there = &mut self.gateways[usize::from(gateway)];
        if !there.publisher.starts(now) {
            return;
        }
        let digest = there.machine.digest();
        if there.publisher.publishes(now, every, digest) {
            self.send_digest(gateway);
        }
        let next = self.gateways[usize::from(gateway)].publisher.next(every);
        self.look_at(gateway, next);
    }

    fn look_at(&mut self, gateway: u16, at: Time) {
        let at = self.fires(at);
        if self.gateways[usize::from(gateway)].publisher.schedule(at) {
            self.queue.push(at, Event::Tell { gateway });
        }
    }
}
