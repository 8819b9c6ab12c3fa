//! Requests with two legs, under random events: every leg is counted once at each of its replicas,
//! and every request ends once.

use std::collections::BTreeMap;

use meridian_base::{Duration, ModelId, ReplicaId, RequestId, Rng, Time};
use meridian_routing::policy::Spec;
use meridian_routing::{
    Config, Input, Load, Outcome, Output, Pool, ReplicaSpec, Request, Role, Routing,
};

use crate::every;

const EVENTS: u64 = 1500;
const ROLES: [Role; 5] = [Role::Prefill, Role::Prefill, Role::Decode, Role::Decode, Role::Both];
const FAILURES: [Outcome; 7] = [
    Outcome::ClientError,
    Outcome::NoKv,
    Outcome::Full,
    Outcome::EngineError,
    Outcome::ReplicaError,
    Outcome::Died,
    Outcome::Unreached,
];

fn spec(at: usize) -> ReplicaSpec {
    ReplicaSpec {
        models: vec![ModelId(0)],
        kv_tokens: Some(20_000),
        slots: Some(6),
        weight: 1,
        rtt: Duration::ZERO,
        place: Default::default(),
        pool: Pool { role: ROLES[at], partner: 1, rack: 0 },
    }
}

fn request(id: u64, rng: &mut Rng) -> Request {
    let family = rng.below(4) as u64;
    let blocks: Vec<u64> = (0..rng.below(200) as u64).map(|at| family * 1000 + at).collect();
    Request {
        prompt_tokens: 16 * blocks.len() as u32 + 8,
        blocks,
        splits: rng.below(8) > 0,
        streams: rng.below(4) > 0,
        ..Request::plain(RequestId(id), ModelId(0))
    }
}

/// How far a request at replicas is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leg {
    Whole,
    Prefilling,
    Prefilled,
    Answering,
}

/// Requests at replicas.
#[derive(Default)]
struct Run {
    sent: BTreeMap<RequestId, Leg>,
    waiting: u32,
    ended: u32,
    pairs: u32,
}

impl Run {
    /// Takes the outputs.
    fn poll(&mut self, routing: &mut Routing) {
        while let Some(output) = routing.poll() {
            match output {
                Output::Dispatch { id, replica, prefill, .. } => {
                    let role = |id: ReplicaId| routing.replicas().spec(id).map(|s| s.pool.role);
                    assert_ne!(role(replica), Some(Role::Prefill), "it never answers");
                    if let Some(from) = prefill {
                        assert_eq!(role(from), Some(Role::Prefill));
                        assert_eq!(role(replica), Some(Role::Decode));
                    }
                    self.pairs += u32::from(prefill.is_some());
                    let leg = if prefill.is_some() { Leg::Prefilling } else { Leg::Whole };
                    self.sent.insert(id, leg);
                    self.waiting -= 1;
                }
                Output::Reject { .. } => {
                    self.waiting -= 1;
                    self.ended += 1;
                }
                _ => {}
            }
        }
    }

    /// Something happens to a request at a replica.
    fn goes_on(&mut self, routing: &mut Routing, now: Time, rng: &mut Rng) {
        let at = rng.below(self.sent.len().max(1));
        let Some((id, leg)) = self.sent.iter().nth(at).map(|(id, leg)| (*id, *leg)) else {
            return;
        };
        match rng.below(10) {
            0..=3 if leg == Leg::Prefilling => {
                self.sent.insert(id, Leg::Prefilled);
                routing.handle(now, Input::Prefilled { id, usage: None });
            }
            // A driver may find out late.
            4 if matches!(leg, Leg::Prefilling | Leg::Prefilled) => {
                self.leaves(id, true);
                let outcome = FAILURES[rng.below(FAILURES.len())];
                routing.handle(now, Input::PrefillFailed { id, outcome });
            }
            // The first token may be the first sign of the end of the prefill.
            0..=5 => {
                self.sent.insert(id, Leg::Answering);
                routing.handle(now, Input::FirstToken(id));
            }
            6 => {
                self.leaves(id, false);
                routing.handle(now, Input::Cancelled(id));
            }
            7 => self.finish(routing, now, id, FAILURES[rng.below(FAILURES.len())]),
            _ => self.finish(routing, now, id, Outcome::Done),
        }
    }

    fn finish(&mut self, routing: &mut Routing, now: Time, id: RequestId, outcome: Outcome) {
        let retry = !matches!(outcome, Outcome::Done | Outcome::ClientError);
        self.leaves(id, retry);
        let (usage, extended, served) = (None, None, None);
        let end = Input::Finished { id, outcome, retry, usage, extended, served };
        routing.handle(now, end);
    }

    /// A request leaves its replicas, for good or to be sent again.
    fn leaves(&mut self, id: RequestId, again: bool) {
        self.sent.remove(&id);
        self.waiting += u32::from(again);
        self.ended += u32::from(!again);
    }
}

