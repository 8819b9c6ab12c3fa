//! The queues of gateways of one region: capacity goes to the request whose turn it is, wherever it waits.

use std::collections::BTreeMap;

use meridian_base::{
    Duration, ModelId, Pool, Priority, ReplicaId, RequestId, SiblingId, SiblingLine, SiblingRecord,
    SiblingRequest, Time,
};
use meridian_routing::{
    Admission, Config, Input, Load, Outcome, Output, ReplicaSpec, Request, Routing, policy,
};

const REPLICAS: u16 = 2;
const SLOTS: u32 = 4;
const SERVED: Duration = Duration::from_secs(1);

enum Event {
    Arrives(usize, Request),
    Ends(usize, RequestId),
    Hears { to: usize, from: usize, records: Vec<SiblingRecord> },
}

fn spec(models: &[u16]) -> ReplicaSpec {
    ReplicaSpec {
        models: models.iter().map(|id| ModelId(*id)).collect(),
        kv_tokens: Some(5_000_000),
        slots: None,
        weight: 1,
        rtt: Duration::ZERO,
        place: Default::default(),
        pool: Pool::default(),
    }
}

/// Gateways in front of replicas that take four requests each, for a second each.
struct Region {
    gateways: Vec<Routing>,
    events: BTreeMap<(Time, u64), Event>,
    count: u64,
    now: Time,
    delay: Duration,
    served: Duration,
    /// Whether records arrive.
    tells: bool,
    /// When each request arrived, and when it was sent.
    arrived: BTreeMap<RequestId, Time>,
    sent: BTreeMap<RequestId, Time>,
    most_at_once: usize,
    at_once: usize,
}

impl Region {
    fn new(gateways: usize, delay: Duration) -> Region {
        Region::with(gateways, delay, REPLICAS, SERVED)
    }

    fn with(gateways: usize, delay: Duration, replicas: u16, served: Duration) -> Region {
        let mut config = Config::new(policy::find("meridian").unwrap());
        config.has_siblings = gateways > 1;
        config.admission = Admission::Outstanding { max: SLOTS };
        config.held.max_wait = Duration::from_secs(600);
        config.held.max = 1 << 16;
        config.held.max_per_tenant = 1 << 16;
        let mut region = Region {
            gateways: (0..gateways).map(|at| Routing::new(config.clone(), at as u64)).collect(),
            events: BTreeMap::new(),
            count: 0,
            now: Time::ZERO,
            delay,
            served,
            tells: true,
            arrived: BTreeMap::new(),
            sent: BTreeMap::new(),
            most_at_once: 0,
            at_once: 0,
        };
        for id in (0..replicas).map(ReplicaId) {
            let spec = spec(&[0, 1]);
            for at in 0..gateways {
                region.handle(at, Input::Joined { id, spec: spec.clone() });
            }
        }
        region
    }

    fn at(&mut self, time: Time, event: Event) {
        self.count += 1;
        self.events.insert((time, self.count), event);
    }

    /// A request arrives at a gateway after so many milliseconds.
    fn arrives(&mut self, at: usize, ms: u64, change: impl FnOnce(&mut Request)) -> RequestId {
        let id = RequestId(self.count + 1);
        let mut request = Request { prompt_tokens: 100, ..Request::plain(id, ModelId(0)) };
        change(&mut request);
        self.arrived.insert(id, Time::from_millis(ms));
        self.at(Time::from_millis(ms), Event::Arrives(at, request));
        id
    }

    fn handle(&mut self, at: usize, input: Input) {
        self.gateways[at].handle(self.now, input);
        self.carry_out(at);
    }

