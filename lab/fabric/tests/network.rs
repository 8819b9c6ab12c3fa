//! Tests of the network against an exact solver, its own byte counts, and examples worked out by
//! hand.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod exact;

use meridian_base::{Duration, FlowId, PortId, Rng, Time};
use meridian_fabric::{Demand, Network, Path, Priority};

use exact::{Given, rates};

/// Gives a flow this priority and cap.
fn share(priority: Priority, cap: f64) -> impl FnOnce(&mut Demand) {
    move |demand| (demand.priority, demand.cap) = (priority, cap)
}

fn path(ports: &[u32]) -> Path {
    let ports: Vec<PortId> = ports.iter().map(|port| PortId(*port)).collect();
    Path::new(&ports).unwrap()
}

fn random_path(rng: &mut Rng, ports: usize) -> Vec<u32> {
    let mut all: Vec<u32> = (0..ports as u32).collect();
    let len = 1 + rng.below(ports.min(4));
    for at in 0..len {
        let other = at + rng.below(ports - at);
        all.swap(at, other);
    }
    all.truncate(len);
    all
}

/// One random small network, changed step by step; after each step the rates are the exact ones.
fn one_network(seed: u64) {
    let mut rng = Rng::new(seed);
    let ports = 2 + rng.below(5);
    let capacities: Vec<i64> = (0..ports).map(|_| 1 + rng.below(12) as i64).collect();
    let mut network = Network::new(&capacities.iter().map(|c| *c as f64).collect::<Vec<_>>());
    let mut given: Vec<Option<Given>> = vec![None; 9];
    let classes = 1 + rng.below(3);
    for step in 0..14 {
        let now = Time::from_millis(step);
        // One to three changes of one instant.
        for _ in 0..1 + rng.below(3) {
            let row = rng.below(given.len());
            let id = FlowId(row as u32);
            let (class, order) = (rng.below(classes) as u8, rng.below(2) as u64);
            let cap = (rng.below(3) == 0).then(|| 1 + rng.below(6) as i64);
            let float = cap.map_or(f64::INFINITY, |cap| cap as f64);
            match &mut given[row] {
                Some(one) if rng.below(2) == 0 => {
                    (one.priority, one.cap) = ((class, order), cap);
                    network.change(now, id, share(Priority(class, order), float));
                }
                Some(_) => {
                    given[row] = None;
                    network.end(now, id);
                }
                None => {
                    let ports = random_path(&mut rng, ports);
                    let weight = 1 + rng.below(4) as i64;
                    network.begin(
                        now,
                        id,
                        Demand {
                            priority: Priority(class, order),
                            weight: weight as f64,
                            cap: float,
                            ..Demand::new(path(&ports), 1e9)
                        },
                    );
                    given[row] = Some(Given { ports, priority: (class, order), weight, cap });
                }
            }
        }
        network.settle(now);
        let exact = rates(&capacities, &given);
        for (row, expected) in exact.iter().enumerate() {
            let rate = network.rate(FlowId(row as u32));
            let close = (rate - expected).abs() <= 1e-6 * expected.max(1e-3);
            assert!(close, "seed {seed}, step {step}, flow {row}: {rate} is not {expected}");
        }
    }
}

// Incremental water-filling equals a full exact solution: 1,000 random small networks, 14 steps
// each, with priorities, weights and caps, against progressive filling in fractions.
#[test]
fn rates_are_those_of_an_exact_solver_on_1000_networks() {
    (0..1000).for_each(one_network);
}

