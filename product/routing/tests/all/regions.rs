//! Several regions that forward to each other over a slow network, driven by random histories. With
//! every policy and topology, each request ends once, makes at most one permitted hop, and the
//! machines' invariants hold after each event. The same seed gives the same history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meridian_base::{Duration, ModelId, PeerId, ReplicaId, RequestId, Rng, Time, mix};
use meridian_routing::policy::Params;
use meridian_routing::{
    Config, Digest, Input, Load, Outcome, Output, PeerSpec, RejectWhy, ReplicaSpec, Request,
    Routing, Topology,
};

use crate::every;

const REGIONS: usize = 3;
const REPLICAS: u16 = 2;
const REQUESTS: u64 = 200;

const TOPOLOGIES: [Topology; 4] = [
    Topology::TwoLayer,
    Topology::Waterfall { above: 0.3 },
    Topology::Continent { above: 0.3 },
    Topology::Local,
];

/// A future event.
#[derive(Clone, Debug)]
enum Event {
    Arrive(u64),
    /// A request of another region arrives.
    Come {
        from: usize,
        request: Request,
    },
    /// Region `to` learns the result of its forward.
    Answer {
        to: usize,
        id: RequestId,
        outcome: Outcome,
        served: Option<ReplicaId>,
    },
    First(usize, RequestId),
    /// A replica has finished a request.
    End(usize, RequestId, ReplicaId),
    Cancel(usize, RequestId),
    Tell(usize),
    Told {
        to: usize,
        from: usize,
        sent: u64,
        digest: Arc<Digest>,
    },
    Ask {
        to: usize,
        by: usize,
        count: u32,
    },
    Probe(usize, ReplicaId),
    Lose(usize, usize),
    /// A region switches to the policy with this number.
    Configure(usize, usize),
    Drain(usize, ReplicaId),
    Resume(usize, ReplicaId),
}

struct Region {
    routing: Routing,
    running: BTreeMap<ReplicaId, u32>,
    /// Which region a request came from.
    came: BTreeMap<RequestId, usize>,
    requests: BTreeMap<RequestId, Request>,
    digests: u64,
}

struct World {
    now: Time,
    order: u64,
    events: BTreeMap<(Time, u64), (usize, Event)>,
    regions: Vec<Region>,
    rng: Rng,
    open: BTreeSet<RequestId>,
    arrived: u64,
    log: Vec<String>,
}

impl World {
    fn new(seed: u64) -> World {
        let rng = Rng::new(seed);
        let each = every::ALL.len() as u64;
        let spec = every::ALL[(seed % each) as usize];
        let topology = TOPOLOGIES[(seed / each) as usize % TOPOLOGIES.len()];
        let region = |n: usize| {
            let mut config = Config { topology, ..Config::new(spec) };
            config.held.max = 20;
            Region {
                routing: Routing::new(config, mix(seed, n as u64)),
                running: BTreeMap::new(),
                came: BTreeMap::new(),
                requests: BTreeMap::new(),
                digests: 0,
            }
        };
        let regions = (0..REGIONS).map(region).collect();
        let mut world = World {
            now: Time::ZERO,
            order: 0,
            events: BTreeMap::new(),
            regions,
            rng,
            open: BTreeSet::new(),
            arrived: 0,
            log: vec![format!("{} {topology:?}", spec.name)],
        };
        world.furnish();
        world
    }

    fn furnish(&mut self) {
        for at in 0..REGIONS {
            for id in (0..REPLICAS).map(ReplicaId) {
                let kv_tokens = Some(4000);
                let rtt = Duration::ZERO;
                let models = vec![ModelId(0)];
                let spec = ReplicaSpec {
                    models,
                    kv_tokens,
                    slots: None,
                    weight: 1,
                    rtt,
                    place: Default::default(),
                    pool: Default::default(),
                };
                self.tell(at, Input::Joined { id, spec });
            }
            for peer in (0..REGIONS).filter(|p| *p != at) {
                let rtt = Duration::from_millis(20 * (at + peer) as u64);
                let spec = PeerSpec { rtt, near: at + peer < 3, name_hash: peer as u64 };
                self.tell(at, Input::PeerJoined { id: PeerId(peer as u16), spec });
            }
            self.later(1.0, at, Event::Tell(at));
        }
        for id in 0..REQUESTS {
            let (ms, at) = (self.rng.unit() * 2000.0, self.rng.below(REGIONS));
            // Most arrive in one region.
            self.later(ms, if id % 3 > 0 { 0 } else { at }, Event::Arrive(id));
        }
        let (ms, at) = (self.rng.unit() * 2000.0, self.rng.below(REGIONS));
        self.later(ms, at, Event::Lose(at, (at + 1) % REGIONS));
    }

