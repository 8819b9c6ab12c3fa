//! A request's way: client, gateway, perhaps a peer, replica, and back.
//!
//! ```text
//! client ─enter─▶ gateway ─(forward)─▶ peer ─submit─▶ replica
//! client ◀─over── gateway ◀──first, ended─── peer ◀──────┘
//! ```
//! Answers return through the same gateways. A process that fails on the way resets the connection
//! to its neighbour.

mod engines;

use meridian_base::{RequestId, Time};
use meridian_routing::{Outcome, Usage};

use crate::event::Event;
use crate::flight::Flight;
use crate::network::CONNECT_TIMEOUT;
use crate::report::Fate;
use crate::world::World;

/// Legs of a request's way, to name its messages by.
mod leg {
    pub(super) const ENTER: u64 = 1;
    pub(super) const SUBMIT: u64 = 2;
    pub(super) const FIRST: u64 = 3;
    pub(super) const END: u64 = 4;
    pub(super) const FORWARD: u64 = 5;
    pub(super) const BACK: u64 = 6;
    pub(super) const OVER: u64 = 7;
    pub(super) const PREFILL: u64 = 8;
    pub(super) const PREFILLED: u64 = 9;
}

impl World {
    /// A client connects to the nearest gateway that lives, or to the oracle.
    pub(super) fn enter(&mut self, id: RequestId) {
        if self.oracle.is_some() {
            self.enter_oracle(id);
            return;
        }
        let Some(flight) = self.flights.get(id) else { return };
        let region = flight.region();
        let Some(gateway) = self.nearest_gateway(region, flight.request().session) else {
            // No gateway answers: the client gives up after a connect timeout.
            self.queue.push(self.now + CONNECT_TIMEOUT, Event::Over { id, fate: Fate::Lost });
            if let Some(flight) = self.flights.get_mut(id) {
                flight.give_up();
            }
            return;
        };
        let place = self.gateways[usize::from(gateway)].region;
        let delay = self.delay(region, place, id, leg::ENTER);
        let Some(flight) = self.flights.get_mut(id) else { return };
        flight.enter(gateway);
        let attempt = flight.attempt();
        self.queue.push(self.now + delay, Event::Arrive { id, gateway, attempt });
    }

    /// The nearest living gateway that messages reach; gateways of one region share its clients.
    fn nearest_gateway(&self, region: usize, session: u64) -> Option<u16> {
        let alive = |g: &usize| {
            !self.is_avoided(*g) && self.network.passes(region, self.gateways[*g].region)
        };
        let near = (0..self.gateways.len())
            .filter(alive)
            .min_by_key(|g| (self.network.rtt(region, self.gateways[*g].region), *g))?;
        let place = self.gateways[near].region;
        let same: Vec<usize> = (0..self.gateways.len())
            .filter(|g| alive(g) && self.gateways[*g].region == place)
            .collect();
        let spread = meridian_base::mix(session, 0x434C_4945) as usize;
        Some(same[spread % same.len()] as u16)
    }

    /// The gateway that dispatched the current attempt.
    fn sender(&self, id: RequestId, attempt: u32) -> Option<u16> {
        let flight = self.flights.get(id).filter(|f| f.attempt() == attempt)?;
        Some(flight.sender())
    }

    /// When a message of a request's answer arrives: not before the one sent ahead of it.
    fn along(&mut self, id: RequestId, from: usize, to: usize, at: Time, leg: u64) -> Time {
        // An engine's process may be late: nothing leaves it before now.
        let at = at.max(self.now) + self.delay(from, to, id, leg);
        let Some(flight) = self.flights.get_mut(id) else { return at };
        flight.message(at)
    }

    pub(super) fn first(&mut self, id: RequestId, gateway: u16, attempt: u32) {
        let Some(flight) = self.flights.get(id).filter(|f| f.attempt() == attempt) else { return };
        if !self.gateways[usize::from(gateway)].up {
            return;
        }
        let (entry, peer) = (flight.entry(), flight.peer());
        let here = self.gateways[usize::from(gateway)].region;
        if let Some(flight) = self.flights.get_mut(id) {
            flight.stream();
        }
        self.tell_machine(gateway, meridian_routing::Input::FirstToken(id));
        if peer == Some(gateway) {
            let there = self.gateways[usize::from(entry)].region;
            let at = self.along(id, here, there, self.now, leg::BACK);
            self.queue.push(at, Event::First { id, gateway: entry, attempt });
        } else {
            self.first_to_client(id, here, self.now);
        }
        self.drive(gateway);
    }

    fn first_to_client(&mut self, id: RequestId, from: usize, at: Time) {
        let Some(region) = self.flights.get(id).map(Flight::region) else { return };
        let at = self.along(id, from, region, at, leg::OVER);
        if let Some(flight) = self.flights.get_mut(id) {
            flight.first_token_at(at);
        }
    }

