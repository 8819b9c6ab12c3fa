//! Simulates the fleet of `meridian up` in the other topology, for comparison.
//!
//! If the run forwards requests, the simulation keeps them in their region, and the other way
//! round. Clients, engines, distances and the gateways' machine are the run's own (for the accuracy
//! see docs/benchmarks.md, "Simulator accuracy"). The simulation does not include processes killed
//! in the run, and all of its replicas serve whole requests.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use meridian_base::Time;
use meridian_engine::{Config, Profile};
use meridian_lab::up::{self, Beside, Figures, Second};
use meridian_routing::policy;
use meridian_sim::{
    Fate, Hardware, Load, Measure, Record, Region, Scenario, Source, System, Topology, Wan, run,
};
use meridian_wire::wan::known_delay;
use meridian_workload::Day;

use crate::load::Workload;

/// How much of a run without an end is simulated: five default days.
const LONGEST: Duration = Duration::from_secs(600);

/// Starts to simulate the other topology, if the run can be simulated: model engines in real time,
/// in several regions, under a load.
#[must_use]
pub fn begin(options: &up::Options) -> Option<Beside> {
    let (name, topology) = match &*options.topology {
        "two_layer" => ("region_local", Topology::RegionLocal),
        _ => ("two_layer", Topology::TwoLayer),
    };
    let is_like = options.engines == up::Engines::Model
        && options.demand != up::Demand::None
        && options.time_scale == 1.0
        && options.regions.len() > 1;
    let scenario = is_like.then(|| scenario(options, topology))?.ok()?;
    let whole = if options.pools.is_some() { " without pools" } else { "" };
    let beside = Beside { name: format!("{name}{whole}, simulated"), seconds: Arc::default() };
    let (seconds, regions) = (beside.seconds.clone(), options.regions.len());
    // The run does not wait for it: one that ends sooner ends without the comparison.
    std::thread::spawn(move || {
        let window = scenario.measure.window;
        if let Ok(report) = run(scenario) {
            let _ = seconds.set(by_second(&report.requests, regions, window));
        }
    });
    Some(beside)
}

fn scenario(options: &up::Options, topology: Topology) -> anyhow::Result<Scenario> {
    let policy = policy::find(&options.policy);
    let policy = policy.with_context(|| format!("no policy {:?}", options.policy))?;
    let profile = Profile::named("llama-3.1-8b", "l4", 1).map_err(|e| anyhow!("{e}"))?;
    let engine = Config::new(profile);
    let regions = 0..options.regions.len();
    let named = |name: &String| Region { name: name.clone(), continent: name.clone() };
    let here = |region| vec![Hardware::new(region, engine); options.replicas_of(region) as usize];
    Ok(Scenario {
        seed: options.seed,
        regions: options.regions.iter().map(named).collect(),
        wan: wan(&options.regions),
        replicas: regions.clone().flat_map(here).collect(),
        system: System::usual(policy, topology),
        loads: regions.map(|region| load(options, region)).collect::<anyhow::Result<_>>()?,
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure {
            warmup: Duration::ZERO,
            window: options.duration.unwrap_or(LONGEST).min(LONGEST),
        },
        paranoid: false,
    })
}

fn load(options: &up::Options, region: usize) -> anyhow::Result<Load> {
    let clients = options.clients(region);
    let workload = Workload {
        name: clients.workload.to_owned(),
        max_tokens: clients.max_tokens,
        system_bytes: clients.system_bytes,
        ..Workload::default()
    };
    let day = Day { length: options.day, peak: clients.peak, night: clients.night };
    let source = Source::Closed {
        clients: clients.count,
        generator: workload.generator()?,
        ramp: Duration::ZERO,
        programs: None,
        day: Some(day),
    };
    Ok(Load { region, source, may_run_in: None })
}

fn wan(regions: &[String]) -> Wan {
    let rtt = |a: &String, b: &String| {
        let delay = known_delay(a, b).map_or(0.0, |delay| delay.0.as_secs_f64() * 1e3);
        if a == b { 0.0 } else { 2.0 * delay }
    };
    let row = |a| regions.iter().map(|b| rtt(a, b)).collect();
    Wan { rtt_ms: regions.iter().map(row).collect(), jitter: 0.0, loss: 0.0 }
}

