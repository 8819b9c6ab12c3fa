//! The ends of transfers: they finish, or a replica or its card fails.

use meridian_base::RequestId;

use super::{Handoff, Message, Stage};
use crate::event::Event;
use crate::world::World;

impl World {
    /// Transfers finish.
    pub(crate) fn fabric_due(&mut self) {
        // Timers that were overtaken are still in the queue.
        if self.legs.fabric.timer != Some(self.now) {
            return;
        }
        self.legs.fabric.timer = None;
        while let Some(name) = self.legs.fabric.ended(self.now) {
            self.legs.set(name, Stage::Landed);
            if let Some(handoff) = self.legs.handoffs.get(&name) {
                self.tell_engine(name, handoff.to, Message::Fetched);
            }
        }
    }

    /// Sets the timer of the transfers after an event.
    pub(crate) fn settle_fabric(&mut self) {
        let due = self.legs.fabric.settle(self.now).map(|at| self.fires(at.max(self.now)));
        if due != self.legs.fabric.timer {
            self.legs.fabric.timer = due;
            if let Some(at) = due {
                self.queue.push(at, Event::Fabric);
            }
        }
    }

    /// A replica is gone, with its engine and its card. The answer of a prefill leg may be on its way
    /// to a gateway that continues with it: then only the decode engine finds that the KV is lost.
    pub(crate) fn legs_lost(&mut self, replica: u32) {
        for (name, handoff) in self.handoffs_of(replica) {
            let ends = match handoff.stage {
                Stage::Prefilling => handoff.from == replica && !self.is_current(name, handoff),
                _ => handoff.to == replica,
            };
            match ends {
                true => self.legs.end(self.now, name),
                false => self.cut_off(name, handoff),
            }
        }
    }

    /// Whether a request's current attempt is this one.
    fn is_current(&self, name: RequestId, handoff: Handoff) -> bool {
        let split = self.flights.get(handoff.request).and_then(|flight| flight.split);
        split.is_some_and(|split| split.name == name)
    }

    /// A replica's card fails, and its transfers break off; or it is mended.
    pub(crate) fn card(&mut self, replica: u32, cut: bool) {
        self.legs.fabric.set(replica, cut);
        for (name, handoff) in self.handoffs_of(replica) {
            if cut {
                self.cut_off(name, handoff);
            }
        }
    }

    fn handoffs_of(&self, replica: u32) -> Vec<(RequestId, Handoff)> {
        let all = self.legs.handoffs.iter().map(|(name, handoff)| (*name, *handoff));
        all.filter(|(_, handoff)| [handoff.from, handoff.to].contains(&replica)).collect()
    }

    /// Breaks off a transfer, if there is one.
    fn cut_off(&mut self, name: RequestId, handoff: Handoff) {
        if let Stage::Moving(flow) = handoff.stage {
            self.legs.fabric.end(self.now, flow);
            self.legs.set(name, Stage::Asked);
            self.tell_engine(name, handoff.to, Message::Failed);
        }
    }
}
