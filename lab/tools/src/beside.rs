//! Simulates the fleet of `meridian up` in the other topology, for comparison.
//!
//! If the run forwards requests, the simulation keeps them in their region, and the other way
//! round. Clients, residency rules, engines, distances and the gateways' machine are the run's own
//! (for the accuracy see lab/docs/simulator.md, "Accuracy"). The simulation does not include
//! processes killed in the run, and all of its replicas serve whole requests.
//!
//! In the run, one session in four has a rule, whichever client it comes from. In the simulation one
//! client in four has it, for all of its sessions.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use meridian_base::Time;
use meridian_engine::{Config, Profile};
use meridian_fleet::up::{self, Beside, Figures, Second};
use meridian_sim::{
    Fate, Hardware, Load, Measure, Record, Region, Scenario, Source, System, Topology, Wan, run,
};
use meridian_wan::config::known_delay;
use meridian_workload::{Day, Generator, Program, ProgramKey};

use crate::load::Workload;

/// How much of a run without an end is simulated: five default days.
const LONGEST: Duration = Duration::from_secs(600);

/// Starts to simulate the other topology, if the run can be simulated: model engines in real time,
/// in several regions, under a load.
#[must_use]
pub fn begin(options: &up::Options) -> Option<Beside> {
    let (name, topology) = match &*options.topology {
        "two_layer" => ("region_local", in_their_region(options)),
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

/// The topology that keeps each request in its region, unless a rule forbids that. A utilisation is
/// never above 1, so requests overflow only by their rules.
fn in_their_region(options: &up::Options) -> Topology {
    match options.bound(0) {
        Some(_) => Topology::Waterfall { above: 1.0 },
        None => Topology::RegionLocal,
    }
}

fn scenario(options: &up::Options, topology: Topology) -> anyhow::Result<Scenario> {
    let policy = meridian_rivals::find(&options.policy);
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
        loads: regions
            .map(|region| loads(options, region))
            .collect::<anyhow::Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect(),
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

/// The clients of a region: those without a rule, and those with it.
fn loads(options: &up::Options, region: usize) -> anyhow::Result<Vec<Load>> {
    let clients = options.clients(region);
    let workload = Workload {
        name: clients.workload.to_owned(),
        max_tokens: clients.max_tokens,
        system_bytes: clients.system_bytes,
        ..Workload::default()
    };
    let day = Day { length: options.day, peak: clients.peak, night: clients.night };
    let generator = workload.generator()?;
    let some = |first: u32, clients: u32, may_run_in: Option<Vec<usize>>| {
        let generator = Arc::new(Later { first, generator: generator.clone() });
        let (ramp, programs, day) = (Duration::ZERO, None, Some(day));
        let source = Source::Closed { clients, generator, ramp, programs, day };
        Load { region, source, may_run_in }
    };
    let Some((bound, place)) = options.bound(clients.count) else {
        return Ok(vec![some(0, clients.count, None)]);
    };
    let free = clients.count - bound;
    Ok(vec![some(0, free, None), some(free, bound, Some(vec![place]))])
}

/// The programs of the clients from `first` on, so that the loads of a region have different ones.
struct Later {
    first: u32,
    generator: Arc<dyn Generator>,
}

impl Generator for Later {
    fn program(&self, key: ProgramKey) -> Program {
        self.generator.program(ProgramKey { client: self.first + key.client, ..key })
    }

    fn mean_requests(&self) -> f64 {
        self.generator.mean_requests()
    }
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
        let alone = seconds(&options, in_their_region(&options));
        assert_eq!(alone.len(), 61);
        assert_eq!(alone[0].all, Figures::default());
        let last = &alone[60];
        assert!(last.regions.iter().all(|region| region.ttft_p50_ms > Some(0.0)));
        assert!(last.all.ttft_p99_ms >= last.all.ttft_p50_ms);
        assert!(last.all.prefix_hit_ratio > Some(0.1) && last.all.prefix_hit_ratio < Some(1.0));
        assert_ne!(seconds(&options, Topology::TwoLayer)[60], alone[60]);
    }

    // The rule of the run holds in the simulation: requests that it names are served in its region
    // only, they are a quarter of the load, and none is refused for it. With requests kept in their
    // region, nothing else is forwarded.
    #[test]
    fn the_rule_holds() {
        let options = run_of("two_layer");
        let report = run(scenario(&options, in_their_region(&options)).unwrap()).unwrap();
        assert_eq!(report.violations, Vec::<String>::new());
        // Each region has two loads; the second one has the rule.
        let bound = |record: &&Record| record.load % 2 == 1;
        let done = || report.requests.iter().filter(|record| record.fate == Fate::Done);
        assert!(done().filter(bound).all(|record| record.served == 1), "only in eu");
        let away = |record: &&Record| bound(record) && record.region != 1 && record.forwarded;
        assert!(done().filter(away).count() > 20, "the clients of other regions are served");
        assert!(done().filter(|r| !bound(r)).all(|r| !r.forwarded && r.served == r.region));
        let share = done().filter(bound).count() as f64 / done().count() as f64;
        assert!((0.1..0.4).contains(&share), "{share}");
        let refused = report.requests.iter().filter(|r| r.fate != Fate::Done);
        assert_eq!(refused.count(), 0);
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
