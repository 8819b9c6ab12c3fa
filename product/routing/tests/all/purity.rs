//! Dry runs and shadow policies change nothing: a region with dry runs between all events, or with a
//! shadow, decides the same as one without, and explains it in the same way, with every policy.

use meridian_base::{Duration, ModelId, PeerId, ReplicaId, RequestId, Rng, Time};
use meridian_routing::policy::Spec;
use meridian_routing::{
    Admission, Config, Decision, Digest, Input, Load, Outcome, Output, PeerReplica, PeerSpec,
    ReplicaSpec, Request, Routing, ShadowConfig, Why, Would,
};

use crate::every;

const REPLICAS: u16 = 4;
const PEERS: u16 = 2;
const EVENTS: usize = 400;

fn request(id: u64, rng: &mut Rng) -> Request {
    let family = rng.below(5) as u64;
    let blocks: Vec<u64> = (0..rng.below(12) as u64).map(|at| family * 1000 + at).collect();
    Request {
        tenant: rng.below(3) as u64,
        key: family,
        head: family,
        prompt_tokens: 16 * blocks.len() as u32 + 8,
        blocks,
        ..Request::plain(RequestId(id), ModelId(0))
    }
}

/// A region of four replicas and two peers. The replicas take two requests each, or those that fit
/// into their KV and that are promised capacity.
fn region(policy: &'static Spec, by_kv: bool, shadow: Option<ShadowConfig>) -> Routing {
    let mut config = Config::new(policy);
    config.admission = if by_kv { Admission::PendingKv } else { Admission::Outstanding { max: 2 } };
    config.held.promise = Duration::from_millis(100);
    config.shadow = shadow;
    let mut routing = Routing::new(config, 7);
    for id in (0..PEERS).map(PeerId) {
        let spec = PeerSpec { rtt: Duration::from_millis(20), near: true, name_hash: id.0.into() };
        routing.handle(Time::ZERO, Input::PeerJoined { id, spec });
    }
    for id in (0..REPLICAS).map(ReplicaId) {
        let spec = ReplicaSpec {
            models: vec![ModelId(0)],
            kv_tokens: Some(if by_kv { 400 } else { 10_000 }),
            slots: None,
            weight: 1,
            rtt: Duration::ZERO,
            place: Default::default(),
            pool: Default::default(),
        };
        routing.handle(Time::ZERO, Input::Joined { id, spec });
    }
    routing
}

/// A peer's digest with one replica, which may be full.
fn digest(rng: &mut Rng) -> Digest {
    let eligible = rng.below(3) > 0;
    let kv_free = if eligible { 3000.0 } else { 0.0 };
    let replica = PeerReplica {
        id: ReplicaId(0),
        eligible,
        room: if eligible { kv_free } else { -1.0 },
        front_tokens: 16.0 * rng.below(20) as f32,
        running: 1,
        outstanding: 1,
        outstanding_tokens: 100.0,
        reported_pending: 0,
        utilisation: 0.5,
        kv_used: 0.5,
        kv_free,
        kv_tokens: 10_000.0,
        ms_per_token: 0.1,
        step_slope_ms: 0.1,
        trust: 1.0,
        free_slots: u32::MAX,
        pool: Default::default(),
    };
    Digest {
        held: rng.below(3) as u32,
        eligible: eligible.into(),
        usable: 1,
        utilisation: 0.5,
        kv_tokens: 10_000,
        learned_ms_per_token: 0.0,
        pace: None,
        whole: true,
        places: Vec::new(),
        replicas: vec![replica],
    }
}

/// A request at a replica or a peer, or held.
struct Open {
    id: RequestId,
    dispatched: bool,
}

/// One random event.
fn happens(routing: &mut Routing, now: Time, event: u64, rng: &mut Rng, open: &mut Vec<Open>) {
    match rng.below(6) {
        0 | 1 => {
            open.push(Open { id: RequestId(event), dispatched: false });
            routing.handle(now, Input::Arrived(request(event, rng)));
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
                let outcome = Outcome::Done;
                let (retry, usage, extended, served) = (false, None, None, None);
                let end = Input::Finished { id, outcome, retry, usage, extended, served };
                routing.handle(now, end);
            }
        }
        4 => {
            let peer = PeerId(rng.below(PEERS.into()) as u16);
            let digest = digest(rng).into();
            routing.handle(now, Input::Digested { peer, sent: event, rtt: None, digest });
        }
        _ => {
            let id = ReplicaId(rng.below(REPLICAS.into()) as u16);
            let pending = Some(rng.below(2) as u32);
            let load = Load { pending, running: Some(rng.below(3) as u32), ..Load::default() };
            routing.handle(now, Input::Reported { id, asked: now, load });
        }
    }
}

/// The result of a random run: its decisions, their explanations without the shadow's part, and the
/// region at the end.
type Run = (Vec<Output>, Vec<String>, Routing);