    /// As `new`, but policies change while requests are in progress, and replicas drain and return.
    fn restless(seed: u64) -> World {
        let mut world = World::new(seed);
        for _ in 0..12 {
            let (ms, at) = (world.rng.unit() * 2000.0, world.rng.below(REGIONS));
            let policy = world.rng.below(every::ALL.len());
            world.later(ms, at, Event::Configure(at, policy));
            let replica = ReplicaId(world.rng.below(usize::from(REPLICAS)) as u16);
            let (ms, pause) = (world.rng.unit() * 2000.0, world.rng.unit() * 300.0);
            world.later(ms, at, Event::Drain(at, replica));
            world.later(ms + pause, at, Event::Resume(at, replica));
        }
        world
    }

    fn later(&mut self, ms: f64, at: usize, event: Event) {
        self.order += 1;
        let when = self.now + Duration::from_secs_f64(ms / 1e3);
        self.events.insert((when, self.order), (at, event));
    }

    fn way(&mut self, a: usize, b: usize) -> f64 {
        10.0 * (a + b) as f64 + self.rng.unit()
    }

    fn tell(&mut self, at: usize, input: Input) {
        self.regions[at].routing.handle(self.now, input);
        self.carry(at);
    }

    /// Executes a region's outputs.
    fn carry(&mut self, at: usize) {
        while let Some(output) = self.regions[at].routing.poll() {
            self.log.push(format!("{at}: {output:?}"));
            match output {
                Output::Dispatch { id, replica, .. } => self.start(at, id, replica),
                Output::Forward { id, peer, .. } => self.send(at, id, peer),
                Output::Held(_) | Output::Down(_) | Output::Up(_) | Output::Share(_) => {}
                Output::Reject { id, why, .. } => self.refuse(at, id, why),
                Output::Probe(id) => {
                    let ms = self.rng.unit() * 3.0;
                    self.later(ms, at, Event::Probe(at, id));
                }
                Output::Steal { from, count } => {
                    let to = from.index();
                    let ms = self.way(at, to);
                    self.later(ms, to, Event::Ask { to, by: at, count });
                }
            }
        }
        self.regions[at].routing.check_invariants();
    }

    fn start(&mut self, at: usize, id: RequestId, replica: ReplicaId) {
        *self.regions[at].running.entry(replica).or_default() += 1;
        let ms = 5.0 + self.rng.unit() * 400.0;
        self.later(ms / 2.0, at, Event::First(at, id));
        self.later(ms, at, Event::End(at, id, replica));
    }

    fn send(&mut self, at: usize, id: RequestId, peer: PeerId) {
        let mut request = self.regions[at].requests[&id].clone();
        assert_eq!(request.hops, 0, "one hop");
        assert_ne!(request.peers & (1 << peer.0), 0, "only where it may go");
        request.hops += 1;
        let (to, ms) = (peer.index(), self.way(at, peer.index()));
        self.later(ms, to, Event::Come { from: at, request });
    }

    fn refuse(&mut self, at: usize, id: RequestId, why: RejectWhy) {
        self.regions[at].requests.remove(&id);
        match self.regions[at].came.remove(&id) {
            Some(to) => {
                let ms = self.way(at, to);
                let outcome = match why {
                    RejectWhy::NoRoom => Outcome::NoRoom,
                    _ => Outcome::Full,
                };
                self.later(ms, to, Event::Answer { to, id, outcome, served: None });
            }
            None => assert!(self.open.remove(&id), "{id} ends once"),
        }
    }

    fn request(&mut self, id: u64) -> Request {
        let session = self.rng.below(10) as u64;
        let blocks: Vec<u64> = (0..1 + self.rng.below(20) as u64).collect();
        Request {
            tenant: session % 2,
            key: session,
            head: session,
            prompt_tokens: 16 * blocks.len() as u32 + 5,
            blocks: blocks.into_iter().map(|b| mix(session, b)).collect(),
            peers: [u64::MAX, 0b101, 0][self.rng.below(3)],
            ..Request::plain(RequestId(id), ModelId(0))
        }
    }