    fn carry_out(&mut self, at: usize) {
        let mut records = Vec::new();
        while let Some(output) = self.gateways[at].poll() {
            match output {
                Output::Dispatch { id, .. } => {
                    self.sent.insert(id, self.now);
                    self.at_once += 1;
                    self.most_at_once = self.most_at_once.max(self.at_once);
                    self.at(self.now + self.served, Event::Ends(at, id));
                }
                Output::Share(record) if self.tells => records.push(record),
                Output::Probe(id) => {
                    let (asked, load) = (self.now, Load::default());
                    self.gateways[at].handle(self.now, Input::Reported { id, asked, load });
                }
                Output::Reject { id, why, .. } => panic!("{id} is refused: {why:?}"),
                _ => {}
            }
        }
        self.gateways[at].check_invariants();
        for to in (0..self.gateways.len()).filter(|to| *to != at && !records.is_empty()) {
            let records = records.clone();
            self.at(self.now + self.delay, Event::Hears { to, from: at, records });
        }
    }

    /// Runs until every request has ended.
    fn run(&mut self) {
        while self.sent.len() < self.arrived.len() || self.at_once > 0 {
            assert!(self.now < Time::from_millis(600_000), "all are served");
            self.step(Time::MAX);
        }
    }

    fn run_until(&mut self, until: Time) {
        while self.now < until {
            self.step(until);
        }
    }

    fn step(&mut self, until: Time) {
        let timers = self.gateways.iter().map(|gateway| gateway.poll_timeout());
        let timer = timers.flatten().min().unwrap_or(Time::MAX);
        let event = self.events.first_key_value().map_or(Time::MAX, |((at, _), _)| *at);
        if timer.min(event) > until {
            self.now = until;
            return;
        }
        self.now = self.now.max(timer.min(event));
        if timer < event {
            for at in 0..self.gateways.len() {
                self.gateways[at].handle_timeout(self.now);
                self.carry_out(at);
            }
            return;
        }
        let (_, event) = self.events.pop_first().expect("it is due");
        match event {
            Event::Arrives(at, request) => self.handle(at, Input::Arrived(request)),
            Event::Ends(at, id) => {
                self.at_once -= 1;
                let (usage, extended, served, retry) = (None, None, None, false);
                let outcome = Outcome::Done;
                self.handle(at, Input::Finished { id, outcome, retry, usage, extended, served });
            }
            Event::Hears { to, from, records } => {
                let from = SiblingId(from as u16);
                self.handle(to, Input::Sibling { from, records });
            }
        }
    }

    fn waited(&self, id: RequestId) -> Duration {
        self.sent[&id].since(self.arrived[&id])
    }

    fn longest(&self, ids: &[RequestId]) -> Duration {
        ids.iter().map(|id| self.waited(*id)).max().unwrap()
    }
}

const DELAYS: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(5), Duration::from_millis(20)];

/// One tenant sends 200 requests at once to the first gateway, and another one four a second to the last.
fn heavy_and_light(gateways: usize, delay: Duration) -> (Region, Vec<RequestId>) {
    let mut region = Region::new(gateways, delay);
    (0..200).for_each(|_| _ = region.arrives(0, 10, |r| r.tenant = 1));
    let light = |n| (gateways - 1, 500 + 250 * n);
    let light = (0..40u64).map(light).collect::<Vec<_>>();
    let light =
        light.into_iter().map(|(at, ms)| region.arrives(at, ms, |r| r.tenant = 2)).collect();
    region.run();
    (region, light)
}

// A tenant takes turns with one that floods another gateway, as it would in one queue.
#[test]
fn turns_of_tenants_hold_over_gateways() {
    let (one, light) = heavy_and_light(1, Duration::ZERO);
    let alone = one.longest(&light);
    for gateways in [2, 4] {
        for delay in DELAYS {
            let (region, light) = heavy_and_light(gateways, delay);
            let longest = region.longest(&light);
            let most = alone + 4 * delay + Duration::from_millis(60);
            assert!(
                longest <= most,
                "{gateways} gateways, {delay:?}: {longest:?}, alone {alone:?}"
            );
            let all = u64::from(REPLICAS) * u64::from(SLOTS);
            let over = region.most_at_once as u64 - all;
            assert!(over <= 1, "{gateways} gateways, {delay:?}: {over} too many at once");
        }
    }
}