fn run(policy: &'static Spec, seed: u64) -> Run {
    let mut config = Config::new(policy);
    config.breaker.open = Duration::from_millis(50);
    let mut routing = Routing::new(config, seed);
    let mut rng = Rng::new(seed);
    let mut now = Time::from_millis(1);
    for at in 0..ROLES.len() {
        let id = ReplicaId(at as u16);
        routing.handle(now, Input::Joined { id, spec: spec(at) });
    }
    let mut run = Run::default();
    for event in 0..EVENTS {
        now = now + Duration::from_millis(rng.below(30) as u64);
        match rng.below(10) {
            0..=3 => {
                run.waiting += 1;
                routing.handle(now, Input::Arrived(request(event, &mut rng)));
            }
            4 => {
                let id = ReplicaId(rng.below(ROLES.len()) as u16);
                let load = Load { pending: Some(0), running: Some(1), ..Load::default() };
                routing.handle(now, Input::Reported { id, asked: now, load });
            }
            5 if rng.below(8) == 0 => {
                let at = rng.below(ROLES.len());
                let id = ReplicaId(at as u16);
                routing.handle(now, Input::Left(id));
                routing.check_invariants();
                routing.handle(now, Input::Joined { id, spec: spec(at) });
            }
            _ => run.goes_on(&mut routing, now, &mut rng),
        }
        routing.handle_timeout(now);
        run.poll(&mut routing);
        routing.check_invariants();
    }
    // Everything that is left ends.
    while routing.active_len() > 0 {
        now = now + Duration::from_secs(1);
        let open: Vec<RequestId> = run.sent.keys().copied().collect();
        for id in open {
            run.finish(&mut routing, now, id, Outcome::Done);
        }
        routing.handle_timeout(now);
        run.poll(&mut routing);
        routing.check_invariants();
    }
    for id in routing.replicas().ids() {
        let row = routing.replicas().row(*id);
        let status = routing.replicas().status(*id, now);
        assert_eq!(status.map(|status| status.own_outstanding), Some(0), "{id} is idle");
        assert_eq!((row.held_tokens, row.moving_tokens), (0.0, 0.0), "{id} holds nothing");
    }
    run
}

// Whatever happens to its legs, a request ends once, and afterwards no replica counts anything.
#[test]
fn legs_end_once() {
    for policy in every::ALL {
        let mut pairs = 0;
        for seed in 1..=6 {
            let run = run(policy, seed);
            assert_eq!(run.waiting, 0, "{}: no request is lost", policy.name);
            assert!(run.ended > 200, "{}: requests end", policy.name);
            pairs += run.pairs;
        }
        assert!(pairs > 50, "{}: {pairs} requests were split", policy.name);
    }
}

// An idle prefill replica takes no request alone: while the decode replicas are full, no event is
// worth a search of the queue.
#[test]
fn prefill_replicas_open_no_region() {
    let mut routing = Routing::new(Config::new(every::find("meridian").unwrap()), 1);
    let (prefill, decode) = (0, 2);
    let now = Time::from_millis(1);
    for at in [prefill, decode] {
        routing.handle(now, Input::Joined { id: ReplicaId(at as u16), spec: spec(at) });
    }
    let full = Load { pending: Some(3), running: Some(6), ..Load::default() };
    let id = ReplicaId(decode as u16);
    // So many reports have to agree that other clients' requests run there.
    for _ in 0..4 {
        routing.handle(now, Input::Reported { id, asked: now, load: full });
    }
    let request =
        Request { prompt_tokens: 500, splits: true, ..Request::plain(RequestId(1), ModelId(0)) };
    routing.handle(now, Input::Arrived(request));
    assert_eq!(routing.held_len(), 1);
    assert!(!routing.anybody_open() && !routing.minds_all_news());
}

/// The requests that each replica got, of `ids` that arrive one after the other.
fn shares(roles: &[Role], requests: impl Iterator<Item = Request>) -> Vec<u32> {
    let mut routing = Routing::new(Config::new(every::find("round_robin").unwrap()), 1);
    let now = Time::from_millis(1);
    for (at, role) in roles.iter().enumerate() {
        let pool = Pool { role: *role, partner: 1, rack: 0 };
        let models = vec![ModelId(0), ModelId(1 + at as u16 % 2)];
        let spec = ReplicaSpec { pool, models, ..spec(0) };
        routing.handle(now, Input::Joined { id: ReplicaId(at as u16), spec });
    }
    let mut shares = vec![0; roles.len()];
    for request in requests {
        routing.handle(now, Input::Arrived(request));
        while let Some(output) = routing.poll() {
            let Output::Dispatch { replica, prefill, .. } = output else { continue };
            for id in prefill.into_iter().chain([replica]) {
                shares[id.index()] += 1;
            }
        }
    }
    shares
}

// Defect cursor-per-role: round robin shares the prompts among all prefill replicas, and the answers
// among all decode replicas, although one policy picks both. So it does with two models.
#[test]
fn round_robin_shares_both_legs() {
    let legs = |id| Request {
        prompt_tokens: 500,
        splits: true,
        ..Request::plain(RequestId(id), ModelId(0))
    };
    let roles = [Role::Prefill, Role::Prefill, Role::Prefill, Role::Decode, Role::Decode];
    assert_eq!(shares(&roles, (0..60).map(legs)), [20, 20, 20, 30, 30]);
    let model = |id: u64| Request::plain(RequestId(id), ModelId(1 + id as u16 % 2));
    assert_eq!(shares(&[Role::Both; 6], (0..60).map(model)), [10; 6]);
}
