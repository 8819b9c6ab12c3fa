//! A decision among hundreds of replicas compares a sample.

use std::collections::BTreeSet;

use meridian_base::{Duration, ModelId, ReplicaId, RequestId, Time};
use meridian_routing::{
    Config, Ineligible, Input, Outcome, Output, ReplicaSpec, Request, Routing, policy,
};

const MANY: u16 = 600;

/// Many replicas for one request each.
fn region(policy: &str, seed: u64) -> Routing {
    let policy = policy::find(policy).unwrap();
    let config = Config { explain_candidates: usize::from(MANY), ..Config::new(policy) };
    let mut region = Routing::new(config, seed);
    for id in (0..MANY).map(ReplicaId) {
        let spec = ReplicaSpec {
            models: vec![ModelId(0)],
            kv_tokens: Some(100_000),
            slots: Some(1),
            weight: 1,
            rtt: Duration::ZERO,
            place: Default::default(),
            pool: Default::default(),
        };
        region.handle(Time::ZERO, Input::Joined { id, spec });
    }
    region
}

/// Sends a request and returns its replica.
fn send(region: &mut Routing, id: u64, blocks: &[u64]) -> Option<ReplicaId> {
    let request = Request {
        blocks: blocks.to_vec(),
        prompt_tokens: 16 * blocks.len() as u32,
        block_tokens: 16.0,
        ..Request::plain(RequestId(id), ModelId(0))
    };
    region.handle(Time::from_millis(id), Input::Arrived(request));
    let mut to = None;
    while let Some(output) = region.poll() {
        if let Output::Dispatch { replica, .. } = output {
            to = Some(replica);
        }
    }
    to
}

fn end(region: &mut Routing, id: u64, extended: Option<Vec<u64>>) {
    let outcome = Outcome::Done;
    let id = RequestId(id);
    let end = Input::Finished { id, outcome, retry: false, usage: None, extended, served: None };
    region.handle(Time::from_millis(100_000), end);
    while region.poll().is_some() {}
}

/// The replicas that a decision compared.
fn compared(region: &Routing, id: u64) -> BTreeSet<ReplicaId> {
    let rows = &region.explain(RequestId(id)).unwrap().candidates;
    assert_eq!(rows.len(), usize::from(MANY));
    let compared = rows.iter().filter(|row| row.ineligible != Some(Ineligible::Unsampled));
    compared.map(|row| row.replica).collect()
}

// Each decision compares other replicas, the same ones from the same seed, and explains which. A
// replica with a longer prefix match is always among them.
#[test]
fn a_sample_and_the_longest_matches() {
    let (mut one, mut twin) = (region("meridian", 1), region("meridian", 1));
    let prompt: Vec<u64> = (1..=400).collect();
    let first = send(&mut one, 1, &prompt).unwrap();
    assert_eq!(send(&mut twin, 1, &prompt), Some(first));
    let mut seen = compared(&one, 1);
    assert!((20..=32).contains(&seen.len()), "{}", seen.len());
    assert_eq!(compared(&twin, 1), seen);
    end(&mut one, 1, Some(prompt.clone()));
    for turn in 2..12 {
        assert_eq!(send(&mut one, turn, &prompt), Some(first), "turn {turn}");
        let now = compared(&one, turn);
        assert!(now.contains(&first) && now.len() <= 33);
        seen.extend(now);
        end(&mut one, turn, None);
    }
    assert!(seen.len() > 150, "{}", seen.len());
}

// A request goes to the last replica with free capacity, which is in few samples.
#[test]
fn the_last_free_replica_is_found() {
    let mut region = region("meridian", 1);
    let mut taken = BTreeSet::new();
    for id in 0..u64::from(MANY) {
        taken.insert(send(&mut region, id, &[id + 1]).unwrap());
    }
    assert_eq!(taken.len(), usize::from(MANY));
    assert_eq!(send(&mut region, 1_000, &[7_000]), None, "all are full");
}

// A policy that takes turns or maps sessions to replicas sees all of them.
#[test]
fn other_policies_compare_all() {
    for policy in ["round_robin", "consistent_hash", "least_outstanding"] {
        let mut region = region(policy, 1);
        send(&mut region, 1, &[1]).unwrap();
        assert_eq!(compared(&region, 1).len(), usize::from(MANY), "{policy}");
    }
}