// The oldest request of a tenant goes next, and one of a higher class before it, wherever they wait.
#[test]
fn classes_and_ages_hold_over_gateways() {
    for delay in DELAYS {
        let mut region = Region::new(3, delay);
        let all: Vec<_> =
            (0..120).map(|n| region.arrives(n % 3, 10 + 10 * n as u64, |_| {})).collect();
        let high = |r: &mut Request| r.priority = Priority::High;
        let high: Vec<_> = (0..6).map(|n| region.arrives(2, 4000 + n, high)).collect();
        region.run();
        assert!(
            region.longest(&high) <= SERVED + 4 * delay,
            "{delay:?}: {:?}",
            region.longest(&high)
        );
        let waited = |id: &RequestId| region.waited(*id).as_secs_f64();
        let early = all[60..80].iter().map(waited);
        let late = all[80..100].iter().map(waited);
        let (early, late): (Vec<_>, Vec<_>) = (early.collect(), late.collect());
        let most = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
        assert!(most(&early) <= most(&late) + 1.2, "{delay:?}: {early:?} {late:?}");
        let mut order = all.clone();
        order.sort_by_key(|id| region.sent[id]);
        let moved =
            |(at, id): (usize, &RequestId)| at.abs_diff(all.iter().position(|a| a == id).unwrap());
        let moved = order.iter().enumerate().map(moved).max().unwrap();
        assert!(moved <= 19, "{delay:?}: one is served {moved} places from its turn");
    }
}

// Turns cost no capacity: with deep queues at eight gateways, a region serves as many requests as with
// one queue.
#[test]
fn turns_keep_capacity_busy() {
    let took = |gateways: usize, delay| {
        let mut region = Region::with(gateways, delay, 20, Duration::from_millis(250));
        for n in 0..1600 {
            _ = region.arrives(n % gateways, 10 + n as u64, |r| r.tenant = n as u64 % 3);
        }
        region.run();
        region.now.since(Time::ZERO).as_secs_f64()
    };
    let one = took(1, Duration::ZERO);
    for gateways in [2, 8] {
        for delay in DELAYS {
            let many = took(gateways, delay);
            assert!(many <= 1.1 * one, "{gateways} gateways, {delay:?}: {many} s, one {one} s");
        }
    }
}

// Requests that fit nowhere are reported although a replica has some room, and those that wait for a
// better one are not.
#[test]
fn what_waits_for_room_is_reported() {
    let mut config = Config::new(policy::find("meridian").unwrap());
    config.has_siblings = true;
    let mut gateway = Routing::new(config, 1);
    let (id, ms) = (ReplicaId(0), Time::from_millis);
    let spec = ReplicaSpec {
        models: vec![ModelId(0)],
        kv_tokens: Some(10_000),
        slots: None,
        weight: 1,
        rtt: Duration::ZERO,
        place: Default::default(),
        pool: Pool::default(),
    };
    gateway.handle(ms(0), Input::Joined { id, spec });
    let load = Load { pending: Some(0), running: Some(0), kv_used: Some(0.0), kv_tokens: None };
    gateway.handle(ms(1), Input::Reported { id, asked: ms(1), load });
    let mut told = Vec::new();
    let mut arrives = |number, at, prompt_tokens| {
        let request = Request { prompt_tokens, ..Request::plain(RequestId(number), ModelId(0)) };
        gateway.handle(ms(at), Input::Arrived(request));
        gateway.handle_timeout(ms(at + 5));
        while let Some(output) = gateway.poll() {
            if let Output::Share(SiblingRecord::Queue(lines)) = output {
                told = lines;
            }
        }
        told.clone()
    };
    assert_eq!(arrives(1, 10, 4_000), []);
    let lines = arrives(2, 20, 8_000);
    assert_eq!((lines.len(), lines[0].held, lines[0].oldest), (1, 1, RequestId(2)));
    assert_eq!(arrives(3, 30, 8_000)[0].held, 2);
}