/// The results by each second: all requests that had a first token by then.
fn by_second(requests: &[Record], regions: usize, window: Duration) -> Vec<Second> {
    let first_token = |record: &&Record| record.sent + record.ttft;
    let mut answered: Vec<&Record> = requests.iter().filter(|r| r.fate == Fate::Done).collect();
    answered.sort_by_key(first_token);
    let mut answered = answered.into_iter().peekable();
    let (mut all, mut each) = (Clients::default(), vec![Clients::default(); regions]);
    let until = |second| {
        let now = Time::ZERO + Duration::from_secs(second);
        while let Some(record) = answered.next_if(|record| first_token(record) <= now) {
            all.add(record);
            each[usize::from(record.region)].add(record);
        }
        Second { all: all.figures(), regions: each.iter().map(Clients::figures).collect() }
    };
    (0..=window.as_secs()).map(until).collect()
}

/// The results of some clients so far.
#[derive(Clone, Default)]
struct Clients {
    /// In ascending order.
    ttft: Vec<Duration>,
    prompt_tokens: u64,
    cached_tokens: u64,
}

impl Clients {
    fn add(&mut self, record: &Record) {
        self.ttft.insert(self.ttft.partition_point(|ttft| *ttft <= record.ttft), record.ttft);
        self.prompt_tokens += u64::from(record.prompt_tokens);
        self.cached_tokens += u64::from(record.cached_tokens);
    }

    fn figures(&self) -> Figures {
        let quantile = |q: f64| {
            let at = (self.ttft.len().saturating_sub(1) as f64 * q).round() as usize;
            self.ttft.get(at).map(|ttft| ttft.as_secs_f64() * 1e3)
        };
        let share = self.cached_tokens as f64 / self.prompt_tokens as f64;
        Figures {
            ttft_p50_ms: quantile(0.5),
            ttft_p99_ms: quantile(0.99),
            prefix_hit_ratio: (self.prompt_tokens > 0).then_some(share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(topology: &str) -> up::Options {
        let regions = ["us", "eu", "asia"].map(str::to_owned).into();
        let duration = Some(Duration::from_secs(60));
        up::Options { regions, topology: topology.into(), duration, ..up::Options::default() }
    }

    fn seconds(options: &up::Options, topology: Topology) -> Vec<Second> {
        let report = run(scenario(options, topology).unwrap()).unwrap();
        assert_eq!(report.violations, Vec::<String>::new());
        by_second(&report.requests, 3, report.window)
    }

    // There are no results at the start and more every second, each region separately; and the
    // topologies differ if their days do.
    #[test]
    fn clients_see_more_by_the_second() {
        let options = run_of("two_layer");
        let alone = seconds(&options, Topology::RegionLocal);
        assert_eq!(alone.len(), 61);
        assert_eq!(alone[0].all, Figures::default());
        let last = &alone[60];
        assert!(last.regions.iter().all(|region| region.ttft_p50_ms > Some(0.0)));
        assert!(last.all.ttft_p99_ms >= last.all.ttft_p50_ms);
        assert!(last.all.prefix_hit_ratio > Some(0.1) && last.all.prefix_hit_ratio < Some(1.0));
        assert_ne!(seconds(&options, Topology::TwoLayer)[60], alone[60]);
    }

    // Runs that cannot be simulated: one region, no load, engines in another time scale.
    #[test]
    fn only_what_can_be_simulated_is() {
        assert!(begin(&run_of("region_local")).is_some_and(|b| b.name == "two_layer, simulated"));
        let one = up::Options { regions: vec!["us".into()], ..run_of("two_layer") };
        let idle = up::Options { demand: up::Demand::None, ..run_of("two_layer") };
        let fast = up::Options { time_scale: 4.0, ..run_of("two_layer") };
        assert!([one, idle, fast].iter().all(|options| begin(options).is_none()));
    }
}
