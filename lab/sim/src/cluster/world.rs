//! The run of a cluster: arrivals are placed, batches formed ([`super::form`]), layers computed
//! ([`super::layers`]) and first tokens counted.

use std::collections::VecDeque;

use meridian_base::{BatchId, Duration, PortId, RequestId, Time, mix};
use meridian_fabric::PortName;
use meridian_flow::{Input, Stage};

use super::batch::{Member, Replica, Running};
use super::compute::Speed;
use super::exchange::{Routing, Ways};
use super::geometry::Geometry;
use super::kv::{Directory, Holder, at_low_load};
use super::objective::Idle;
use super::report::{Mean, Record, Report};
use super::setup::{Impossible, Pool, Request, Setup};
use super::wires::{Carried, Wires, Wiring};
use crate::queue::EventQueue;
use crate::run::{self, World as _};

/// An event whose time is known in advance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A request arrives.
    Arrived(u32),
    /// A batch's phase has computed.
    Computed(u32),
    /// The minimum time of an exchange has passed.
    Floor(u32),
}

/// A pool in operation.
pub(crate) struct Serving<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) speed: Speed,
    pub(crate) routing: Routing,
    /// The row of its first replica.
    first: u32,
    pub(crate) directory: Directory,
    /// Bytes on the way to each decode replica, and requests sent to it.
    pub(crate) decode: Vec<(f64, u32)>,
}

/// A request in progress.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request,
    /// Its replica.
    pub(crate) row: u32,
    pub(crate) record: Record,
    /// Active handoff flows, and whether all have started.
    pub(crate) handing: u32,
    computed: bool,
    /// Its decode replica, and the bytes sent there.
    pub(crate) to: u32,
    pub(crate) bytes: f64,
}

pub(crate) struct World<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) geometry: Geometry,
    pub(crate) queue: EventQueue<Event>,
    pub(crate) wires: Wires,
    pub(crate) pools: Vec<Serving<'a>>,
    /// The replicas of all pools, by the row of their batches.
    pub(crate) replicas: Vec<Replica<'a>>,
    pub(crate) requests: Vec<Asked<'a>>,
    pub(crate) report: Report,
    over: usize,
}

/// Runs a cluster until its last request has ended.
///
/// # Errors
/// When the setup is inconsistent, or more flows are active at once than there are rows for.
pub fn run(setup: &Setup) -> Result<Report, Impossible> {
    run_as(setup, setup.exact())
}

