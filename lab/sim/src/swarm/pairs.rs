//! The same worlds with prefill and decode replicas, and the faults of both.

use meridian_base::{Duration, Rng, Time};
use meridian_routing::Role;

use super::{faults, scenario};
use crate::scenario::{Fault, Hardware, Rack, Scenario, Transfer};

/// The scenario of a seed, in which at least one region has pairs.
#[must_use]
pub fn paired(seed: u64) -> Scenario {
    let mut scenario = scenario(seed);
    // A stream of its own, so that the rest of the world is that of the seed.
    let mut rng = Rng::new(seed).fork(0x5041_4952);
    let regions = scenario.regions.len();
    let always = rng.below(regions);
    let before = scenario.replicas.len();
    for region in 0..regions {
        if region == always || rng.below(2) == 0 {
            let gbps = [0.5, 5.0][rng.below(2)];
            scenario.racks.push(Rack { gbps });
            let rack = scenario.racks.len() - 1;
            pool(&mut rng, region, (before, rack), &mut scenario.replicas);
        }
    }
    let replicas = scenario.replicas.len();
    scenario.faults.extend(faults(&mut rng, regions, replicas, scenario.measure));
    let prefill = before..replicas;
    let of_pairs = pair_faults(&mut rng, replicas, prefill, scenario.measure.window);
    scenario.faults.extend(of_pairs);
    scenario.faults.sort_by_key(|fault| fault.0);
    scenario
}

/// Makes a region's replicas decode, except for some, and adds one or two that prefill, perhaps in a
/// rack of their own.
fn pool(
    rng: &mut Rng,
    region: usize,
    (before, rack): (usize, usize),
    replicas: &mut Vec<Hardware>,
) {
    let transfer = Transfer {
        gbps: [0.5, 5.0, 100.0][rng.below(3)],
        rack: None,
        lease: Duration::from_secs([1, 4, 30][rng.below(3)]),
    };
    let whole = rng.below(4) == 0;
    let mut like = None;
    for replica in replicas[..before].iter_mut().filter(|r| r.region == region) {
        replica.transfer = transfer;
        replica.role = if whole && like.is_none() { Role::Both } else { Role::Decode };
        like = Some(*replica);
    }
    let transfer = Transfer { rack: Some(rack).filter(|_| rng.below(2) == 0), ..transfer };
    let prefill = like.map(|like| Hardware { role: Role::Prefill, transfer, ..like });
    replicas.extend(prefill.into_iter().cycle().take(1 + rng.below(2)));
}

/// Faults that hit legs: prefill replicas that die or are suspended, and cards.
fn pair_faults(
    rng: &mut Rng,
    replicas: usize,
    prefill: std::ops::Range<usize>,
    window: Duration,
) -> Vec<(Time, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..rng.below(8) {
        let from = rng.below(window.as_millis() as usize) as u64;
        let until = from + [20, 300, 2_500, 8_000][rng.below(4)];
        let (any, prefills) = (rng.below(replicas), prefill.start + rng.below(prefill.len()));
        let (breaks, mends) = match rng.below(3) {
            0 => (Fault::CardDown(any), Fault::CardUp(any)),
            1 => (Fault::ReplicaDown(prefills), Fault::ReplicaUp(prefills)),
            _ => (Fault::ReplicaStopped(prefills), Fault::ReplicaContinued(prefills)),
        };
        faults.extend([(Time::from_millis(from), breaks), (Time::from_millis(until), mends)]);
    }
    faults
}
