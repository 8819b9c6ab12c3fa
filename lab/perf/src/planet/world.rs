//! The world that is simulated: regions with replicas, gateways that forward to each other, and
//! chats that follow the sun.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use meridian_engine::{Config, Profile};
use meridian_routing::policy;
use meridian_sim::{Hardware, Load, Measure, Region, Scenario, Source, System, Topology, Wan};
use meridian_workload::{Diurnal, find_generator, open_loop};

use super::{Size, cities};

/// Requests a day for each replica: with 3,000 of them, 30 million. The L4s can serve this at the
/// highest hour of the day too; with 50 million their queues grow, and every decision finds full
/// regions.
const PER_DAY: f64 = 10_000.0;
const DAY_S: f64 = 86_400.0;
/// When the run starts, UTC: afternoon in America, night in Asia.
const START_HOUR: f64 = 20.0;
pub(super) const GENERATOR: &str = "wildchat";
const SEED: u64 = 1;

/// The planet, whose loads send about `requests` requests after `warmup`.
pub(super) fn scenario(size: Size, warmup: Duration, requests: u64) -> anyhow::Result<Scenario> {
    let Size { regions, replicas } = size;
    let most = cities::CITIES.len();
    ensure!((1..=most).contains(&regions), "regions: {regions} is not between 1 and {most}");
    ensure!(replicas >= regions, "replicas: {replicas} are fewer than the {regions} regions");
    let engine = Config::new(profile("l4")?);
    let policy = policy::find("meridian").context("the policy is built in")?;
    let per_second = PER_DAY / DAY_S * replicas as f64;
    let days = cities::days(regions, START_HOUR);
    let window = Duration::from_secs_f64(requests as f64 / (per_second * days.total(START_HOUR)));
    let city = |at: usize| {
        let (name, continent, ..) = cities::CITIES[at];
        Region { name: name.to_owned(), continent: continent.to_owned() }
    };
    Ok(Scenario {
        seed: SEED,
        regions: (0..regions).map(city).collect(),
        wan: Wan { rtt_ms: cities::rtt_ms(regions), jitter: 0.0, loss: 0.0 },
        replicas: (0..replicas).map(|at| Hardware::new(at * regions / replicas, engine)).collect(),
        system: System::usual(policy, Topology::TwoLayer),
        loads: loads(&days, per_second)?,
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup, window },
        paranoid: false,
    })
}

/// A GPU with the model of all replicas.
pub(super) fn profile(gpu: &str) -> anyhow::Result<Profile> {
    Profile::named("llama-3.1-8b", gpu, 1).map_err(|e| anyhow!("{e}"))
}

/// Each region's conversations, at the times of its day.
fn loads(days: &Diurnal, per_second: f64) -> anyhow::Result<Vec<Load>> {
    let spec = find_generator(GENERATOR).context("the generator is built in")?;
    let generator = Arc::from(spec.published());
    let load = |region: usize| {
        let generator: Arc<dyn meridian_workload::Generator> = Arc::clone(&generator);
        let programs = per_second / generator.mean_requests();
        let arrivals = days.arrivals(SEED, region, programs);
        let programs = open_loop(generator, arrivals, SEED, region as u32);
        Load { region, source: Source::Open(Box::new(programs)), may_run_in: None }
    };
    Ok((0..days.regions.len()).map(load).collect())
}