/// Runs a cluster; `exact` says whether senders that enforce an order send chunk by chunk.
pub(crate) fn run_as(setup: &Setup, exact: bool) -> Result<Report, Impossible> {
    let mut world = World::new(setup, exact)?;
    while world.over < world.requests.len() {
        let now = world.next().expect("a request that is not over waits for something");
        world.report.events += world.instant(now);
        world.report.end = now;
        world.wires.check()?;
    }
    Ok(world.finish())
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup, exact: bool) -> Result<World<'a>, Impossible> {
        let geometry = Geometry::new(setup)?;
        let (mut pools, mut replicas, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for (number, pool) in setup.pools.iter().enumerate() {
            let first = replicas.len();
            let serving = Serving::new(pool, first as u32, mix(setup.seed, number as u64));
            replicas.extend(serving.replicas(&geometry, number));
            let ways = &replicas[first].ways;
            requests.extend(serving.asked(&geometry, ways, number as u32, setup.seed));
            pools.push(serving);
        }
        // Of one instant, in the order of the pools.
        requests.sort_by_key(|one: &Asked<'_>| one.record.at);
        let rates = geometry.topology.rates();
        let config = setup.machine(rates.len(), requests.len() as u32);
        let of_port = match setup.coordinator {
            Some(_) => geometry.servers(),
            None => vec![0; rates.len()],
        };
        let wires = Wires::new(Wiring {
            config,
            seed: setup.seed,
            rates,
            of_port,
            control: setup.coordinator,
            enforce: setup.enforce,
            exact,
            shared: setup.shared,
            watch: setup.watch,
        })?;
        let means = vec![Mean::default(); pools.len()];
        let report = Report { exchanges: means.clone(), stalls: means, ..Report::default() };
        let queue = EventQueue::new(Duration::ZERO);
        let mut world =
            World { setup, geometry, queue, wires, pools, replicas, requests, report, over: 0 };
        world.expect(0);
        Ok(world)
    }

    /// Schedules the arrival of the next request, if there is one.
    fn expect(&mut self, number: u32) {
        if let Some(one) = self.requests.get(number as usize) {
            self.queue.push(one.record.at, Event::Arrived(number));
        }
    }

    /// Places a request on the replica with the least to compute before it and for it.
    pub(crate) fn arrive(&mut self, now: Time, number: u32) {
        self.expect(number + 1);
        let Asked { request, record, .. } = self.requests[number as usize];
        let serving = &self.pools[record.pool as usize];
        let cost = |nth: u32| {
            let held = serving.directory.held(request, |holder| holder.replica == nth);
            let before = self.replicas[(serving.first + nth) as usize].outstanding;
            before + u64::from(request.tokens - held)
        };
        // Ties take turns.
        let count = serving.pool.prefill;
        let turn = |nth: u32| (nth + count - number % count) % count;
        let best = (0..count).min_by_key(|nth| (cost(*nth), turn(*nth)));
        let row = serving.first + best.expect("a pool has a replica");
        self.requests[number as usize].row = row;
        let at = &mut self.replicas[row as usize];
        at.outstanding += u64::from(request.tokens);
        at.queue.push_back(number);
        if at.batch.is_none() {
            self.form(now, row);
        }
    }

    pub(crate) fn pool(&self, row: u32) -> &'a Pool {
        self.replicas[row as usize].pool
    }

    pub(crate) fn serving(&self, row: u32) -> &Serving<'a> {
        &self.pools[self.replicas[row as usize].number]
    }

    pub(crate) fn running(&mut self, row: u32) -> &mut Running {
        self.replicas[row as usize].batch.as_mut().expect("a row with an event has a batch")
    }

    /// A batch has computed its last layer: its replica is free.
    pub(crate) fn depart(&mut self, now: Time, row: u32) {
        let running = self.replicas[row as usize].batch.take().expect("a batch departs once");
        self.wires.tell(now, &Input::BatchDeparted(BatchId(row)));
        for member in &running.members {
            self.computed(now, row, member);
        }
        self.form(now, row);
    }

    /// A prompt is computed: others can fetch its KV, and its first token waits for the handoff.
    pub(crate) fn computed(&mut self, now: Time, row: u32, member: &Member) {
        let at = &mut self.replicas[row as usize];
        assert!(
            at.outstanding >= u64::from(member.tokens),
            "a prompt is computed that did not wait"
        );
        at.outstanding -= u64::from(member.tokens);
        let holder = Holder { replica: at.nth, rank: member.rank };
        let skip = if at.pool.keep { 0 } else { member.matched };
        let asked = &mut self.requests[member.request as usize];
        asked.computed = true;
        self.pools[at.number].directory.enter(asked.request, skip, holder);
        self.maybe_over(now, member.request);
    }

    /// The first token follows the last byte of KV.
    fn maybe_over(&mut self, now: Time, number: u32) {
        let one = &mut self.requests[number as usize];
        if !one.computed || one.handing > 0 {
            return;
        }
        let serving = &mut self.pools[one.record.pool as usize];
        one.record.first = now + serving.speed.decode;
        serving.decode[one.to as usize].0 -= one.bytes;
        self.over += 1;
        self.wires.tell(now, &Input::Ended(RequestId(u64::from(number))));
    }

    fn finish(mut self) -> Report {
        let end = self.report.end;
        let seconds = end.as_secs_f64().max(1e-9);
        let names = (0..self.geometry.topology.rates().len() as u32).map(PortId);
        let mut busiest: Vec<(PortId, PortName, f64)> = Vec::new();
        for port in names {
            let name = self.geometry.topology.name(port).expect("every port has a name");
            let carried = self.wires.carried(end, port);
            if matches!(name, PortName::CardIn(..) | PortName::CardOut(..)) {
                self.report.carried += carried;
            }
            let rate = self.geometry.topology.rates()[port.index()];
            busiest.push((port, name, carried / rate / seconds));
        }
        busiest.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        busiest.truncate(16);
        self.report.busiest = busiest;
        self.report.demoted = self.wires.demoted;
        self.report.events += self.wires.timers;
        self.report.flows = self.wires.flows;
        self.report.records = self.requests.iter().map(|one| one.record).collect();
        self.report.slices = self.wires.slices();
        self.report
    }
}

