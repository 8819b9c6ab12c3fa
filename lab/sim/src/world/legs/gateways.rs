//! What a gateway does with a split attempt: it sends the prompt, waits for its answer, and then sends
//! the request to the replica that answers.

use meridian_base::{ReplicaId, RequestId, Time};
use meridian_routing::{Input, Outcome, Role, Usage};

use crate::event::Event;
use crate::legs::Message;
use crate::world::World;

impl World {
    /// Carries out a dispatch to a pair.
    pub(in crate::world) fn dispatch_pair(
        &mut self,
        gateway: u16,
        id: RequestId,
        (from, to): (ReplicaId, ReplicaId),
        matched: u32,
    ) {
        let known = |own: ReplicaId| self.gateways[usize::from(gateway)].replica_of(own);
        let (Some(from), Some(to)) = (known(from), known(to)) else {
            self.violated(format!("{id} was dispatched to {from} and {to}: one is no replica"));
            return;
        };
        self.check_pair(id, from, to);
        let Some(flight) = self.flights.get_mut(id) else { return };
        let attempt = flight.dispatch_pair(self.now, self.legs.begin(id, from, to), matched);
        self.send_to_replica(id, gateway, from, attempt);
    }

    /// The answer of a prefill leg reaches its gateway, or has waited in a suspended gateway's
    /// socket since then.
    pub(in crate::world) fn prefilled(
        &mut self,
        id: RequestId,
        gateway: u16,
        attempt: u32,
        since: Time,
    ) {
        let Some(flight) = self.flights.get(id).filter(|f| f.attempt() == attempt) else { return };
        let Some(split) = flight.split().filter(|split| split.prefilling) else { return };
        if !self.gateways[usize::from(gateway)].up {
            return;
        }
        let usage = Usage {
            prompt_tokens: flight.text().prompt_tokens,
            cached_tokens: self.said_of_cache(flight.cached()),
            completion_tokens: 1,
            prefill_us: None,
        };
        let lease = self.replicas[split.from as usize].hardware.transfer.lease;
        if self.now.since(since) > lease / 2 {
            // The KV may be gone before the decode engine asks for it.
            self.prefill_failed(id, gateway, Outcome::ClientError);
            return;
        }
        self.weigh_claim(id, gateway);
        self.tell_machine(gateway, Input::Prefilled { id, usage: Some(usage) });
        self.send_decode_leg(id, gateway);
        self.drive(gateway);
    }

    fn send_decode_leg(&mut self, id: RequestId, gateway: u16) {
        let Some(flight) = self.flights.get_mut(id) else { return };
        let Some((split, attempt)) = flight.goes_to_decode() else { return };
        self.legs.wait(split.name);
        self.send_to_replica(id, gateway, split.to, attempt);
    }

    /// A prefill leg failed: the machine decides again.
    pub(in crate::world) fn prefill_failed(
        &mut self,
        id: RequestId,
        gateway: u16,
        outcome: Outcome,
    ) {
        self.end_split(id);
        if let Some(flight) = self.flights.get_mut(id) {
            flight.leave_replica();
        }
        self.tell_machine(gateway, Input::PrefillFailed { id, outcome });
        self.drive(gateway);
    }

    /// Ends a request's split attempt, if it has one. Its engine learns that the connection is closed.
    pub(in crate::world) fn end_split(&mut self, id: RequestId) {
        let Some(split) = self.flights.get_mut(id).and_then(|flight| flight.take_split()) else {
            return;
        };
        if self.legs.follows(split.name) {
            self.abort_as(split.name, split.at());
        }
    }

    /// The decode leg of a request ended at its gateway.
    pub(in crate::world) fn decode_ended(&mut self, id: RequestId, gateway: u16, outcome: Outcome) {
        let split = self.flights.get(id).filter(|f| f.sender() == gateway).and_then(|f| f.split());
        let Some(split) = split else { return };
        self.end_split(id);
        if outcome == Outcome::Unreached {
            self.give_back(split.name, gateway, (split.from, split.to));
        }
    }

    /// If the decode replica could not be reached, another one is asked to free the KV, by a request
    /// that it refuses.
    fn give_back(&mut self, name: RequestId, gateway: u16, (from, unreached): (u32, u32)) {
        let (here, there) = (&self.gateways[usize::from(gateway)], &self.replicas[from as usize]);
        let region = there.hardware.region;
        let alike = |other: &u32| {
            let known = &self.replicas[*other as usize];
            let hardware = &known.hardware;
            *other != unreached
                && (hardware.role, hardware.region) == (Role::Decode, region)
                && known.answers()
        };
        let passes = self.network.passes(here.region, region);
        if !passes || !here.knows().iter().flatten().any(alike) {
            return;
        }
        let delay = self.one_way(name, here.region, region) + self.one_way(name, region, region);
        let message = Message::Release;
        self.queue.push(self.now + delay, Event::Kv { name, replica: from, message });
    }

    /// The outcome of a failed attempt: exactly, if it is split. A whole one has only one kind of
    /// failure, after which the request goes to any other replica.
    pub(in crate::world) fn failure(&self, id: RequestId, exactly: Outcome) -> Outcome {
        let split = self.flights.get(id).is_some_and(|flight| flight.split().is_some());
        if split { exactly } else { Outcome::ReplicaError }
    }
}
