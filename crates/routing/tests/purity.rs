//! Dry runs change nothing: a region with dry runs between all events decides the same as one
//! without, with every policy.

use meridian_base::{Duration, ModelId, ReplicaId, RequestId, Rng, Time};
use meridian_routing::policy::{self, Spec};
use meridian_routing::{
    Admission, Config, Input, Load, Outcome, Output, Priority, ReplicaSpec, Request, Routing,
};

const REPLICAS: u16 = 4;
const EVENTS: usize = 400;

fn request(id: u64, rng: &mut Rng) -> Request {
    let family = rng.below(5) as u64;
    let blocks: Vec<u64> = (0..rng.below(12) as u64).map(|at| family * 1000 + at).collect();
    Request {
        id: RequestId(id),
        model: ModelId(0),
        tenant: rng.below(3) as u64,
        priority: Priority::Normal,
        key: family,
        head: family,
        prompt_tokens: 16 * blocks.len() as u32 + 8,
        blocks,
        block_tokens: 16.0,
        deadline: None,
        pinned: None,
        streams: true,
        hops: 0,
        peers: 0,
        here: true,
        residence: Default::default(),
        elsewhere: false,
    }
}

/// A region of four replicas that take two requests each.
fn region(policy: &'static Spec) -> Routing {
    let mut config = Config::new(policy);
    config.admission = Admission::Outstanding { max: 2 };
    let mut routing = Routing::new(config, 7);
    for id in (0..REPLICAS).map(ReplicaId) {
        let spec = ReplicaSpec {
            models: vec![ModelId(0)],
            kv_tokens: Some(10_000),
            slots: None,
            weight: 1,
            rtt: Duration::ZERO,
            place: Default::default(),
        };
        routing.handle(Time::ZERO, Input::Joined { id, spec });
    }
    routing
}

/// A request at a replica, or held.
struct Open {
    id: RequestId,
    dispatched: bool,
}

/// A region's decisions in a random run; if `asked`, dry runs come between all events.
fn run(policy: &'static Spec, seed: u64, asked: bool) -> Vec<Output> {
    let mut routing = region(policy);
    let (mut rng, mut curious) = (Rng::new(seed), Rng::new(seed + 1));
    let mut open: Vec<Open> = Vec::new();
    let (mut outputs, mut now) = (Vec::new(), Time::from_millis(1));
    for event in 0..EVENTS {
        now = now + Duration::from_millis(rng.below(40) as u64);
        if asked {
            for _ in 0..1 + curious.below(3) {
                let what_if = request(1_000_000 + event as u64, &mut curious);
                let decision = routing.dry_run(now, what_if);
                assert_eq!(decision.candidates.len(), usize::from(REPLICAS));
            }
        }
        match rng.below(5) {
            0 | 1 => {
                let id = event as u64;
                open.push(Open { id: RequestId(id), dispatched: false });
                routing.handle(now, Input::Arrived(request(id, &mut rng)));
            }
            2 => {
                let at = rng.below(open.len().max(1));
                if let Some(Open { id, dispatched: true }) = open.get(at) {
                    routing.handle(now, Input::FirstToken(*id));
                }
            }
            3 => {
                let at = rng.below(open.len().max(1));
                if open.get(at).is_some_and(|open| open.dispatched) {
                    let id = open.swap_remove(at).id;
                    let (outcome, usage, extended) = (Outcome::Done, None, None);
                    let end = Input::Finished {
                        id,
                        outcome,
                        retry: false,
                        usage,
                        extended,
                        served: None,
                    };
                    routing.handle(now, end);
                }
            }
            _ => {
                let id = ReplicaId(rng.below(REPLICAS.into()) as u16);
                let pending = Some(rng.below(2) as u32);
                let load = Load { pending, running: Some(rng.below(3) as u32), ..Load::default() };
                routing.handle(now, Input::Reported { id, asked: now, load });
            }
        }
        if routing.poll_timeout().is_some_and(|due| due <= now) {
            routing.handle_timeout(now);
        }
        while let Some(output) = routing.poll() {
            match &output {
                Output::Dispatch { id, .. } => {
                    let sent = open.iter_mut().find(|open| open.id == *id);
                    sent.expect("it arrived").dispatched = true;
                }
                Output::Reject { id, .. } => open.retain(|open| open.id != *id),
                _ => {}
            }
            outputs.push(output);
        }
        routing.check_invariants();
    }
    outputs
}

// Dry runs between all events of a random run leave every output as it is without them.
#[test]
fn a_dry_run_changes_nothing() {
    for policy in policy::ALL {
        for seed in 1..=5 {
            let (alone, asked) = (run(policy, seed, false), run(policy, seed, true));
            assert!(alone.len() > EVENTS / 4, "{}: something happens", policy.name);
            assert_eq!(alone, asked, "{} with seed {seed}", policy.name);
        }
    }
}
