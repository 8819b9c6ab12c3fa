//! The default policy on equal replicas, on traffic without shared prefixes: none stays idle while
//! another one has two requests, whatever the noise of their answers; and a slow one is found.
//!
//! The time of a prompt is not linear in its tokens, as with real engines: below some hundred tokens it
//! is the time to read the weights.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use meridian_base::{Duration, ModelId, Pool, ReplicaId, RequestId, Rng, Time};
use meridian_routing::{
    Config, Input, Load, Outcome, Output, ReplicaSpec, Request, Routing, Usage, policy,
};

/// ms of a step, of a step for each running request, and of a token of prefill.
const STEP_MS: f64 = 8.0;
const SLOPE_MS: f64 = 0.1;
const TOKEN_MS: f64 = 0.02;

/// One replica: how many times slower than the others it is, and its work.
#[derive(Clone, Copy)]
struct Engine {
    slow: f64,
    running: u32,
    /// When the prompts sent so far will have been computed.
    free_at: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    First(u64, usize, u32),
    End(u64, usize, u32, u32),
}

/// What happened to one request.
struct Sent {
    replica: usize,
    /// Whether it went to a busy replica while another one was idle.
    beside_idle: bool,
}

struct Fleet {
    routing: Routing,
    engines: Vec<Engine>,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    rng: Rng,
}

impl Fleet {
    fn new(replicas: usize, seed: u64) -> Fleet {
        let routing = Routing::new(Config::new(policy::find("meridian").unwrap()), seed);
        let (events, rng) = (BinaryHeap::new(), Rng::new(seed));
        let mut fleet = Fleet { routing, engines: Vec::new(), events, rng };
        (0..replicas).for_each(|_| fleet.join(Time::ZERO, 1.0));
        fleet
    }

    /// Adds a replica.
    fn join(&mut self, now: Time, slow: f64) {
        let spec = ReplicaSpec {
            models: vec![ModelId(0)],
            kv_tokens: Some(400_000),
            slots: None,
            weight: 1,
            rtt: Duration::ZERO,
            place: Default::default(),
            pool: Pool::default(),
        };
        let id = ReplicaId(self.engines.len() as u16);
        self.routing.handle(now, Input::Joined { id, spec });
        self.engines.push(Engine { slow, running: 0, free_at: Time::ZERO });
    }

    /// Sends `requests` at this rate a second.
    fn serve(&mut self, from: Time, ids: std::ops::Range<u64>, rate: f64) -> (Vec<Sent>, Time) {
        let mut now = from;
        let mut sent = Vec::new();
        for id in ids {
            let gap = -(1.0 - self.rng.unit()).ln() / rate;
            now = now + Duration::from_secs_f64(gap);
            self.pass(now);
            self.report(now);
            let tokens = (400.0 * (2.0 * self.rng.unit() - 1.0).exp2().powi(3)) as u32;
            let request =
                Request { prompt_tokens: tokens, ..Request::plain(RequestId(id), ModelId(0)) };
            self.routing.handle(now, Input::Arrived(request));
            while let Some(output) = self.routing.poll() {
                if let Output::Dispatch { replica, .. } = output {
                    sent.push(self.start(now, id, replica.index(), tokens));
                }
            }
        }
        (sent, now)
    }

    fn start(&mut self, now: Time, id: u64, replica: usize, tokens: u32) -> Sent {
        let is_idle = |engine: &Engine| engine.running == 0;
        let beside_idle = !is_idle(&self.engines[replica]) && self.engines.iter().any(is_idle);
        let noise = 0.8 + 0.4 * self.rng.unit();
        let engine = &mut self.engines[replica];
        let step = STEP_MS + SLOPE_MS * f64::from(engine.running);
        let ms = step.max(TOKEN_MS * f64::from(tokens)) * engine.slow * noise;
        engine.running += 1;
        engine.free_at = engine.free_at.max(now) + Duration::from_secs_f64(ms / 1e3);
        let first = Event::First(id, replica, tokens);
        self.events.push(Reverse((engine.free_at, first)));
        Sent { replica, beside_idle }
    }

