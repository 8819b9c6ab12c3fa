//! Drives the routing machines: passes them inputs and carries out their outputs.

use meridian_base::{Duration, PeerId, ReplicaId, RequestId, Time};
use meridian_routing::{Input, Load, Outcome, Output, RejectWhy, Request};

use crate::event::Event;
use crate::gateway::MODEL;
use crate::network::CONNECT_TIMEOUT;
use crate::report::Fate;
use crate::stopped::PROBE_TIMEOUT;
use crate::world::World;

impl World {
    /// Passes one event to a machine.
    pub(super) fn tell_machine(&mut self, gateway: u16, input: Input) {
        self.before_telling(gateway);
        if self.gateways[usize::from(gateway)].machine.held_len() > 0 {
            self.catch_up(gateway);
        }
        let now = self.now;
        self.gateways[usize::from(gateway)].machine.handle(now, input);
    }

    pub(super) fn gateway_due(&mut self, gateway: u16) {
        let now = self.now;
        let there = &mut self.gateways[usize::from(gateway)];
        if there.timer != Some(now) || !there.up {
            return;
        }
        there.timer = None;
        self.before_telling(gateway);
        self.catch_up(gateway);
        self.gateways[usize::from(gateway)].machine.handle_timeout(now);
        self.drive(gateway);
    }

    /// Carries out a machine's outputs, and sets its timer.
    pub(super) fn drive(&mut self, gateway: u16) {
        self.touched_gateway(gateway);
        while let Some(output) = self.gateways[usize::from(gateway)].machine.poll() {
            self.obey(gateway, output);
        }
        let held = self.gateways[usize::from(gateway)].machine.held_len();
        self.report.held_peak = self.report.held_peak.max(held);
        let due = self.gateways[usize::from(gateway)].machine.poll_timeout();
        let due = due.map(|at| self.fires(at.max(self.now)));
        let there = &mut self.gateways[usize::from(gateway)];
        if due != there.timer {
            there.timer = due;
            // A timer beyond the end of the run is not entered again each time nothing earlier is
            // due.
            if let Some(at) = due.filter(|at| *at != there.farthest || *at == self.now) {
                there.farthest = there.farthest.max(at);
                self.queue.push(at, Event::Gateway { gateway });
            }
        }
        self.tell_soon(gateway);
        self.turned(gateway);
    }

    pub(super) fn obey(&mut self, gateway: u16, output: Output) {
        match output {
            Output::Dispatch { id, replica, prefill: None, matched_tokens, .. } => {
                self.dispatch(gateway, id, replica, matched_tokens);
            }
            Output::Dispatch { id, replica, prefill: Some(from), matched_tokens, .. } => {
                self.dispatch_pair(gateway, id, (from, replica), matched_tokens);
            }
            Output::Forward { id, peer, matched_tokens, .. } => {
                self.forward(gateway, id, peer, matched_tokens);
            }
            Output::Held(id) => {
                let now = self.now;
                if let Some(flight) = self.flights.get_mut(id) {
                    flight.hold(now);
                }
            }
            Output::Reject { id, why, .. } => self.rejected(gateway, id, why),
            Output::Probe(id) => self.send_probe(gateway, id),
            // Dead replicas fail their requests at once; for suspended ones see `stopped.rs`.
            Output::Down(_) | Output::Up(_) => {}
            Output::Share(record) => self.share(gateway, &record),
            Output::Steal { from, count } => {
                let Some(to) = self.peer_at(gateway, from) else { return };
                let (here, there) = (self.region_of(gateway), self.region_of(to));
                if self.network.passes(here, there) {
                    let delay = self.network.one_way(here, there, self.report.events);
                    let event = Event::Steal { to, from: gateway, count };
                    self.queue.push(self.now + delay, event);
                }
            }
        }
    }

    pub(super) fn region_of(&self, gateway: u16) -> usize {
        self.gateways[usize::from(gateway)].region
    }