    pub(super) fn ended(&mut self, id: RequestId, gateway: u16, attempt: u32, outcome: Outcome) {
        let Some(flight) = self.flights.get(id).filter(|f| f.attempt() == attempt) else { return };
        if !self.gateways[usize::from(gateway)].up {
            return;
        }
        if flight.sender() == gateway && flight.split().is_some_and(|split| split.prefilling) {
            self.prefill_failed(id, gateway, outcome);
            return;
        }
        let forwarded_here = flight.peer() == Some(gateway);
        let failed = !matches!(outcome, Outcome::Done | Outcome::ClientError);
        let retry = failed && !flight.has_streamed();
        let usage = (outcome == Outcome::Done).then_some(Usage {
            prompt_tokens: flight.text().prompt_tokens,
            cached_tokens: self.said_of_cache(flight.cached()),
            completion_tokens: flight.text().reply_tokens,
            prefill_us: None,
        });
        // The claim of a split one was weighed when its prompt was computed.
        if outcome == Outcome::Done && flight.split().is_none() {
            self.weigh_claim(id, gateway);
        }
        self.decode_ended(id, gateway, outcome);
        let follows = self.granularity.follows && outcome == Outcome::Done;
        let extended = follows.then(|| self.extended(id)).flatten();
        let served = self.served(id, gateway);
        let input =
            meridian_routing::Input::Finished { id, outcome, retry, usage, extended, served };
        if forwarded_here {
            self.relay_end(id, gateway, attempt, outcome, retry);
        } else if !retry {
            self.answer(id, gateway, outcome);
        } else if let Some(flight) = self.flights.get_mut(id) {
            flight.come_back();
        }
        self.tell_machine(gateway, input);
        self.drive(gateway);
    }

    /// The prompt and reply's blocks in the policy's granularity, as far as whole 16-token blocks
    /// tell them.
    fn extended(&self, id: RequestId) -> Option<Vec<u64>> {
        let flight = self.flights.get(id)?;
        flight.text().own_blocks.is_none().then(|| flight.text().blocks.clone())
    }

    /// The peer's own id of the replica that served, for the gateway that forwarded.
    fn served(&self, id: RequestId, gateway: u16) -> Option<meridian_base::ReplicaId> {
        let flight = self.flights.get(id)?;
        let peer = flight.peer().filter(|p| *p != gateway)?;
        self.gateways[usize::from(peer)].id_of(flight.replica()?)
    }

    /// A peer relays the end of an answer, unless it retries elsewhere itself.
    fn relay_end(
        &mut self,
        id: RequestId,
        gateway: u16,
        attempt: u32,
        outcome: Outcome,
        retry: bool,
    ) {
        if retry {
            return;
        }
        let Some(entry) = self.flights.get(id).map(|f| f.entry()) else { return };
        let here = self.gateways[usize::from(gateway)].region;
        let there = self.gateways[usize::from(entry)].region;
        let (at, outcome) = match self.network.passes(here, there) {
            true => (self.along(id, here, there, self.now, leg::BACK), outcome),
            false => (self.now + CONNECT_TIMEOUT, Outcome::ReplicaError),
        };
        self.queue.push(at, Event::Ended { id, gateway: entry, attempt, outcome });
    }

    /// The entry gateway has the answer's end for the client.
    fn answer(&mut self, id: RequestId, gateway: u16, outcome: Outcome) {
        let fate = match outcome {
            Outcome::Done => Fate::Done,
            Outcome::ClientError => Fate::Invalid,
            _ => Fate::Lost,
        };
        let here = self.gateways[usize::from(gateway)].region;
        self.end_at_client(id, here, self.now, fate);
    }

    /// The end of a request travels to its client.
    pub(super) fn end_at_client(&mut self, id: RequestId, from: usize, at: Time, fate: Fate) {
        let Some(flight) = self.flights.get_mut(id).filter(|f| !f.is_ending()) else { return };
        let region = flight.region();
        flight.end();
        let at = self.along(id, from, region, at, leg::OVER);
        self.queue.push(at, Event::Over { id, fate });
    }

    pub(super) fn over(&mut self, id: RequestId, fate: Fate) {
        let Some(flight) = self.flights.remove(id) else {
            self.violated(format!("{id} ended twice"));
            return;
        };
        if fate == Fate::Done && !flight.has_first_token() {
            self.violated(format!("{id} was answered without a first token"));
        }
        if fate == Fate::Done && self.counts(self.now) {
            self.report.done_in_window += 1;
            self.report.tokens_in_window += u64::from(flight.text().reply_tokens);
        }
        if self.counts(flight.request().sent) {
            let served = flight.replica().map(|r| self.replicas[r as usize].hardware.region as u16);
            self.report.requests.push(flight.record(self.now, served, fate));
        }
        let request = flight.request();
        self.request_ended(request.program, request.node, fate == Fate::Done);
    }

    /// Ways out of a gateway, used by its outputs.
    pub(super) fn send_to_replica(
        &mut self,
        id: RequestId,
        gateway: u16,
        replica: u32,
        attempt: u32,
    ) {
        let here = self.gateways[usize::from(gateway)].region;
        let there = self.replicas[replica as usize].hardware.region;
        if self.network.passes(here, there) {
            let prefills =
                self.flights.get(id).and_then(|f| f.split()).is_some_and(|s| s.prefilling);
            let leg = if prefills { leg::PREFILL } else { leg::SUBMIT };
            let delay = self.delay(here, there, id, leg);
            self.queue.push(self.now + delay, Event::Submit { id, replica, attempt });
        } else {
            let outcome = self.failure(id, Outcome::Unreached);
            let at = self.now + CONNECT_TIMEOUT;
            self.queue.push(at, Event::Ended { id, gateway, attempt, outcome });
        }
    }

    /// The way to a peer.
    pub(super) fn send_to_peer(&mut self, id: RequestId, gateway: u16, peer: u16, attempt: u32) {
        let here = self.gateways[usize::from(gateway)].region;
        let there = self.gateways[usize::from(peer)].region;
        if self.network.passes(here, there) && !self.is_gone(peer) {
            let delay = self.delay(here, there, id, leg::FORWARD);
            self.queue.push(self.now + delay, Event::Arrive { id, gateway: peer, attempt });
        } else {
            let outcome = Outcome::ReplicaError;
            let at = self.now + CONNECT_TIMEOUT;
            self.queue.push(at, Event::Ended { id, gateway, attempt, outcome });
        }
    }
}