/// Checks rates against their definition: each flow has its cap, or crosses a port that is full
/// with flows of higher or equal priority, none of which in its own priority has more for its
/// weight; and no port has more than it can carry.
fn assert_held(network: &Network, capacities: &[f64], flows: u32, what: &str) {
    let demand = |id: FlowId| *network.demand(id).unwrap();
    let share = |id: FlowId| network.rate(id) / demand(id).weight;
    let bottleneck = |id: FlowId, port: PortId| {
        let priority = demand(id).priority;
        let until = network.at(port).filter(|other| demand(*other).priority <= priority);
        let equals = network.at(port).filter(|other| demand(*other).priority == priority);
        until.map(|other| network.rate(other)).sum::<f64>()
            >= capacities[port.index()] * (1.0 - 1e-8)
            && equals.map(share).all(|other| other <= share(id) * (1.0 + 1e-8))
    };
    for (port, capacity) in capacities.iter().enumerate() {
        assert!(
            network.load(PortId(port as u32)) <= capacity * (1.0 + 1e-9),
            "{what}: port {port}"
        );
    }
    for id in (0..flows).map(FlowId).filter(|id| network.demand(*id).is_some()) {
        let capped = network.rate(id) >= demand(id).cap * (1.0 - 1e-9);
        let held = demand(id).path.ports().iter().any(|port| bottleneck(id, *port));
        assert!(capped || held, "{what}: {id} has {} and could have more", network.rate(id));
    }
}

// The same at a size at which changes propagate far and rounding errors accumulate: 400 flows on 60
// ports, in one priority, in a few, and in hundreds, 1,000 instants with one to twenty changes
// each.
#[test]
fn every_flow_is_held_by_a_port_or_its_cap() {
    for (seed, orders) in [(1, 1), (2, 1), (3, 4), (4, 40), (5, 400)] {
        let mut rng = Rng::new(seed);
        let capacities: Vec<f64> = (0..60).map(|_| 1e9 * (1 + rng.below(9)) as f64).collect();
        let mut network = Network::new(&capacities);
        for step in 0..1000 {
            let now = Time::from_millis(step);
            let most = if step % 50 == 0 { 20 } else { 2 };
            for _ in 0..1 + rng.below(most) {
                let id = FlowId(rng.below(400) as u32);
                let priority = Priority(rng.below(orders.min(4)) as u8, rng.below(orders) as u64);
                let cap = if rng.below(5) > 0 { f64::INFINITY } else { 1e8 * rng.unit() + 1.0 };
                match network.demand(id) {
                    None => {
                        let weight = 1.0 + rng.below(3) as f64;
                        let path = path(&random_path(&mut rng, 60));
                        let demand = Demand { priority, weight, cap, ..Demand::new(path, 1e12) };
                        network.begin(now, id, demand);
                    }
                    Some(_) if rng.below(2) == 0 => network.change(now, id, share(priority, cap)),
                    Some(_) => network.end(now, id),
                }
            }
            network.settle(now);
            if step % 10 == 0 {
                assert_held(&network, &capacities, 400, &format!("seed {seed}, step {step}"));
            }
        }
    }
}

// Two hops and three flows: the long one is held by the narrow port, the rest goes to the others.
#[test]
fn the_parking_lot() {
    let mut network = Network::new(&[10.0, 4.0]);
    for (id, ports) in [(0, &[0, 1][..]), (1, &[0]), (2, &[1])] {
        network.begin(Time::ZERO, FlowId(id), Demand::new(path(ports), 100.0));
    }
    network.settle(Time::ZERO);
    assert_eq!([0, 1, 2].map(|id| network.rate(FlowId(id))), [2.0, 8.0, 2.0]);
}

// Strict priority: the first flow takes all that its own path allows, and no capacity stays idle
// needlessly.
#[test]
fn priority_is_strict_and_work_conserving() {
    let mut network = Network::new(&[10.0, 4.0]);
    let demand = |ports: &[u32], class| Demand {
        priority: Priority(class, 0),
        ..Demand::new(path(ports), 100.0)
    };
    network.begin(Time::ZERO, FlowId(0), demand(&[0, 1], 0));
    network.begin(Time::ZERO, FlowId(1), demand(&[0], 1));
    network.begin(Time::ZERO, FlowId(2), demand(&[1], 1));
    network.settle(Time::ZERO);
    assert_eq!([0, 1, 2].map(|id| network.rate(FlowId(id))), [4.0, 6.0, 0.0]);
    network.change(Time::ZERO, FlowId(0), share(Priority(2, 0), f64::INFINITY));
    network.settle(Time::ZERO);
    assert_eq!([0, 1, 2].map(|id| network.rate(FlowId(id))), [0.0, 10.0, 4.0]);
}

