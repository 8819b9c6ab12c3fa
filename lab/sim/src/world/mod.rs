//! The world: its state, and what it does at an instant.

mod check;
mod digests;
mod dispatch;
mod faults;
mod found;
mod handover;
mod legs;
mod lookup;
mod peers;
mod place;
mod resize;
mod send;
mod siblings;
mod suspend;
mod timers;
mod traffic;
mod weigh;

use meridian_base::{Duration, FlowId, PeerId, RequestId, Time};

use crate::clients::Clients;
use crate::event::Event;
use crate::fabric::Fabric;
use crate::flights::Flights;
use crate::gateway::Gateway;
use crate::granularity::Granularity;
use crate::legs::Legs;
use crate::network::Network;
use crate::news::Change;
use crate::oracle::Oracle;
use crate::queue::EventQueue;
use crate::replica::Replica;
use crate::report::Report;
use crate::rules::Rules;
use crate::run;
use crate::scale::Scaling;
use crate::scenario::{Fault, Measure, Region, System};
use crate::twin::Twin;

/// The machines that an event changed.
#[derive(Default)]
struct Touched {
    replicas: Vec<u32>,
    gateways: Vec<u16>,
}

/// All state of a run.
pub(crate) struct World {
    now: Time,
    /// When loads stop.
    end: Time,
    seed: u64,
    queue: EventQueue<Event>,
    regions: Vec<Region>,
    rules: Rules,
    network: Network,
    system: System,
    granularity: Granularity,
    replicas: Vec<Replica>,
    /// By replica.
    changes: Vec<Change>,
    gateways: Vec<Gateway>,
    oracle: Option<Oracle>,
    clients: Clients,
    flights: Flights,
    legs: Legs,
    faults: Vec<(Time, Fault)>,
    /// The control plane is dead or suspended: assignments do not change.
    uncontrolled: bool,
    scaling: Option<Scaling>,
    measure: Measure,
    paranoid: bool,
    twin: Option<Twin>,
    touched: Touched,
    /// Answers do not report cached tokens, so an index is never corrected.
    #[cfg(test)]
    untold: bool,
    report: Report,
}

impl World {
    /// Whether no load and no request is left.
    fn is_over(&self) -> bool {
        self.now > self.end && self.flights.len() == 0
    }

    fn clock(&mut self, now: Time) {
        assert!(now >= self.now, "{now:?} comes after {:?}", self.now);
        self.now = now;
    }

    /// Counts something that happens now.
    fn count(&mut self) {
        self.report.ended = self.now;
        self.report.events += 1;
    }

    fn handle(&mut self, event: Event) {
        let Some(event) = self.unless_stopped(event) else { return };
        match event {
            Event::Next { load } => self.next_program(load),
            Event::Client { client } => self.next_of_client(client),
            Event::Send { program, node } => self.send(program, node),
            Event::Arrive { id, gateway, attempt } => self.arrive(id, gateway, attempt),
            Event::Submit { id, replica, attempt } => self.submit(id, replica, attempt),
            Event::Prefilled { id, gateway, attempt, since } => {
                self.prefilled(id, gateway, attempt, since);
            }
            Event::Kv { name, replica, message } => self.kv(name, replica, message),
            Event::First { id, gateway, attempt } => self.first(id, gateway, attempt),
            Event::Ended { id, gateway, attempt, outcome } => {
                self.ended(id, gateway, attempt, outcome);
            }
            Event::Over { id, fate } => self.over(id, fate),
            Event::Engine { replica } => self.engine_due(replica),
            Event::Gateway { gateway } => self.gateway_due(gateway),
            Event::Wake { gateway } => self.wake(gateway),
            Event::Probe { gateway, id, asked } => self.probe(gateway, id, asked),
            Event::Report { gateway, id, asked, load } => self.report(gateway, id, asked, load),
            Event::Tell { gateway } => self.tell(gateway),
            Event::Digest { to, from, number, rtt, digest } => {
                self.digest(to, from, number, rtt, digest);
            }
            Event::Steal { to, from, count } => self.steal(to, from, count),
            Event::Fault { at } => self.fault(self.faults[at as usize].1),
            Event::Adopt => self.adopt(),
            Event::Impatient { id, gateway, since } => self.impatient(id, gateway, since),
            Event::Look { gateway } => self.look(gateway),
            Event::Gone { gateway, since } => self.gone(gateway, since),
            Event::Broken { id, gateway, replica, attempt } => {
                self.broken(id, gateway, replica, attempt);
            }
            Event::Inherited { gateway, replica, holdings } => {
                self.inherited(gateway, replica, holdings);
            }
            Event::Sibling { to, from, number, record } => {
                self.hear_sibling(to, from, number, record);
            }
            Event::SiblingAsked { by, of } => self.sibling_asked(by, of),
            Event::SiblingAnswered { to, from, number, all } => {
                self.sibling_answered(to, from, number, all);
            }
            Event::Scale => self.scale(),
            Event::Provisioned { replica } => self.provisioned(replica),
            Event::Sample => self.sample(),
        }
    }