    fn peer_at(&self, gateway: u16, id: PeerId) -> Option<u16> {
        self.gateways[usize::from(gateway)].peer_of(id)
    }

    fn dispatch(&mut self, gateway: u16, id: RequestId, own: ReplicaId, matched: u32) {
        let now = self.now;
        let known = self.gateways[usize::from(gateway)].replica_of(own);
        let Some(replica) = known else {
            self.violated(format!("{id} was dispatched to {own}, which is not a replica"));
            return;
        };
        self.check_place(id, self.replicas[replica as usize].hardware.region, "dispatched to");
        self.check_answers(id, replica);
        let Some(flight) = self.flights.get_mut(id) else { return };
        let attempt = flight.dispatch(now, replica, matched);
        self.send_to_replica(id, gateway, replica, attempt);
    }

    fn forward(&mut self, gateway: u16, id: RequestId, peer: PeerId, matched: u32) {
        let now = self.now;
        let Some(to) = self.peer_at(gateway, peer) else { return };
        let Some(flight) = self.flights.get_mut(id) else { return };
        if flight.entry() != gateway {
            self.violated(format!("{id} was forwarded twice"));
            return;
        }
        let attempt = flight.forward(now, to, matched);
        self.send_to_peer(id, gateway, to, attempt);
    }

    /// A gateway refuses: its client, or the gateway that forwarded, is informed.
    fn rejected(&mut self, gateway: u16, id: RequestId, why: RejectWhy) {
        let now = self.now;
        let here = self.region_of(gateway);
        let Some(flight) = self.flights.get_mut(id) else { return };
        flight.leave_queue(now);
        let (entry, attempt) = (flight.entry(), flight.attempt());
        if entry != gateway {
            if why == RejectWhy::NoRoom {
                flight.was_sent_back();
            }
            let outcome = match why {
                RejectWhy::RetriesExhausted { .. } | RejectWhy::EngineDied { .. } => {
                    Outcome::ReplicaError
                }
                RejectWhy::NoRoom => Outcome::NoRoom,
                _ => Outcome::Full,
            };
            let delay = self.network.one_way(here, self.region_of(entry), id.0);
            let event = Event::Ended { id, gateway: entry, attempt, outcome };
            self.queue.push(now + delay, event);
            return;
        }
        self.check_refusal(id, gateway, why);
        let fate = match why {
            RejectWhy::RetriesExhausted { .. } | RejectWhy::EngineDied { .. } => Fate::Lost,
            _ => Fate::Rejected,
        };
        self.end_at_client(id, here, now, fate);
    }

    /// A request reaches a gateway, from its client or from a peer.
    pub(super) fn arrive(&mut self, id: RequestId, gateway: u16, attempt: u32) {
        let Some(flight) = self.flights.get(id).filter(|f| f.attempt() == attempt) else { return };
        let hops = u8::from(flight.entry() != gateway);
        if !self.gateways[usize::from(gateway)].up {
            self.gateway_gone(id, gateway, attempt);
            return;
        }
        let request = self.request(id, gateway, hops);
        if let Some(request) = request {
            self.catch_up(gateway);
            self.tell_machine(gateway, Input::Arrived(request));
            self.drive(gateway);
        }
    }

    /// The queues of rivals take no turns by session; a twin is compared with our own gateway.
    fn knows_sessions(&self) -> bool {
        self.twin.is_some() || self.system.policy.name == "meridian"
    }