impl run::World for World<'_> {
    type Event = Event;
    type Carrier = Wires;

    fn ahead(&mut self) -> (&mut EventQueue<Event>, &mut Wires) {
        (&mut self.queue, &mut self.wires)
    }

    fn transferred(&mut self, now: Time, carried: Carried) {
        match carried.stage {
            Stage::Collective => self.one_less(now, carried.owner),
            Stage::Reuse => self.fetched(now, carried.owner, carried.layer),
            Stage::Handoff => {
                let handing = self.requests[carried.owner as usize].handing;
                assert!(handing > 0, "request {} is handed over twice", carried.owner);
                self.requests[carried.owner as usize].handing -= 1;
                self.maybe_over(now, carried.owner);
            }
        }
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Arrived(request) => self.arrive(now, request),
            Event::Computed(row) => self.phase_computed(now, row),
            Event::Floor(row) => self.one_less(now, row),
        }
    }
}

impl<'a> Serving<'a> {
    fn new(pool: &'a Pool, first: u32, seed: u64) -> Serving<'a> {
        let mut directory = Directory::default();
        for (nth, known) in (0..).zip(&pool.known) {
            let (replica, turn) = (nth % pool.prefill, nth / pool.prefill);
            let holder = Holder { replica, rank: turn % pool.separate_ranks() };
            let skip = if pool.keep { 0 } else { directory.held(known, |_| true) };
            directory.enter(known, skip, holder);
        }
        let (speed, routing) = (Speed::new(pool), Routing::new(pool, seed));
        let decode = vec![(0.0, 0); pool.decode as usize];
        Serving { pool, speed, routing, first, directory, decode }
    }

    fn replicas(&self, geometry: &Geometry, number: usize) -> impl Iterator<Item = Replica<'a>> {
        let (pool, latency) = (self.pool, self.speed.latency);
        (0..).zip(&geometry.prefill[number]).map(move |(nth, site)| Replica {
            pool,
            number,
            nth,
            site: *site,
            ways: Ways::new(geometry, *site, pool, latency),
            queue: VecDeque::new(),
            outstanding: 0,
            batch: None,
        })
    }

    /// The pool's requests with their objectives.
    fn asked(&self, geometry: &Geometry, ways: &Ways, number: u32, seed: u64) -> Vec<Asked<'a>> {
        let Serving { pool, speed, routing, .. } = self;
        let idle = Idle { geometry, pool, speed, routing, ways };
        let bases = idle.bases(&at_low_load(&pool.known, &pool.requests));
        let one = |(nth, (request, (alone, base))): (u64, (&'a Request, (Duration, Duration)))| {
            let draw = mix(mix(seed, 0x54_4945_5221), u64::from(number) << 32 | nth);
            let tight = meridian_base::Rng::new(draw).unit() < pool.slo.tight_share;
            let multiple = if tight { pool.slo.tight } else { pool.slo.loose };
            let record = Record {
                pool: number,
                at: request.at,
                tokens: request.tokens,
                matched: 0,
                tight,
                alone,
                due: request.at + base.mul_f64(multiple),
                first: request.at,
            };
            Asked { request, row: 0, record, handing: 0, computed: false, to: 0, bytes: 0.0 }
        };
        (0..).zip(pool.requests.iter().zip(bases)).map(one).collect()
    }
}
