//! The replica's end of a request's way: its engine gets the request, and says what becomes of it.

use meridian_base::{RequestId, Time};
use meridian_engine as engine;
use meridian_routing::Outcome;

use super::leg;
use crate::event::Event;
use crate::legs::Legs;
use crate::network::CONNECT_TIMEOUT;
use crate::world::World;
use crate::world::legs::refused;

impl World {
    /// A request reaches a replica.
    pub(in crate::world) fn submit(&mut self, id: RequestId, replica: u32, attempt: u32) {
        let at = replica as usize;
        if !self.replicas[at].up {
            self.back_to_sender(id, replica, attempt);
            return;
        }
        self.check_place(id, self.replicas[at].hardware.region, "run in");
        let there = &mut self.replicas[at];
        let Some(flight) = self.flights.get(id).filter(|f| f.attempt() == attempt) else {
            return;
        };
        let split = flight.split();
        if split.is_some_and(|split| !self.legs.follows(split.name)) {
            // The replica was lost and is back: a reset is on its way to the gateway.
            return;
        }
        let lease = there.hardware.transfer.lease;
        let leg = split.map_or(engine::Leg::Whole, |split| split.leg(lease));
        let prefills = matches!(leg, engine::Leg::Prefill { .. });
        let submission = engine::Submission {
            id: split.map_or(id, |split| split.name),
            prompt_tokens: flight.text().prompt_tokens,
            reply_tokens: flight.text().reply_tokens,
            max_tokens: if prefills { 1 } else { flight.text().reply_tokens },
            blocks: flight.text().blocks.clone(),
        };
        let now = there.clock(self.now);
        there.engine.handle(now, engine::Input::SubmitLeg(submission, leg));
        self.turn_at_once(replica);
        self.pump(replica);
        if let Some(split) = split.filter(|_| !prefills) {
            self.start_beats(split.name);
        }
        if let Some(gateway) = self.sender(id, attempt).filter(|_| !prefills) {
            self.answer_head(replica, gateway);
        }
    }

    /// The replica was down: its sender learns of it when the reset returns.
    fn back_to_sender(&mut self, id: RequestId, replica: u32, attempt: u32) {
        let Some(gateway) = self.sender(id, attempt) else { return };
        let from = self.replicas[replica as usize].hardware.region;
        let delay = self.delay(from, self.gateways[usize::from(gateway)].region, id, leg::END);
        let outcome = self.failure(id, Outcome::Unreached);
        self.queue.push(self.now + delay, Event::Ended { id, gateway, attempt, outcome });
    }

    /// Tells a replica that a request was abandoned. This happens at once, because a retried
    /// request must not meet itself. A suspended replica learns of it before anything else. A split
    /// attempt ends with that.
    pub(in crate::world) fn abort(&mut self, id: RequestId, replica: u32) {
        match self.flights.get(id).and_then(|flight| flight.split()) {
            Some(_) => self.end_split(id),
            None => self.abort_as(id, replica),
        }
    }

    /// The same, by the id that the engine knows.
    pub(in crate::world) fn abort_as(&mut self, name: RequestId, replica: u32) {
        if self.hang_up_later(name, replica) {
            return;
        }
        let there = &mut self.replicas[replica as usize];
        let now = there.clock(self.now);
        there.engine.handle(now, engine::Input::Abort(name));
        self.pump(replica);
        self.legs.end(self.now, name);
    }

    pub(in crate::world) fn engine_due(&mut self, replica: u32) {
        let now = self.now;
        let there = &mut self.replicas[replica as usize];
        // Timers that were overtaken are still in the queue.
        if there.timer != Some(now) {
            return;
        }
        there.timer = None;
        let now = there.clock(now);
        there.engine.handle_timeout(now);
        self.pump(replica);
    }