/// A random run; if `asked`, dry runs come between all events.
fn run(policy: &'static Spec, seed: u64, asked: bool, shadow: Option<ShadowConfig>) -> Run {
    let mut routing = region(policy, seed.is_multiple_of(2), shadow);
    let (mut rng, mut curious) = (Rng::new(seed), Rng::new(seed + 1));
    let mut open: Vec<Open> = Vec::new();
    let (mut outputs, mut now) = (Vec::new(), Time::from_millis(1));
    let mut explained = Vec::new();
    for event in 0..EVENTS {
        now = now + Duration::from_millis(rng.below(40) as u64);
        if asked {
            for _ in 0..1 + curious.below(3) {
                let what_if = request(1_000_000 + event as u64, &mut curious);
                let decision = routing.dry_run(now, what_if);
                assert_eq!(decision.candidates.len(), usize::from(REPLICAS));
            }
        }
        happens(&mut routing, now, event as u64, &mut rng, &mut open);
        if routing.poll_timeout().is_some_and(|due| due <= now) {
            routing.handle_timeout(now);
        }
        while let Some(output) = routing.poll() {
            match &output {
                Output::Dispatch { id, .. } | Output::Forward { id, .. } => {
                    let sent = open.iter_mut().find(|open| open.id == *id);
                    sent.expect("it arrived").dispatched = true;
                }
                Output::Reject { id, .. } => open.retain(|open| open.id != *id),
                _ => {}
            }
            outputs.push(output);
        }
        let newest = routing.decisions().next().cloned();
        let newest = newest.map(|decision| Decision { shadow: None, ..decision });
        explained.push(format!("{newest:?}"));
        routing.check_invariants();
    }
    (outputs, explained, routing)
}

// Dry runs between all events of a random run leave every output and every explanation as it is
// without them, whether requests go to replicas or to peers, or are promised capacity.
#[test]
fn a_dry_run_changes_nothing() {
    let (mut forwards, mut promises) = (0, 0);
    for policy in every::ALL {
        for seed in 1..=5 {
            let (alone, asked) = (run(policy, seed, false, None), run(policy, seed, true, None));
            let (outputs, explained, _) = &alone;
            assert!(outputs.len() > EVENTS / 4, "{}: something happens", policy.name);
            assert_eq!(*outputs, asked.0, "{} with seed {seed}", policy.name);
            assert_eq!(*explained, asked.1, "{} with seed {seed}", policy.name);
            forwards += outputs.iter().filter(|o| matches!(o, Output::Forward { .. })).count();
            let is_promise =
                |o: &&Output| matches!(o, Output::Dispatch { why: Why::Promised { .. }, .. });
            promises += outputs.iter().filter(is_promise).count();
        }
    }
    assert!(forwards > 100 && promises > 2, "{forwards} forwards, {promises} promises");
}

// A shadow leaves every output and every explanation as it is without one, whatever its policy. It
// decides each time that the policy does, and differs.
#[test]
fn a_shadow_changes_nothing() {
    let mut seen = [0; Would::ALL.len()];
    for (at, policy) in every::ALL.iter().enumerate() {
        for seed in 1..=4 {
            let other = every::ALL[(at + 5 * seed as usize) % every::ALL.len()];
            let alone = run(policy, seed, false, None);
            let shadowed = run(policy, seed, true, Some(ShadowConfig::new(other)));
            assert_eq!(alone.0, shadowed.0, "{} with seed {seed}", policy.name);
            assert_eq!(alone.1, shadowed.1, "{} with seed {seed}", policy.name);
            let (_, totals) = shadowed.2.shadow().unwrap();
            let decided = |o: &&Output| match o {
                Output::Dispatch { why, .. } => !matches!(why, Why::Promised { .. }),
                Output::Forward { .. } | Output::Held(_) => true,
                _ => false,
            };
            assert!(totals.all() >= alone.0.iter().filter(decided).count() as u64);
            seen.iter_mut().zip(totals.decisions).for_each(|(all, some)| *all += some);
        }
    }
    // The peers of these regions lack room too seldom for a choice between two.
    assert!(seen[..Would::ALL.len() - 1].iter().all(|count| *count > 10), "{seen:?}");
}

// A shadow with the policy in force decides the same, also by drawn numbers.
#[test]
fn the_same_policy_agrees() {
    for policy in every::ALL {
        for seed in 1..=3 {
            let mut shadow = ShadowConfig::new(policy);
            shadow.admission = if seed % 2 == 0 {
                Admission::PendingKv
            } else {
                Admission::Outstanding { max: 2 }
            };
            let (_, _, routing) = run(policy, seed, false, Some(shadow));
            let (_, totals) = routing.shadow().unwrap();
            assert!(totals.all() > 50, "{}", policy.name);
            assert_eq!(totals.decisions[0], totals.all(), "{} {totals:?}", policy.name);
            assert_eq!(totals.compared_same, totals.compared);
            assert_eq!(totals.matched_tokens, totals.shadow_matched_tokens);
        }
    }
}