// Flows end when their bytes are sent, in order, and their share goes to the others at once: 10 and
// 30 bytes share 10 a second, so the first ends after 2 s and the second at 4 s.
#[test]
fn ends_follow_the_rates() {
    let mut network = Network::new(&[10.0]);
    for (id, bytes) in [(0, 10.0), (1, 30.0)] {
        network.begin(Time::ZERO, FlowId(id), Demand::new(path(&[0]), bytes));
    }
    network.settle(Time::ZERO);
    let mut ends = vec![];
    while let Some(end) = network.next_end() {
        while let Some(id) = network.ended(end) {
            ends.push((id.0, end));
        }
        network.settle(end);
    }
    assert_eq!(ends, [(0, Time::from_millis(2000)), (1, Time::from_millis(4000))]);
    assert!(network.is_empty());
    // An end between two nanoseconds rounds up: no flow ends before its last byte.
    let now = Time::from_millis(5000);
    network.begin(now, FlowId(0), Demand { cap: 3.0, ..Demand::new(path(&[0]), 1.0) });
    network.settle(now);
    assert_eq!(network.next_end(), Some(Time::from_nanos(5_333_333_334)));
}

// Bytes are conserved at every port. Through random arrivals, changes, ends and cancellations it
// carries the sum of the bytes that its flows sent (their size less the remainder), never more than
// its rate allows, and each flow that ends has sent all its bytes.
#[test]
fn bytes_are_conserved_on_every_port() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let capacities: Vec<f64> = (0..8).map(|_| 1e6 * (1.0 + rng.unit() * 9.0)).collect();
        let mut network = Network::new(&capacities);
        // Bytes that each port should have carried, from the flows' own sizes.
        let mut sent = [0.0; 8];
        let mut live: Vec<Option<(Vec<u32>, f64)>> = vec![None; 40];
        let mut now = Time::ZERO;
        for _ in 0..600 {
            now = now + Duration::from_micros(rng.below(4000) as u64);
            while let Some(end) = network.next_end().filter(|end| *end <= now) {
                while let Some(id) = network.ended(end) {
                    let (ports, bytes) = live[id.index()].take().unwrap();
                    ports.iter().for_each(|port| sent[*port as usize] += bytes);
                }
                network.settle(end);
            }
            let row = rng.below(live.len());
            let id = FlowId(row as u32);
            let priority = Priority(rng.below(3) as u8, 0);
            match &live[row] {
                None => {
                    let ports = random_path(&mut rng, 8);
                    let bytes = 1.0 + rng.below(60_000) as f64;
                    let demand = Demand { priority, ..Demand::new(path(&ports), bytes) };
                    network.begin(now, id, demand);
                    live[row] = Some((ports, bytes));
                }
                Some(_) if rng.below(3) > 0 => {
                    network.change(now, id, share(priority, f64::INFINITY))
                }
                Some((ports, bytes)) => {
                    let over = bytes - network.left(now, id);
                    ports.iter().for_each(|port| sent[*port as usize] += over);
                    network.end(now, id);
                    live[row] = None;
                }
            }
            network.settle(now);
            for (port, capacity) in capacities.iter().enumerate() {
                let port = PortId(port as u32);
                assert!(network.load(port) <= capacity * (1.0 + 1e-9));
                let crosses = |(row, one): (usize, &Option<(Vec<u32>, f64)>)| {
                    let (ports, bytes) = one.as_ref().filter(|(p, _)| p.contains(&port.0))?;
                    assert!(ports.len() <= Path::MOST);
                    Some(bytes - network.left(now, FlowId(row as u32)))
                };
                let under_way: f64 = live.iter().enumerate().filter_map(crosses).sum();
                let (carried, expected) =
                    (network.carried(now, port), sent[port.index()] + under_way);
                assert!((carried - expected).abs() < 1e-3, "{carried} is not {expected}");
                assert!(carried <= capacity * now.as_secs_f64() + 1e-3);
            }
        }
    }
}
