//! Publishes digests when a gateway's process would (`peers/bulletin.rs` there).

use meridian_base::Time;

use crate::event::Event;
use crate::world::World;

impl World {
    /// A gateway's machine changed.
    pub(crate) fn publish_soon(&mut self, gateway: u16) {
        let looked = self.gateways[usize::from(gateway)].publisher.looked;
        self.look_at(gateway, self.now.max(looked + self.digest_gap()));
    }

    /// Checks whether to publish the digest.
    pub(crate) fn publish(&mut self, gateway: u16) {
        let (now, every) = (self.now, self.system.digests.every);
        let there = &mut self.gateways[usize::from(gateway)];
        if there.publisher.due.is_some_and(|due| due != now) {
            return;
        }
        (there.publisher.due, there.publisher.looked) = (None, now);
        let digest = there.machine.digest();
        if now >= there.publisher.published + every || digest != there.publisher.last {
            (there.publisher.published, there.publisher.last) = (now, digest);
            self.send_digest(gateway);
        }
        let published = self.gateways[usize::from(gateway)].publisher.published;
        self.look_at(gateway, published + every);
    }

    fn look_at(&mut self, gateway: u16, at: Time) {
        let at = self.fires(at);
        let publisher = &mut self.gateways[usize::from(gateway)].publisher;
        if publisher.due.is_none_or(|due| at < due) {
            publisher.due = Some(at);
            self.queue.push(at, Event::Tell { gateway });
        }
    }
}
