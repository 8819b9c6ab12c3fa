//! Messages between the engines of a split attempt, and the transfer of its KV.
//!
//! Messages take the network within the region, KV the fabric. Cards move KV without their
//! processes: a suspended replica is read to the end, and learns of it when it resumes.

use meridian_base::{Duration, RequestId, mix};
use meridian_engine::Input;

use crate::event::Event;
use crate::legs::{Handoff, Message};
use crate::report::Crossing;
use crate::world::World;

impl World {
    /// A message reaches an engine, or a timer of it fires.
    pub(in crate::world) fn kv(&mut self, name: RequestId, replica: u32, message: Message) {
        let handoff = self.legs.get(name);
        let there = &self.replicas[replica as usize];
        if !there.up {
            // Only a question is answered, by a reset.
            if let Some(handoff) = handoff.filter(|_| message == Message::Read) {
                self.tell_engine(name, handoff.to(), Message::Failed);
            }
            return;
        }
        let lease = there.hardware.transfer.lease * 2 / 3;
        match (message, handoff) {
            (Message::Release, _) => self.input(replica, Input::Release(name)),
            (Message::Renew, _) => self.input(replica, Input::Renew { id: name, lease }),
            (Message::Read, Some(handoff)) => self.read(name, handoff),
            (Message::Beat, Some(handoff)) => self.beat(name, handoff),
            (Message::Fetched, Some(handoff)) => self.kv_fetched(name, handoff),
            (Message::Failed, Some(handoff)) if handoff.has_asked() => {
                self.input(replica, Input::FetchFailed { id: name, recompute: false });
            }
            _ => {}
        }
    }

    fn input(&mut self, replica: u32, input: Input) {
        let there = &mut self.replicas[replica as usize];
        let now = there.clock(self.now);
        there.engine.handle(now, input);
        self.turn_at_once(replica);
        self.pump(replica);
    }

    /// A decode leg is in its engine: until it has its KV, that engine extends the lease.
    pub(in crate::world) fn start_beats(&mut self, name: RequestId) {
        if let Some(handoff) = self.legs.get(name) {
            let replica = handoff.to();
            let every = self.replicas[replica as usize].hardware.transfer.lease / 6;
            let message = Message::Beat;
            self.queue.push(self.now + every, Event::Kv { name, replica, message });
        }
    }

    fn beat(&mut self, name: RequestId, handoff: Handoff) {
        if !handoff.is_fetched() {
            self.tell_holder(name, handoff, Message::Renew);
            self.start_beats(name);
        }
    }

    /// An engine is asked for KV that it may hold.
    fn read(&mut self, name: RequestId, handoff: Handoff) {
        if !handoff.has_asked() {
            return;
        }
        if self.replicas[handoff.from() as usize].engine.held_blocks(name).is_none() {
            self.tell_engine(name, handoff.to(), Message::Failed);
        } else {
            self.legs.cross(name, self.now);
        }
    }

    fn kv_fetched(&mut self, name: RequestId, handoff: Handoff) {
        if !handoff.has_landed() {
            return;
        }
        self.legs.fetch(name);
        if let Some(flight) = self.flights.get_mut(handoff.request()) {
            let time = handoff.time(self.now);
            let (from, bytes) = (handoff.from(), handoff.bytes() as u64);
            flight.crossed(Crossing { from, bytes, time });
        }
        self.tell_holder(name, handoff, Message::Release);
        self.input(handoff.to(), Input::Fetched(name));
    }

    /// Sends a message to the engine that holds the KV, if the network lets it and an answer pass.
    pub(in crate::world) fn tell_holder(
        &mut self,
        name: RequestId,
        handoff: Handoff,
        message: Message,
    ) {
        let region = self.replicas[handoff.from() as usize].hardware.region;
        if self.network.passes(region, region) {
            self.tell_engine(name, handoff.from(), message);
        }
    }

    /// Sends a message to one engine of a pair. Both are in one region.
    pub(in crate::world) fn tell_engine(
        &mut self,
        name: RequestId,
        replica: u32,
        message: Message,
    ) {
        let region = self.replicas[replica as usize].hardware.region;
        let delay = self.network.one_way(region, region, mix(name.0, message as u64));
        self.queue.push(self.now + delay, Event::Kv { name, replica, message });
    }

    /// One way of a gateway's message about a split attempt.
    pub(in crate::world) fn one_way(&self, name: RequestId, from: usize, to: usize) -> Duration {
        self.network.one_way(from, to, name.0)
    }
}