    fn happen(&mut self, at: usize, event: Event) {
        match event {
            Event::Arrive(id) => {
                let request = self.request(id);
                self.arrived += 1;
                self.open.insert(request.id);
                self.enter(at, request);
                if self.rng.below(20) == 0 {
                    let ms = self.rng.unit() * 100.0;
                    self.later(ms, at, Event::Cancel(at, RequestId(id)));
                }
            }
            Event::Come { from, request } => {
                self.regions[at].came.insert(request.id, from);
                self.enter(at, request);
            }
            Event::Answer { to, id, outcome, served } => self.over(to, id, outcome, served),
            Event::First(at, id) => self.tell(at, Input::FirstToken(id)),
            Event::End(at, id, replica) => self.end(at, id, replica),
            Event::Cancel(at, id) => self.cancel(at, id),
            Event::Tell(at) => self.digest(at),
            Event::Told { to, from, sent, digest } => {
                let peer = PeerId(from as u16);
                let rtt = Some(Duration::from_millis(20 * (to + from) as u64));
                self.tell(to, Input::Digested { peer, sent, rtt, digest });
            }
            Event::Ask { to, by, count } => {
                self.tell(to, Input::StealAsked { by: PeerId(by as u16), count });
            }
            Event::Probe(at, id) => self.report(at, id),
            Event::Configure(at, number) => {
                let policy = every::ALL[number];
                let (params, admission) = (Params::defaults(policy), policy.admission);
                self.tell(at, Input::Configured { policy, params, admission });
            }
            Event::Drain(at, id) => self.tell(at, Input::Draining(id)),
            Event::Resume(at, id) => self.tell(at, Input::Resumed(id)),
            Event::Lose(at, peer) => self.tell(at, Input::PeerLeft(PeerId(peer as u16))),
        }
    }

    fn enter(&mut self, at: usize, request: Request) {
        self.regions[at].requests.insert(request.id, request.clone());
        self.tell(at, Input::Arrived(request));
    }

    fn end(&mut self, at: usize, id: RequestId, replica: ReplicaId) {
        *self.regions[at].running.get_mut(&replica).expect("it runs") -= 1;
        let outcomes = [Outcome::Done, Outcome::Done, Outcome::Full, Outcome::ReplicaError];
        let outcome = outcomes[self.rng.below(outcomes.len())];
        self.over(at, id, outcome, Some(replica));
    }

    /// An attempt of `id` at region `at` ended.
    fn over(&mut self, at: usize, id: RequestId, outcome: Outcome, served: Option<ReplicaId>) {
        let retry = !matches!(outcome, Outcome::Done | Outcome::ClientError);
        if !self.regions[at].requests.contains_key(&id) {
            return;
        }
        if !retry {
            self.regions[at].requests.remove(&id);
            match self.regions[at].came.remove(&id) {
                Some(to) => {
                    let ms = self.way(at, to);
                    self.later(ms, to, Event::Answer { to, id, outcome, served });
                }
                None => assert!(self.open.remove(&id), "{id} ends once"),
            }
        }
        let (usage, extended) = (None, None);
        self.tell(at, Input::Finished { id, outcome, retry, usage, extended, served });
    }

    fn cancel(&mut self, at: usize, id: RequestId) {
        if self.regions[at].requests.remove(&id).is_some() {
            assert!(self.open.remove(&id), "{id} ends once");
            self.tell(at, Input::Cancelled(id));
        }
    }

    fn digest(&mut self, at: usize) {
        self.regions[at].digests += 1;
        let digest = Arc::new(self.regions[at].routing.digest());
        let sent = self.regions[at].digests;
        for to in (0..REGIONS).filter(|to| *to != at) {
            // Some are lost, and some overtaken.
            if self.rng.below(10) > 0 {
                let ms = self.way(at, to) + self.rng.unit() * 150.0;
                let digest = digest.clone();
                self.later(ms, to, Event::Told { to, from: at, sent, digest });
            }
        }
        if !self.open.is_empty() || self.arrived < REQUESTS {
            self.later(100.0, at, Event::Tell(at));
        }
    }