    /// Forwards an engine's outputs, and sets its timer.
    pub(in crate::world) fn pump(&mut self, replica: u32) {
        self.touched_replica(replica);
        while let Some(output) = self.replicas[replica as usize].engine.poll() {
            self.engine_said(replica, output);
        }
        if self.lazy() {
            self.remember(replica);
        }
        let there = &mut self.replicas[replica as usize];
        let due = there.engine.poll_timeout().map(|at| there.wall(at));
        let due = due.map(|at| self.engine_fires(at));
        let there = &mut self.replicas[replica as usize];
        if due != there.timer {
            there.timer = due;
            if let Some(at) = due {
                self.queue.push(at, Event::Engine { replica });
            }
        }
    }

    fn engine_said(&mut self, replica: u32, output: engine::Output) {
        if Legs::names(output.id()) {
            self.leg_said(replica, output);
            return;
        }
        let there = &self.replicas[replica as usize];
        match output {
            engine::Output::Tokens { id, at, .. } => {
                let at = there.wall(at);
                self.stream_first(replica, id, at);
            }
            // The engine reports the cached tokens at the end, from the first admission: one after
            // a preemption finds the request's own blocks.
            engine::Output::Admitted { .. }
            | engine::Output::Finished { why: engine::StopReason::Abort, .. }
            | engine::Output::Preempted { .. } => {}
            // Only legs have these.
            engine::Output::Deferred { .. }
            | engine::Output::Held { .. }
            | engine::Output::Released { .. } => {}
            engine::Output::Finished { id, at, usage, .. } => {
                let at = there.wall(at);
                if let Some(flight) = self.flights.get_mut(id) {
                    flight.found(usage.cached_tokens);
                }
                self.stream_end(replica, id, at, Outcome::Done);
            }
            engine::Output::Refused { id, at, why } => {
                let at = there.wall(at);
                self.stream_end(replica, id, at, refused(why));
            }
        }
    }

    /// The answer of a prefill leg returns to its gateway.
    pub(in crate::world) fn stream_prefilled(&mut self, replica: u32, id: RequestId, at: Time) {
        let from = self.replicas[replica as usize].hardware.region;
        let Some(attempt) = self.flights.get(id).map(|f| f.attempt()) else { return };
        let Some(gateway) = self.sender(id, attempt) else { return };
        let to = self.gateways[usize::from(gateway)].region;
        if !self.network.passes(from, to) {
            let (at, outcome) = (at + CONNECT_TIMEOUT, Outcome::ReplicaError);
            self.queue.push(at, Event::Ended { id, gateway, attempt, outcome });
            return;
        }
        let since = self.along(id, from, to, at, leg::PREFILLED);
        self.queue.push(since, Event::Prefilled { id, gateway, attempt, since });
    }

    pub(in crate::world) fn stream_first(&mut self, replica: u32, id: RequestId, at: Time) {
        let from = self.replicas[replica as usize].hardware.region;
        if self.oracle.is_some() {
            self.oracle_first(replica, id);
            self.first_to_client(id, from, at);
            return;
        }
        let Some(attempt) = self.flights.get(id).map(|f| f.attempt()) else { return };
        let Some(gateway) = self.sender(id, attempt) else { return };
        let at = self.along(id, from, self.gateways[usize::from(gateway)].region, at, leg::FIRST);
        self.queue.push(at, Event::First { id, gateway, attempt });
    }

    pub(in crate::world) fn stream_end(
        &mut self,
        replica: u32,
        id: RequestId,
        at: Time,
        outcome: Outcome,
    ) {
        let from = self.replicas[replica as usize].hardware.region;
        if self.oracle.is_some() {
            self.oracle_ended(replica, id, from, at, outcome);
            return;
        }
        let Some(attempt) = self.flights.get(id).map(|f| f.attempt()) else { return };
        let Some(gateway) = self.sender(id, attempt) else { return };
        let to = self.gateways[usize::from(gateway)].region;
        let (at, outcome) = match self.network.passes(from, to) {
            true => (self.along(id, from, to, at, leg::END), outcome),
            // The stream goes silent; the gateway treats it as broken.
            false => (at + CONNECT_TIMEOUT, Outcome::ReplicaError),
        };
        self.queue.push(at, Event::Ended { id, gateway, attempt, outcome });
    }
}