    /// The gateway's own id of a peer.
    fn peer_of(&self, gateway: u16, peer: u16) -> Option<PeerId> {
        self.gateways[usize::from(gateway)].peer_id(peer)
    }

    fn violated(&mut self, what: String) {
        if self.report.violations.len() < 100 {
            self.report.violations.push(format!("{:.6} s: {what}", self.now.as_secs_f64()));
        }
    }

    /// Events handled so far.
    pub(crate) fn events(&self) -> u64 {
        self.report.events
    }

    /// The results, once no event is left.
    pub(crate) fn close(mut self) -> Report {
        let left = self.flights.ids(|_| true);
        for id in left {
            self.violated(format!("{id} never ended"));
        }
        for at in 0..self.gateways.len() {
            let there = &self.gateways[at];
            let left = match &there.stopped {
                None if there.up => there.machine.active_len(),
                _ => 0,
            };
            if left > 0 {
                self.violated(format!("gateway {at} still brings {left} requests that ended"));
            }
        }
        self.check_left();
        self.settle_bills();
        self.report.total_requests = self.flights.started();
        for gateway in &self.gateways {
            if let Some((_, totals)) = gateway.machine.shadow() {
                self.report.shadow.merge(totals);
            }
        }
        self.report
    }

    /// The cached prompt tokens that an answer reports.
    fn said_of_cache(&self, cached: u32) -> Option<u32> {
        #[cfg(test)]
        if self.untold {
            return None;
        }
        Some(cached)
    }

    /// Whether a time is in the measured window.
    fn counts(&self, at: Time) -> bool {
        at >= Time::ZERO + self.measure.warmup && at < self.end
    }

    /// One-way delay of a request's message.
    fn delay(&self, from: usize, to: usize, id: RequestId, leg: u64) -> Duration {
        let name = self.flights.get(id).map_or(id.0, |f| f.request().name);
        self.network.one_way(from, to, name ^ leg << 56)
    }
}

impl run::World for World {
    type Event = Event;
    type Carrier = Fabric<RequestId>;

    fn ahead(&mut self) -> (&mut EventQueue<Event>, &mut Fabric<RequestId>) {
        (&mut self.queue, self.legs.fabric())
    }

    fn transferred(&mut self, now: Time, (_, name): (FlowId, RequestId)) {
        self.clock(now);
        if !self.is_over() {
            self.count();
        }
        self.landed(name);
        self.check();
    }

    fn happen(&mut self, now: Time, event: Event) {
        self.clock(now);
        // What only keeps the world running is dropped.
        if self.is_over() && !matches!(event, Event::Over { .. }) {
            return;
        }
        self.count();
        self.handle(event);
        self.check();
    }
}
