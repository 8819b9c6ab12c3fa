//! The world of a fleet.

use meridian_base::{Duration, Time};

use super::decode::{self, Decode, Running};
use super::mixed::{self, Mixed};
use super::prefill::{self, Prefill};
use super::report::{Record, Report, Spent};
use super::setup::{Choose, Instance, Setup};
use super::stage::{Home, Of, Pass, Stages};
use super::wires::Wires;
use crate::queue::EventQueue;
use crate::rows::Rows;
use crate::run::{self, World as _};

/// A scheduled event.
#[derive(Clone, Copy, Debug)]
enum Event {
    Arrived(usize),
    /// A stage has finished computing.
    Computed(u32),
}

/// The purpose of a transfer.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// A pass's collectives at its stage.
    Joined(u32),
    /// A pass's way to the next stage.
    Passed(u32),
    /// A part of a request's KV.
    Kv(usize),
}

/// A request in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    prefill: usize,
    decode: usize,
    /// The number of events that its KV at the decode instance waits for: two transfers and the
    /// prompt.
    missing: u8,
    first: Time,
    record: Record,
}

struct World<'a> {
    setup: &'a Setup,
    choose: &'a mut dyn Choose,
    queue: EventQueue<Event>,
    wires: Wires<Then>,
    prefill: Vec<Prefill>,
    decode: Vec<Decode>,
    mixed: Vec<Mixed>,
    passes: Rows<Pass>,
    flights: Vec<Flight>,
    spent: (Spent, Spent),
    held: Held,
}

/// Tokens of KV on all instances, until the last arrival.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    until: Time,
    tokens: f64,
    since: Time,
    sum: f64,
}

impl Held {
    fn change(&mut self, now: Time, by: f64) {
        let now = now.min(self.until);
        self.sum += self.tokens * now.since(self.since).as_secs_f64();
        (self.since, self.tokens) = (now, self.tokens + by);
    }

    fn mean(&mut self) -> f64 {
        self.change(self.until, 0.0);
        let seconds = self.until.as_secs_f64();
        if seconds > 0.0 { self.sum / seconds } else { 0.0 }
    }
}

