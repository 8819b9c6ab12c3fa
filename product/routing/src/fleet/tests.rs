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
