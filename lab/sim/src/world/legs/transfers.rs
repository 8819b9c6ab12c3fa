//! The ends of transfers: they finish, or a replica or its card fails.

use meridian_base::RequestId;

use crate::legs::{Handoff, Message};
use crate::world::World;

impl World {
    /// All KV of a split attempt has crossed.
    pub(in crate::world) fn landed(&mut self, name: RequestId) {
        if let Some(to) = self.legs.land(name) {
            self.tell_engine(name, to, Message::Fetched);
        }
    }

    /// A replica is gone, with its engine and its card. The answer of a prefill leg may be on its way
    /// to a gateway that continues with it: then only the decode engine finds that the KV is lost.
    pub(in crate::world) fn legs_lost(&mut self, replica: u32) {
        for (name, handoff) in self.legs.of(replica) {
            let ends = match handoff.is_prefilling() {
                true => handoff.from() == replica && !self.is_current(name, handoff),
                false => handoff.to() == replica,
            };
            match ends {
                true => self.legs.end(self.now, name),
                false => self.cut_off(name, handoff),
            }
        }
    }

    /// Whether a request's current attempt is this one.
    fn is_current(&self, name: RequestId, handoff: Handoff) -> bool {
        let split = self.flights.get(handoff.request()).and_then(|flight| flight.split());
        split.is_some_and(|split| split.name == name)
    }

    /// A replica's card fails, and its transfers break off; or it is mended.
    pub(in crate::world) fn card(&mut self, replica: u32, cut: bool) {
        self.legs.set_card(replica, cut);
        for (name, handoff) in self.legs.of(replica) {
            if cut {
                self.cut_off(name, handoff);
            }
        }
    }

    /// Breaks off a transfer, if there is one.
    fn cut_off(&mut self, name: RequestId, handoff: Handoff) {
        if self.legs.break_off(name, self.now) {
            self.tell_engine(name, handoff.to(), Message::Failed);
        }
    }
}
