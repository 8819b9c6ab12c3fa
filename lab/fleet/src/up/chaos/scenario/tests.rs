//! Every scenario's schedule: it can be drawn, is the seed's alone, and repairs what it breaks.

use super::super::super::order::{ALL, Act, Order, What};
use super::super::schedule::Deed;
use super::super::{long, scenarios};
use super::*;

fn drawn(scenario: &Scenario, seconds: u64, seed: u64) -> Schedule {
    scenario.schedule(Duration::from_secs(seconds), &mut Rng::new(seed))
}

fn orders(schedule: Schedule) -> Vec<Order> {
    let mut events: Vec<_> = schedule.faults.into_iter().flat_map(|fault| fault.events).collect();
    events.sort_by_key(|(at, _)| *at);
    let order = |(_, deed)| if let Deed::Order(order) = deed { Some(order) } else { None };
    events.into_iter().filter_map(order).collect()
}

// The same seed yields the same schedule, another seed another. Every table can be read.
#[test]
fn a_seed_is_a_schedule() {
    for scenario in scenarios() {
        for seed in 0..20 {
            let schedule = drawn(scenario, 300, seed);
            assert!(!schedule.faults.is_empty(), "{}", scenario.name);
            assert_eq!(schedule, drawn(scenario, 300, seed), "{}", scenario.name);
            assert_ne!(schedule, drawn(scenario, 300, seed + 1), "{}", scenario.name);
        }
    }
}

// A minute has at least ten faults, an hour every kind.
#[test]
fn there_are_enough_of_every_kind() {
    for scenario in scenarios() {
        let Faults::Deck(deck) = scenario.faults else { continue };
        for seed in 0..50 {
            let count = drawn(scenario, 60, seed).faults.len();
            assert!(count >= 10, "{count} faults of {} with seed {seed}", scenario.name);
            let hour = drawn(scenario, 3600, seed).faults;
            for kind in deck.kinds {
                assert!(hour.iter().any(|one| one.kind == kind.name), "{} of {seed}", kind.name);
            }
        }
    }
    assert_eq!(long().count(), 4);
}

// Everything broken is repaired. Of what a deck breaks, the fleet stays able to serve: at any time at
// most one gateway or region, one link, one member of etcd, half of a region's replicas and two control
// planes are broken, and none of those while the registry is lost.
#[test]
fn every_fault_is_mended() {
    for (scenario, seed) in scenarios().flat_map(|one| (0..50).map(move |seed| (one, seed))) {
        let mut broken: Vec<Order> = Vec::new();
        for order in orders(drawn(scenario, 600, seed)) {
            broken.retain(|other| (other.what, &other.name) != (order.what, &order.name));
            if !matches!(order.act, Act::Revive | Act::Restart | Act::Reload | Act::Edit) {
                broken.push(order);
            }
            if !matches!(scenario.faults, Faults::Deck(_)) {
                continue;
            }
            let count = |what| broken.iter().filter(|order| order.what == what).count();
            let is_lost = broken.iter().any(|order| order.name == ALL);
            let replicas =
                |region: &str| broken.iter().filter(|o| o.name.starts_with(region)).count();
            let few = count(What::Gateway) + count(What::Region) <= 1
                && count(What::Link) <= 1
                && count(What::Etcd) <= 1
                && count(What::Control) <= if is_lost { 0 } else { 2 }
                && ["us-e", "eu-e", "asia-e"].into_iter().all(|region| replicas(region) <= 2);
            assert!(few, "{} with seed {seed}: {broken:?}", scenario.name);
        }
        assert!(broken.is_empty(), "{} with seed {seed}: {broken:?}", scenario.name);
    }
}
