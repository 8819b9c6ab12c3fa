//! Measures an event of the flow-level network on the cluster that MFS simulates: a flow ends,
//! another starts, and the rates settle.

use anyhow::Context;
use meridian_base::{Duration, FlowId, Rng, Time};
use meridian_fabric::{Cluster, Demand, Gpu, Network, Priority, Topology};

use super::SEED;
use crate::harness::{Results, cpu_time};

/// Most ends of each run, and its CPU time: one change among flows with equal shares reaches most
/// of the network.
const EVENTS: u32 = 5_000;
const LONGEST: Duration = Duration::from_secs(2);

/// Events per second of CPU time, for flows with equal shares and for flows in strict order.
pub(super) fn measure(results: &mut Results) -> anyhow::Result<()> {
    let topology = Topology::new(Cluster::mfs())?;
    for (name, live, orders) in [
        ("network, 1,000 flows, equal", 1_000, 1),
        ("network, 1,000 flows, 500 orders", 1_000, 500),
        ("network, 10,000 flows, equal", 10_000, 1),
        ("network, 10,000 flows, 500 orders", 10_000, 500),
    ] {
        results.add(name, "events/s", one(&topology, live, orders)?);
    }
    Ok(())
}

fn one(topology: &Topology, live: u32, orders: usize) -> anyhow::Result<f64> {
    let mut rng = Rng::new(SEED);
    let mut network = Network::new(topology.rates());
    let demand = |rng: &mut Rng| {
        let gpus = topology.gpus() as usize;
        let from = rng.below(gpus);
        let to = (from + 8 + rng.below(gpus - 16)) % gpus;
        let path = topology.path(Gpu(from as u32), Gpu(to as u32), rng.next_u64());
        let bytes = rng.exponential(100e6) + 1.0;
        path.map(|path| Demand {
            priority: Priority(
                if orders > 1 { rng.below(8) as u8 } else { 0 },
                rng.below(orders) as u64,
            ),
            ..Demand::new(path, bytes)
        })
    };
    for id in 0..live {
        let demand = demand(&mut rng).context("two GPUs of the cluster")?;
        network.begin(Time::ZERO, FlowId(id), demand);
    }
    network.settle(Time::ZERO);
    let start = cpu_time();
    let mut events = 0;
    while events < EVENTS && cpu_time() - start < LONGEST {
        let end = network.next_end().context("some flow has a rate")?;
        let id = network.ended(end).context("a flow ends when it was said to")?;
        let demand = demand(&mut rng).context("two GPUs of the cluster")?;
        network.begin(end, id, demand);
        network.settle(end);
        events += 1;
    }
    Ok(f64::from(events) / (cpu_time() - start).as_secs_f64())
}