    fn request(&self, id: RequestId, gateway: u16, hops: u8) -> Option<Request> {
        let flight = self.flights.get(id)?;
        let (asked, text) = (flight.request(), flight.text());
        let residence = self.rules.residence(asked.load, self.region_of(flight.entry()));
        let blocks = match &text.own_blocks {
            Some(own) => own.clone(),
            None => text.prompt_blocks().to_vec(),
        };
        let block_tokens =
            self.granularity.block_bytes as f32 / meridian_workload::BYTES_PER_TOKEN as f32;
        Some(Request {
            id,
            model: MODEL,
            tenant: asked.tenant,
            priority: meridian_routing::Priority::Normal,
            key: asked.session,
            session: self.knows_sessions().then_some(asked.session),
            head: text.head,
            blocks,
            prompt_tokens: text.prompt_tokens,
            block_tokens,
            // A limit would be the exact length of the reply, which no policy knows. Only the
            // clients that a twin is compared with send it.
            max_tokens: self.twin.map(|_| text.reply_tokens),
            deadline: asked.slo.map(|slo| asked.sent + slo),
            pinned: None,
            streams: true,
            elsewhere: false,
            died: false,
            awaited: false,
            scale_from_zero: self.system.scale_from_zero.filter(|_| hops == 0),
            splits: self.legs.has_pairs(),
            hops,
            peers: self.gateways[usize::from(gateway)].all_peers(),
            here: true,
            residence,
        })
    }

    fn gateway_gone(&mut self, id: RequestId, gateway: u16, attempt: u32) {
        let Some(flight) = self.flights.get(id) else { return };
        let entry = flight.entry();
        if entry == gateway {
            // Connection refused: the client tries the next nearest at once.
            self.enter(id);
            return;
        }
        let (from, to) = (self.region_of(gateway), self.region_of(entry));
        let delay = self.network.one_way(from, to, id.0);
        let outcome = Outcome::ReplicaError;
        let event = Event::Ended { id, gateway: entry, attempt, outcome };
        self.queue.push(self.now + delay, event);
    }

    fn send_probe(&mut self, gateway: u16, id: ReplicaId) {
        let asked = self.now;
        let known = self.gateways[usize::from(gateway)].replica_of(id);
        let Some(replica) = known else { return };
        let (from, to) = (self.region_of(gateway), self.replicas[replica as usize].hardware.region);
        self.report.probes[usize::from(from != to)] += u64::from(self.counts(asked));
        if !self.network.passes(from, to) || !self.network.passes(to, from) {
            let event = Event::Report { gateway, id, asked, load: None };
            self.queue.push(asked + CONNECT_TIMEOUT, event);
            return;
        }
        let delay = self.network.one_way(from, to, asked.as_nanos() ^ u64::from(replica) << 40);
        self.queue.push(asked + delay, Event::Probe { gateway, id, asked });
    }

    pub(super) fn probe(&mut self, gateway: u16, id: ReplicaId, asked: Time) {
        let known = self.gateways[usize::from(gateway)].replica_of(id);
        let Some(replica) = known else { return };
        if self.replicas[replica as usize].answers() {
            self.turn_at_once(replica);
        }
        let there = &self.replicas[replica as usize];
        if there.stopped.is_some() {
            let at = self.now.max(asked + PROBE_TIMEOUT);
            self.queue.push(at, Event::Report { gateway, id, asked, load: None });
            return;
        }
        let load: Option<Load> = there.up.then(|| there.load());
        let (from, to) = (there.hardware.region, self.region_of(gateway));
        let delay = self.network.one_way(from, to, asked.as_nanos() ^ u64::from(replica) << 41);
        self.queue.push(self.now + delay, Event::Report { gateway, id, asked, load });
    }

    pub(super) fn report(&mut self, gateway: u16, id: ReplicaId, asked: Time, load: Option<Load>) {
        let there = &self.gateways[usize::from(gateway)];
        if !there.up || there.replica_of(id).is_none() {
            return;
        }
        match load {
            Some(load) => self.tell_machine(gateway, Input::Reported { id, asked, load }),
            None => {
                self.before_telling(gateway);
                self.probe_failed(gateway, id);
            }
        }
        self.drive(gateway);
    }

    /// Minimum time before this gateway's digest is sent again.
    pub(super) fn digest_gap(&self) -> Duration {
        self.system.digests.on_change.unwrap_or(self.system.digests.every)
    }
}