    fn report(&mut self, at: usize, id: ReplicaId) {
        let running = self.regions[at].running.get(&id).copied().unwrap_or(0);
        let load = Load {
            pending: Some(running.saturating_sub(4)),
            running: Some(running.min(4)),
            kv_used: Some((running as f32 * 0.1).min(1.0)),
            kv_tokens: Some(4000),
        };
        self.tell(at, Input::Reported { id, asked: self.now, load });
    }

    /// Runs all events until no request waits.
    fn run(mut self) -> Vec<String> {
        for _ in 0..100_000 {
            let event = self.events.keys().next().map(|(t, _)| *t);
            let due = |r: &Region| r.routing.poll_timeout();
            let timer = (0..REGIONS).filter_map(|at| Some((due(&self.regions[at])?, at))).min();
            let none = self.open.is_empty() && self.arrived == REQUESTS;
            if none && self.regions.iter().all(|r| r.requests.is_empty()) {
                break;
            }
            match (event, timer) {
                (Some(event), timer) if timer.is_none_or(|(t, _)| event <= t) => {
                    let ((when, _), (at, event)) = self.events.pop_first().expect("is there");
                    self.now = when;
                    self.happen(at, event);
                }
                (_, Some((when, at))) => {
                    self.now = self.now.max(when);
                    self.regions[at].routing.handle_timeout(self.now);
                    self.carry(at);
                }
                _ => break,
            }
        }
        assert!(self.open.is_empty(), "{:?} never ended; {}", self.open, self.log[0]);
        for (at, region) in self.regions.iter().enumerate() {
            assert_eq!(region.routing.active_len(), 0, "region {at} has requests; {}", self.log[0]);
        }
        self.log
    }
}

// Each policy in each topology: two hundred requests for three regions, most of them for one.
// Digests are lost and overtaken, replicas fail and refuse, clients disconnect, and a peer leaves
// in between.
#[test]
fn every_request_ends_once_in_whatever_region() {
    let mut forwards = BTreeMap::new();
    for seed in 0..(every::ALL.len() * TOPOLOGIES.len()) as u64 {
        let log = World::new(seed).run();
        let sent = log.iter().filter(|l| l.contains("Forward {")).count();
        let name = log[0].split(' ').next().expect("a name").to_owned();
        assert!(sent == 0 || !log[0].contains("Local"), "a region keeps its requests");
        *forwards.entry(name).or_insert(0) += sent;
    }
    let never: Vec<_> = forwards.iter().filter(|(_, n)| **n == 0).collect();
    assert!(never.is_empty(), "some policy never forwards: {never:?}");
}

// The same while policies change and replicas drain and return: no request is lost or sent twice,
// and no decision uses a match cached under another policy.
#[test]
fn every_request_ends_once_while_policies_change() {
    for seed in 0..(every::ALL.len() * TOPOLOGIES.len()) as u64 {
        let log = World::restless(seed).run();
        let mut forgetful = World::restless(seed);
        forgetful.regions.iter_mut().for_each(|r| r.routing.forget_matches());
        let other = forgetful.run();
        let differs = log.iter().zip(&other).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}, {}", log[0]);
        assert_eq!(log.len(), other.len(), "seed {seed}, {}", log[0]);
    }
}

// Cached matches of held requests change nothing: in each policy and topology the history is that
// of a machine that recomputes every match every time.
#[test]
fn remembered_matches_change_no_decision() {
    let mut held = 0;
    for seed in 0..(every::ALL.len() * TOPOLOGIES.len()) as u64 {
        let log = World::new(seed).run();
        let mut forgetful = World::new(seed);
        forgetful.regions.iter_mut().for_each(|r| r.routing.forget_matches());
        let other = forgetful.run();
        let differs = log.iter().zip(&other).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}, {}", log[0]);
        assert_eq!(log.len(), other.len(), "seed {seed}, {}", log[0]);
        held += log.iter().filter(|l| l.contains("Held(")).count();
    }
    assert!(held > 1000, "only {held} requests were held: nothing is compared");
}

// All randomness comes from the seed.
#[test]
fn the_same_seed_is_the_same_history() {
    for seed in 0..20 {
        assert_eq!(World::new(seed).run(), World::new(seed).run(), "seed {seed}");
    }
}
