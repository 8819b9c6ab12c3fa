//! Tests of the rule table.

use alloc::vec::Vec;

use super::*;
use meridian_base::{ModelId, RequestId};

use crate::policy;

fn rule(name: &str) -> PolicyState {
    let spec = policy::find(name).unwrap();
    let bounds = Bounds { entries: 1024, targets: 4 };
    PolicyState::new(7, (spec, &Params::defaults(spec)), spec.admission, bounds)
}

fn holds(rule: &PolicyState, replica: u16) -> u32 {
    rule.index().map_or(0, |index| index.longest(&[1, 2, 3], replica))
}

// The draws of a request depend on its number and attempt, and on nothing before them.
#[test]
fn draws_are_the_requests_own() {
    let rule = rule("random");
    let request = crate::Request::plain(RequestId(1), ModelId(0));
    let mut active = Active::new(Time::ZERO, 3, request, 0.0);
    let draws = |active: &Active| -> Vec<usize> {
        let mut draw = rule.draw(active);
        (0..8).map(|_| draw.below(1000)).collect()
    };
    let first = draws(&active);
    assert_eq!(draws(&active), first);
    active.attempt = 1;
    assert_ne!(draws(&active), first);
    (active.attempt, active.number) = (0, 4);
    assert_ne!(draws(&active), first);
}

// The index follows dispatches and answers as its policy requires, and a replica that is gone has
// nothing cached.
#[test]
fn the_index_follows_the_requests() {
    let mut rule = rule("meridian");
    rule.sent(ReplicaId(0), &[1, 2]);
    assert_eq!(holds(&rule, 0), 2);
    rule.answered(ReplicaId(0), &[1, 2, 3]);
    assert_eq!(holds(&rule, 0), 3);
    rule.forget(ReplicaId(0), &[1, 2, 3], 1);
    assert_eq!(holds(&rule, 0), 1);
    rule.clear(ReplicaId(0));
    assert_eq!(holds(&rule, 0), 0);
    rule.check_invariants();
}

// A new policy takes over the index of the one before if it requires the same one.
#[test]
fn an_index_is_inherited() {
    let mut before = rule("meridian");
    before.sent(ReplicaId(0), &[1, 2]);
    let mut same = rule("meridian");
    assert!(same.inherit(&mut before));
    assert_eq!(holds(&same, 0), 2);
    let mut other = rule("round_robin");
    assert!(!other.inherit(&mut same));
    assert_eq!(holds(&other, 0), 0);
    other.check_invariants();
}
