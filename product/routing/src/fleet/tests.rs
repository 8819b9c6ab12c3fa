//! Tests of the fleet table.

use alloc::sync::Arc;
use alloc::vec;

use super::*;
use crate::breaker::BreakerConfig;
use crate::replica::ReplicaSpec;
use meridian_base::{Pool, Role};

fn replica(role: Role, models: &[u16]) -> Replica {
    let spec = ReplicaSpec {
        models: models.iter().map(|id| ModelId(*id)).collect(),
        kv_tokens: None,
        slots: None,
        weight: 1,
        rtt: Duration::ZERO,
        place: Arc::default(),
        pool: Pool { role, ..Pool::default() },
    };
    Replica::new(spec, BreakerConfig::default(), 0.1)
}

fn fleet() -> OwnReplicas {
    let mut fleet = OwnReplicas::new(Admission::Blind);
    let interval = Duration::from_millis(100);
    fleet.join(Time::ZERO, ReplicaId(3), replica(Role::Both, &[0, 1]), interval);
    fleet.join(Time::ZERO, ReplicaId(1), replica(Role::Both, &[0]), interval);
    fleet.join(Time::ZERO, ReplicaId(2), replica(Role::Prefill, &[0]), interval);
    fleet.list_models();
    fleet
}

fn check(fleet: &OwnReplicas) {
    fleet.check_invariants(|_| (0, 0, 0));
}

// The lists by model name the replicas that are here, by role and in ascending order.
#[test]
fn lists_follow_the_replicas() {
    let mut fleet = fleet();
    check(&fleet);
    assert_eq!(fleet.serving(ModelId(0)), Some(&[ReplicaId(1), ReplicaId(3)][..]));
    assert_eq!(fleet.serving(ModelId(1)), Some(&[ReplicaId(3)][..]));
    assert_eq!(fleet.prefilling(ModelId(0)), Some(&[ReplicaId(2)][..]));
    fleet.leave(ReplicaId(3));
    fleet.list_models();
    check(&fleet);
    assert_eq!(fleet.serving(ModelId(0)), Some(&[ReplicaId(1)][..]));
    assert_eq!(fleet.serving(ModelId(1)), None);
}

// Each replica has one probe, which a dispatch brings forward, and none after it left.
#[test]
fn one_probe_a_replica() {
    let mut fleet = fleet();
    let mut due = vec![];
    while let Some(id) = fleet.due_probe(Time::from_millis(100)) {
        due.push(id);
    }
    due.sort_unstable();
    assert_eq!(due, [ReplicaId(1), ReplicaId(2), ReplicaId(3)]);
    fleet.probe_at(Time::ZERO, ReplicaId(1), Time::from_millis(1000));
    assert_eq!(fleet.next_probe(), Some(Time::from_millis(1000)));
    let work = Work { prompt: 10.0, prefill: 10.0, kv: 10.0, reply: 1.0, sent: Time::ZERO };
    fleet.book(Time::ZERO, RequestId(1), ReplicaId(1), work, Time::from_millis(100));
    assert_eq!(fleet.next_probe(), Some(Time::from_millis(100)));
    fleet.hasten_probes(Time::ZERO, ModelId(0), Time::from_millis(50));
    assert_eq!(fleet.next_probe(), Some(Time::from_millis(50)));
    check(&fleet);
    fleet.leave(ReplicaId(1));
    fleet.list_models();
    assert_eq!(fleet.next_probe(), None);
    check(&fleet);
}

// Without a measurement, replicas are as fast as what is known of others.
#[test]
fn speeds_are_assumed() {
    let mut fleet = fleet();
    fleet.assume_speed(Time::ZERO, 0.0);
    assert_eq!(fleet.row(ReplicaId(1)).ms_per_token, 0.1);
    fleet.assume_speed(Time::ZERO, 0.4);
    assert_eq!(fleet.row(ReplicaId(1)).ms_per_token, 0.4);
}

const A: ModelId = ModelId(0);
const B: ModelId = ModelId(1);

/// A fleet in which the model A fails at replica 3.
fn failing() -> OwnReplicas {
    let mut fleet = fleet();
    for _ in 0..BreakerConfig::default().failures {
        fleet.update(Time::ZERO, ReplicaId(3), |r| r.blamed(Time::ZERO, A, true));
        fleet.note_failing(A);
    }
    fleet
}

// Defect one-broken-model: a model that fails is closed alone at a replica of several, and decisions look at each replica
// only until it succeeds. The only model of a replica closes the replica.
#[test]
fn a_model_fails() {
    let (mut fleet, id, now) = (failing(), ReplicaId(3), Time::from_millis(1));
    assert!(fleet.is_failing(A) && !fleet.is_failing(B));
    assert!(!fleet.passes(A, id, now) && fleet.passes(B, id, now));
    assert!(fleet.get(id).is_some_and(|r| r.breaker.is_closed()));
    let later = Time::from_millis(2000);
    fleet.update(later, id, |r| r.succeeded(later, A, later));
    fleet.note_failing(A);
    assert!(!fleet.is_failing(A) && fleet.passes(A, id, later));
    let single = ReplicaId(1);
    for _ in 0..BreakerConfig::default().failures {
        fleet.update(later, single, |r| r.blamed(later, A, true));
    }
    fleet.note_failing(A);
    assert!(!fleet.is_failing(A) && fleet.get(single).is_some_and(|r| !r.breaker.is_closed()));
}

// However a try of a failing model ends, there is another one.
#[test]
fn a_try_ends() {
    let (mut fleet, id) = (failing(), ReplicaId(3));
    let ends: [fn(&mut Replica, Time); 3] = [
        |r, at| r.server_failed(at, A, at, true),
        |r, _| r.ended_neutral(A),
        |r, at| r.unsure(at, A, at),
    ];
    for (turn, end) in (1..).zip(ends) {
        let at = Time::from_millis(60_000 * turn);
        assert!(fleet.passes(A, id, at));
        fleet.update(at, id, |r| r.of_models.get_mut(A).expect("it failed").sent(at, at));
        assert!(!fleet.passes(A, id, at), "one at a time");
        fleet.update(at, id, |r| end(r, at));
    }
    assert!(fleet.passes(A, id, Time::from_millis(240_000)));
}