// Capacity is left to a sibling for 50 ms: one that sends nothing meanwhile has no precedence until it
// sends something.
#[test]
fn capacity_is_left_for_a_moment_only() {
    let mut region = Region::new(2, DELAYS[0]);
    region.tells = false;
    let ms = Time::from_millis;
    let line = SiblingLine {
        priority: Priority::High,
        tenant: 9,
        model: ModelId(0),
        held: 3,
        oldest: RequestId(77),
        waited_ms: 700.0,
    };
    let queue = |lines: &[SiblingLine]| SiblingRecord::Queue(lines.to_vec());
    let tell = |region: &mut Region, at: u64, record| {
        region.now = ms(at);
        let records = vec![record];
        region.handle(0, Input::Sibling { from: SiblingId(1), records });
    };
    tell(&mut region, 10, queue(&[line]));
    assert_eq!(region.gateways[0].held_at(SiblingId(1)), 3);
    let other = region.arrives(0, 20, |r| r.model = ModelId(1));
    let left = region.arrives(0, 20, |_| {});
    let later = region.arrives(0, 90, |_| {});
    region.run();
    let waited = |region: &Region, id| region.waited(id).as_millis();
    assert_eq!(waited(&region, other), 0, "no sibling waits for its model");
    assert_eq!((waited(&region, left), waited(&region, later)), (50, 0));
    let sent = SiblingRequest {
        id: RequestId(1),
        replica: ReplicaId(0),
        tenant: 9,
        session: None,
        priority: Priority::High,
        counts: true,
        blocks: Vec::new(),
        block_tokens: 16.0,
        prompt_tokens: 10.0,
        unmatched_tokens: 10.0,
        reply_tokens: 10.0,
    };
    tell(&mut region, 3_000, SiblingRecord::Sent(sent));
    let again = region.arrives(0, 3_010, |_| {});
    region.run();
    assert_eq!(waited(&region, again), 50);
    // What it waits for is gone, or it is.
    for (at, gone) in [(5_000, Some(queue(&[]))), (6_000, None)] {
        tell(&mut region, at - 10, queue(&[]));
        tell(&mut region, at, queue(&[line]));
        let id = region.arrives(0, at + 1, |_| {});
        region.run_until(ms(at + 20));
        assert!(!region.sent.contains_key(&id));
        match gone {
            Some(record) => tell(&mut region, at + 20, record),
            None => region.handle(0, Input::SiblingLost(SiblingId(1))),
        }
        assert!(region.sent.contains_key(&id));
        region.run();
    }
}

// Requests of a model that is scaled to zero wait at both gateways. The one with the newer requests hears
// of the first replica some milliseconds sooner, and leaves it to the older ones.
#[test]
fn the_oldest_gets_the_first_replica() {
    for delay in &DELAYS[..2] {
        let mut region = Region::new(2, *delay);
        let from_zero = |r: &mut Request| {
            r.model = ModelId(7);
            r.scale_from_zero = Some(Duration::from_secs(300));
        };
        let old: Vec<_> = (0..8).map(|n| region.arrives(0, 10 + n, from_zero)).collect();
        let new: Vec<_> = (0..8).map(|n| region.arrives(1, 5_000 + n, from_zero)).collect();
        region.run_until(Time::from_millis(60_000));
        assert_eq!(region.gateways[1].held_at(SiblingId(0)), 8);
        let first = Input::Joined { id: ReplicaId(REPLICAS), spec: spec(&[7]) };
        region.handle(1, first.clone());
        region.run_until(Time::from_millis(60_010));
        assert!(region.sent.is_empty(), "{delay:?}: {:?}", region.sent);
        region.handle(0, first);
        region.run();
        let last = old.iter().map(|id| region.sent[id]).max();
        let first = new.iter().map(|id| region.sent[id]).min();
        assert!(last <= first, "{delay:?}: {last:?}, {first:?}");
    }
}