/// Runs a fleet.
pub fn run(setup: &Setup, choose: &mut dyn Choose) -> Report {
    let mut world = World::new(setup, choose);
    world.until(setup.until);
    world.report()
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup, choose: &'a mut dyn Choose) -> World<'a> {
        let mut queue = EventQueue::new(Duration::ZERO);
        for (nth, request) in setup.requests.iter().enumerate() {
            queue.push(request.at, Event::Arrived(nth));
        }
        let until = setup.requests.last().map_or(Time::ZERO, |request| request.at);
        World {
            queue,
            wires: Wires::new(&setup.ports),
            prefill: setup.prefill.iter().map(Prefill::new).collect(),
            decode: setup.decode.iter().map(Decode::new).collect(),
            mixed: setup.aggregated.iter().map(Mixed::new).collect(),
            passes: Rows::default(),
            flights: vec![Flight::default(); setup.requests.len()],
            spent: (Spent::default(), Spent::default()),
            held: Held { until, ..Held::default() },
            setup,
            choose,
        }
    }

    /// Starts the next prompts if the first stage is free.
    fn prompts(&mut self, now: Time, at: usize) {
        let instance = &self.setup.prefill[at];
        if !self.prefill[at].stages.is_free(0) || self.prefill[at].queue.is_empty() {
            return;
        }
        let count = instance.together.min(self.prefill[at].queue.len());
        let prompts: Vec<usize> = self.prefill[at].queue.drain(..count).collect();
        for request in &prompts {
            let tokens = f64::from(self.setup.requests[*request].prompt);
            self.held.change(now, tokens);
            let to = decode::least(&self.decode, &self.setup.decode);
            self.decode[to].outstanding += 1;
            self.flights[*request].decode = to;
            self.flights[*request].missing = 3;
            self.send(now, *request, 1.0 - 1.0 / f64::from(self.setup.layers));
        }
        let work = prefill::work(&prompts, &self.setup.requests, instance.together);
        self.begin(now, Pass::new(Home::Prefill(at), work, Of::Prompts(prompts)));
    }

    /// Sends a share of a request's KV.
    fn send(&mut self, now: Time, request: usize, share: f64) {
        let Flight { prefill, decode, .. } = self.flights[request];
        let way = &self.setup.handoff[prefill][decode];
        let tokens = f64::from(self.setup.requests[request].prompt) * share;
        self.choose.carried(now, &way.loads, tokens);
        self.wires.begin(now, way, (tokens, 1.0), Then::Kv(request));
    }

    fn begin(&mut self, now: Time, pass: Pass) {
        let id = self.passes.enter(pass);
        self.enter(now, id);
    }

    fn pass(&mut self, id: u32) -> &mut Pass {
        self.passes.get_mut(id).expect("a pass is kept until it is through")
    }

    /// The setup of a pass's instance, with its phase's statistics and its stages.
    fn home(&mut self, home: Home) -> (&'a Instance, &mut Spent, &mut Stages) {
        let (setup, spent) = (self.setup, &mut self.spent);
        match home {
            Home::Prefill(at) => (&setup.prefill[at], &mut spent.0, &mut self.prefill[at].stages),
            Home::Decode(at) => (&setup.decode[at], &mut spent.1, &mut self.decode[at].stages),
            Home::Mixed(at) => {
                (&setup.aggregated[at].engine, &mut spent.1, &mut self.mixed[at].stages)
            }
        }
    }

    /// A pass arrives at its stage.
    fn enter(&mut self, now: Time, id: u32) {
        let Pass { home, stage, .. } = *self.pass(id);
        let (_, _, stages) = self.home(home);
        if stages.enter(stage, id) {
            self.compute(now, id);
        }
    }

    fn compute(&mut self, now: Time, id: u32) {
        let pass = self.pass(id);
        let (home, stage, work) = (pass.home, pass.stage, pass.work);
        let (instance, spent, _) = self.home(home);
        let seconds = instance.stages[stage].terms.seconds(&work);
        spent.computing += seconds;
        spent.steps += u64::from(stage == 0);
        self.queue.push(now + Duration::from_secs_f64(seconds), Event::Computed(id));
    }

    /// A stage has finished computing: starts its all-reduces.
    fn join(&mut self, now: Time, id: u32) {
        let pass = self.pass(id);
        let (home, at, tokens) = (pass.home, pass.stage, pass.work.tokens);
        let (instance, ..) = self.home(home);
        let stage = &instance.stages[at];
        let bytes = tokens * instance.token_bytes;
        if stage.ways.is_empty() {
            return self.joined(now, id);
        }
        let way = self.choose.choose(now, stage.group, bytes, stage.reductions);
        let way = &stage.ways[way.min(stage.ways.len() - 1)];
        self.pass(id).joining = Some(now);
        self.wires.begin(now, way, (bytes, stage.reductions), Then::Joined(id));
    }

    /// A stage has finished a pass.
    fn joined(&mut self, now: Time, id: u32) {
        let pass = self.pass(id);
        let (home, at, tokens) = (pass.home, pass.stage, pass.work.tokens);
        let joining = pass.joining.take();
        let (instance, spent, stages) = self.home(home);
        spent.collectives += joining.map_or(0.0, |since| now.since(since).as_secs_f64());
        if let Some(next) = stages.leave(at) {
            self.compute(now, next);
        }
        match &instance.stages[at].pass {
            Some(way) => {
                self.pass(id).stage += 1;
                let bytes = tokens * instance.token_bytes;
                self.choose.carried(now, &way.loads, bytes);
                self.wires.begin(now, way, (bytes, 1.0), Then::Passed(id));
            }
            None => self.through(now, id),
        }
        if let (Home::Prefill(prefill), 0) = (home, at) {
            self.prompts(now, prefill);
        }
    }

    /// A pass has left the last stage.
    fn through(&mut self, now: Time, id: u32) {
        let Some(pass) = self.passes.take(id) else { return };
        match (pass.home, pass.of) {
            (Home::Prefill(at), Of::Prompts(prompts)) => {
                for request in prompts {
                    self.prefill[at].tokens -= f64::from(self.setup.requests[request].prompt);
                    self.send(now, request, 1.0 / f64::from(self.setup.layers));
                    self.arrived(now, request);
                }
            }
            (Home::Decode(at), Of::Lane(lane)) => {
                let more = self.decode[at].lanes[lane].running.len() as f64;
                self.held.change(now, more);
                for request in self.decode[at].stepped(lane, &self.setup.requests) {
                    self.finished(now, request);
                }
                self.wake(now, at);
            }
            (Home::Mixed(at), Of::Lane(lane)) => self.stepped(now, at, lane),
            _ => {}
        }
    }

    /// One of the events that a request's KV waits for.
    fn arrived(&mut self, now: Time, request: usize) {
        let flight = &mut self.flights[request];
        assert!(flight.missing > 0, "request {request} has its first token twice");
        flight.missing -= 1;
        if flight.missing > 0 {
            return;
        }
        flight.first = now;
        let to = flight.decode;
        let asked = self.setup.requests[request];
        flight.record.ttft = Some(now.since(asked.at).as_secs_f64());
        if asked.output < 2 {
            assert!(
                self.decode[to].outstanding > 0,
                "request {request} leaves a decode without any"
            );
            self.decode[to].outstanding -= 1;
            return self.finished(now, request);
        }
        self.decode[to].waiting.push_back(Running::new(request));
        self.wake(now, to);
    }

    fn finished(&mut self, now: Time, request: usize) {
        let asked = self.setup.requests[request];
        let more = f64::from(asked.output.saturating_sub(1));
        let flight = &mut self.flights[request];
        flight.record.tpot = Some(now.since(flight.first).as_secs_f64() / more.max(1.0));
        self.held.change(now, -f64::from(asked.prompt) - more);
    }

    /// Starts a step in every idle lane that has requests.
    fn wake(&mut self, now: Time, at: usize) {
        for lane in 0..self.decode[at].lanes.len() {
            if self.decode[at].lanes[lane].busy {
                continue;
            }
            let step = self.decode[at].step(lane, &self.setup.decode[at], &self.setup.requests);
            if let Some(work) = step {
                self.begin(now, Pass::new(Home::Decode(at), work, Of::Lane(lane)));
            }
        }
    }

    /// An aggregated instance has finished a step.
    fn stepped(&mut self, now: Time, at: usize, lane: usize) {
        let (first, over) = self.mixed[at].stepped(lane, &self.setup.requests);
        for request in first {
            let flight = &mut self.flights[request];
            flight.first = now;
            let asked = self.setup.requests[request];
            flight.record.ttft = Some(now.since(asked.at).as_secs_f64());
        }
        for request in over {
            let more = f64::from(self.setup.requests[request].output.saturating_sub(1));
            let flight = &mut self.flights[request];
            flight.record.tpot = Some(now.since(flight.first).as_secs_f64() / more.max(1.0));
        }
        self.wake_mixed(now, at);
    }

    /// Starts a step in every idle lane of an aggregated instance.
    fn wake_mixed(&mut self, now: Time, at: usize) {
        for lane in 0..self.mixed[at].lanes() {
            let setup = self.setup;
            let step = self.mixed[at].step(lane, &setup.aggregated[at], &setup.requests);
            if let Some(work) = step {
                self.begin(now, Pass::new(Home::Mixed(at), work, Of::Lane(lane)));
            }
        }
    }

    fn report(mut self) -> Report {
        let kv_tokens = self.held.mean();
        let records = self.flights.iter().map(|flight| flight.record).collect();
        let (prefill, decode) = self.spent;
        Report { records, prefill, decode, kv_tokens }
    }
}

impl run::World for World<'_> {
    type Event = Event;
    type Carrier = Wires<Then>;

    fn ahead(&mut self) -> (&mut EventQueue<Event>, &mut Wires<Then>) {
        (&mut self.queue, &mut self.wires)
    }

    fn transferred(&mut self, now: Time, then: Then) {
        match then {
            Then::Joined(pass) => self.joined(now, pass),
            Then::Passed(pass) => self.enter(now, pass),
            Then::Kv(request) => self.arrived(now, request),
        }
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Arrived(request) if !self.mixed.is_empty() => {
                let at = mixed::least(&self.mixed, &self.setup.aggregated);
                self.mixed[at].arrive(request);
                self.wake_mixed(now, at);
            }
            Event::Arrived(request) => {
                let at = prefill::least(&self.prefill, &self.setup.prefill);
                self.flights[request].prefill = at;
                self.prefill[at].queue.push_back(request);
                self.prefill[at].tokens += f64::from(self.setup.requests[request].prompt);
                self.prompts(now, at);
            }
            Event::Computed(pass) => self.join(now, pass),
        }
    }
}
