//! The worlds that are measured: SkyWalker's three regions, clients and replicas.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use meridian_engine::{Config, Profile};
use meridian_routing::HeldConfig;
use meridian_sim::{Hardware, Load, Measure, Region, Scenario, Source, System, Topology, Wan};
use meridian_workload::{PublishedLoad, find_generator};

/// The workloads of SkyWalker's Figure 8: the generator of each region's clients, whose numbers are
/// the published ones (section 5.1).
pub(super) const WORKLOADS: [(&str, [&str; 3]); 4] = [
    ("arena", ["arena"; 3]),
    ("wildchat", ["wildchat"; 3]),
    ("tot", ["tree2"; 3]),
    ("mixed-tree", ["tree4", "tree2", "tree2"]),
];
/// Policies by name: the first is central, like a cloud's load balancer; the others have a gateway
/// per region.
pub(super) const SYSTEMS: [&str; 3] = ["least_outstanding", "skywalker", "meridian"];
/// The measured part of the run that finds the rate.
pub(super) const SHORT: Measure =
    Measure { warmup: Duration::ZERO, window: Duration::from_secs(600) };
/// Replicas of each region.
const REPLICAS: usize = 4;

/// `workload` under `system`.
pub(super) fn scenario(workload: &str, system: &str, measure: Measure) -> anyhow::Result<Scenario> {
    let found = WORKLOADS.iter().find(|(name, _)| *name == workload);
    let (_, generators) = found.with_context(|| {
        let names = WORKLOADS.map(|(name, _)| name);
        format!("no workload {workload:?}: use one of {names:?}")
    })?;
    ensure!(SYSTEMS.contains(&system), "no system {system:?}: use one of {SYSTEMS:?}");
    let loads: anyhow::Result<_> =
        generators.iter().enumerate().map(|(region, name)| load(region, name)).collect();
    let central = system == SYSTEMS[0];
    let topology = if central { Topology::Central { region: 0 } } else { Topology::TwoLayer };
    let engine = Config::new(Profile::named("llama-3.1-8b", "l4", 1).map_err(|e| anyhow!("{e}"))?);
    let replica = |at| Hardware::new(at / REPLICAS, engine);
    Ok(Scenario {
        seed: 1,
        regions: regions(),
        wan: Wan {
            rtt_ms: vec![vec![1.0, 92.0, 167.0], vec![92.0, 1.0, 230.0], vec![167.0, 230.0, 1.0]],
            jitter: 0.0,
            loss: 0.0,
        },
        replicas: (0..3 * REPLICAS).map(replica).collect(),
        system: self::system(system, topology)?,
        loads: loads?,
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure,
        paranoid: false,
    })
}

/// A region's clients, in a closed loop.
fn load(region: usize, generator: &str) -> anyhow::Result<Load> {
    let spec = find_generator(generator).with_context(|| format!("no generator {generator}"))?;
    let PublishedLoad::Clients(clients) = spec.load else {
        return Err(anyhow!("{generator} has no published number of clients"));
    };
    let source = Source::Closed {
        clients: clients[region % clients.len()],
        generator: Arc::from(spec.published()),
        ramp: Duration::from_secs(10),
        programs: None,
        day: None,
    };
    Ok(Load { region, source, may_run_in: None })
}

fn regions() -> Vec<Region> {
    let places = ["us", "eu", "asia"];
    places.map(|name| Region { name: name.to_owned(), continent: name.to_owned() }).to_vec()
}

/// A policy with its published defaults that queues requests without a time limit.
pub(super) fn system(name: &str, topology: Topology) -> anyhow::Result<System> {
    let policy = meridian_rivals::find(name).with_context(|| format!("no policy {name}"))?;
    Ok(System {
        held: HeldConfig { max_wait: Duration::from_secs(3600), ..HeldConfig::default() },
        ..System::usual(policy, topology)
    })
}