    /// Lets everything happen until `until`.
    fn pass(&mut self, until: Time) {
        while let Some(Reverse((at, event))) = self.events.peek().copied() {
            if at > until {
                return;
            }
            self.events.pop();
            match event {
                Event::First(id, replica, tokens) => {
                    self.routing.handle(at, Input::FirstToken(RequestId(id)));
                    let reply = 20 + self.rng.below(200) as u32;
                    let engine = self.engines[replica];
                    let step = (STEP_MS + SLOPE_MS * f64::from(engine.running)) * engine.slow;
                    let end = at + Duration::from_secs_f64(step * f64::from(reply) / 1e3);
                    self.events.push(Reverse((end, Event::End(id, replica, tokens, reply))));
                }
                Event::End(id, replica, prompt_tokens, completion_tokens) => {
                    self.engines[replica].running -= 1;
                    let usage = Usage {
                        prompt_tokens,
                        cached_tokens: None,
                        completion_tokens,
                        prefill_us: None,
                    };
                    let (id, outcome) = (RequestId(id), Outcome::Done);
                    let (retry, usage, extended, served) = (false, Some(usage), None, None);
                    self.routing.handle(
                        at,
                        Input::Finished { id, outcome, retry, usage, extended, served },
                    );
                }
            }
            while self.routing.poll().is_some() {}
        }
    }

    fn report(&mut self, now: Time) {
        for (at, engine) in self.engines.iter().enumerate() {
            let (running, pending) = (Some(engine.running), Some(0));
            let kv_used = Some(engine.running as f32 / 200.0);
            let load = Load { pending, running, kv_used, kv_tokens: None };
            let id = ReplicaId(at as u16);
            self.routing.handle(now, Input::Reported { id, asked: now, load });
        }
        while self.routing.poll().is_some() {}
    }
}

// At a tenth of their capacity, 4, 8, 16 and 64 equal replicas take requests in turn: practically none is
// sent to a busy one while another is idle, in the first minute and later.
#[test]
fn no_equal_replica_stays_idle() {
    for (replicas, seed) in [(4, 1), (8, 2), (16, 3), (64, 4)] {
        let mut fleet = Fleet::new(replicas, seed);
        let rate = 0.5 * replicas as f64;
        let (sent, _) = fleet.serve(Time::ZERO, 0..4000, rate);
        let beside = sent.iter().filter(|sent| sent.beside_idle).count();
        assert!(beside <= 40, "{beside} of 4,000 wait beside one of {replicas} idle replicas");
    }
}

// At half of their capacity they get equal shares.
#[test]
fn equal_replicas_have_equal_shares() {
    let mut fleet = Fleet::new(8, 58);
    let (sent, _) = fleet.serve(Time::ZERO, 0..8000, 8.0 * 8.0);
    let shares: Vec<usize> =
        (0..8).map(|at| sent.iter().filter(|sent| sent.replica == at).count()).collect();
    assert!(shares.iter().all(|share| (850..1150).contains(share)), "{shares:?}");
}

// One of eight becomes half as fast. It soon gets less than the others, and its share again after it has
// recovered.
#[test]
fn a_slow_replica_gets_less() {
    let mut fleet = Fleet::new(8, 58);
    let rate = 8.0 * 8.0;
    let share = |sent: &[Sent]| {
        let own = sent.iter().filter(|sent| sent.replica == 3).count();
        8.0 * own as f64 / sent.len() as f64
    };
    let (before, now) = fleet.serve(Time::ZERO, 0..4000, rate);
    fleet.engines[3].slow = 2.0;
    let (early, now) = fleet.serve(now, 4000..4800, rate);
    let (slow, now) = fleet.serve(now, 4800..8000, rate);
    fleet.engines[3].slow = 1.0;
    let (_, now) = fleet.serve(now, 8000..20_000, rate);
    let (after, _) = fleet.serve(now, 20_000..24_000, rate);
    let shares = [share(&before), share(&early), share(&slow), share(&after)];
    println!("share of an equal part: before, first 100 each, slow, recovered: {shares:.2?}");
    assert!((0.85..1.15).contains(&shares[0]) && (0.85..1.15).contains(&shares[3]), "{shares:?}");
    assert!(shares[1] < 0.9 && shares[2] < 0.7, "{shares:?}");
}
