//! What a request costs a gateway: system calls, wake-ups, allocations, copies, instructions and CPU
//! time, beside nginx, in the cases of the race.
//!
//! Each system runs three times. Once untouched, for CPU time and wake-ups, then under strace, for its
//! system calls, which slows it: with several connections, a slow program finds more events in each
//! wait. The second time, a library in front of libc counts allocations and copies, the third time its
//! instructions are counted. Counts per request hardly depend on the machine or on what else it does;
//! CPU time does. On request perf samples the first run, for the parts of its CPU time.

mod calls;
mod cost;
mod counts;
mod instructions;
mod profile;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use meridian_tools::load::seconds;
use meridian_tools::outputs;

use super::cases::{self, Case};
use super::peers::{self, Binaries, System};
use super::replicas::Replicas;
use super::systems::{Choice, Program, Spec, Tls};
use super::{Builds, wrk};
use calls::Calls;
use cost::{Cost, CostRow};
use counts::Counter;
use instructions::Way;

/// What to count.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    builds: Builds,
    /// Systems of `bench gateway` [default: nginx, and Meridian]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Length of a measurement
    #[arg(long, default_value = "3s", value_parser = seconds)]
    each: Duration,
    /// Also sample the parts of the CPU time: HTTP, JSON, routing, relay, TLS, allocator, kernel
    #[arg(long)]
    profile: bool,
    /// Output file
    #[arg(long, default_value = "target/bench/costs.json")]
    json: PathBuf,
}

/// Systems without `only`.
const USUAL: [&str; 3] = ["nginx", "before", "meridian"];
/// The cases of the race that are counted.
const CASES: [&str; 6] = ["plain_c1", "plain_c32", "sse_c1", "sse_c32", "64k_c1", "64k_c32"];
/// Length of a load that opens the connections and fills the pools.
const WARM_UP: Duration = Duration::from_secs(1);

/// Counts, prints the table and writes the file.
pub fn run(options: &Options) -> anyhow::Result<()> {
    outputs::prepare("--json", &options.json)?;
    ensure!(options.each >= WARM_UP, "--each: {:?} is too short; use 1s or more", options.each);
    let meridian = options.builds.meridian()?;
    let before = options.builds.before.as_deref();
    for (flag, binary) in [("--meridian", Some(&*meridian)), ("--before", before)] {
        let missing = binary.filter(|path| !path.is_file()).map(Path::display);
        let shown = missing.as_ref().map(ToString::to_string).unwrap_or_default();
        ensure!(missing.is_none(), "{flag}: {shown} is not a file; name a binary");
    }
    let dir = options.json.parent().unwrap_or(Path::new(".")).join("costs");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let dir = dir.canonicalize()?;
    cases::write_bodies(&dir)?;
    wrk::write_script(&dir)?;
    let counter = Counter::new(&dir)?;
    let usual: Vec<String> = USUAL.map(str::to_owned).to_vec();
    let has_before = before.is_some();
    let mut only = if options.only.is_empty() { usual } else { options.only.clone() };
    only.retain(|name| name != "before" || has_before || !options.only.is_empty());
    let choice = Choice { only: &only, all: false, pools: false, before: has_before };
    let specs = choice.systems()?;
    let secured = specs.iter().any(|spec| spec.tls != Tls::None);
    let cases = cases::select(&CASES.map(str::to_owned), false)?;
    let mut replicas = Replicas::start(&meridian, false, secured, &dir)?;
    let counting = Counting {
        options,
        meridian: &meridian,
        cases: &cases,
        counter: &counter,
        way: Way::find(),
        dir: &dir,
    };
    let mut costs = Vec::new();
    for spec in specs.into_iter().filter(|spec| spec.program != Program::Direct) {
        costs.extend(counting.system(spec, &mut replicas)?);
    }
    println!("{}", cost::table(&cases, &costs).text());
    println!("instructions: counted by {}", counting.way.name());
    if options.profile {
        println!("\n{}", cost::parts(&cases, &costs).text());
    }
    outputs::write_json(&cost::json(&costs, counting.way.name()), &options.json)
}

/// Everything that is the same for all systems.
struct Counting<'a> {
    options: &'a Options,
    meridian: &'a Path,
    cases: &'a [&'static Case],
    counter: &'a Counter,
    way: Way,
    dir: &'a Path,
}

impl Counting<'_> {
    fn start(
        &self,
        spec: Spec,
        environment: &[(&'static str, &Path)],
        wrapper: &[String],
        replicas: &Replicas,
    ) -> anyhow::Result<System> {
        let before = self.options.builds.before.as_deref();
        let binaries = Binaries { meridian: self.meridian, before, environment, wrapper };
        eprintln!("starting {}", spec.name);
        let system = peers::start(spec, binaries, replicas, self.dir)?;
        system.check(replicas, self.dir)?;
        Ok(system)
    }

    /// The costs of one system in all cases.
    fn system(&self, spec: Spec, replicas: &mut Replicas) -> anyhow::Result<Vec<CostRow>> {
        let (each, dir) = (self.options.each, self.dir);
        let mut rows = Vec::new();
        let mut system = self.start(spec, &[], &[], replicas)?;
        for &case in self.cases {
            wrk::run(&system.server, case, WARM_UP, dir)?;
            let (cpu_us, wake_ups) = untouched(&system, case, each, dir)?;
            let mut cost = Cost { cpu_us, wake_ups, ..Cost::default() };
            if self.options.profile {
                let perf = profile::wrapper(&system.processes(), dir);
                wrk::run_in(&perf, &system.server, case, each, dir)?;
                cost.profile = profile::read(dir)?;
            }
            cost.calls = traced(&system, case, each, dir)?;
            system.alive()?;
            rows.push((spec.name, case, cost));
        }
        drop(system);
        let mut system = self.start(spec, &self.counter.environment(), &[], replicas)?;
        for (_, case, cost) in &mut rows {
            wrk::run(&system.server, case, WARM_UP, dir)?;
            let before = self.counter.read()?;
            let load = wrk::run(&system.server, case, each, dir)?;
            cost.counts = self.counter.read()?.each(before, load.requests.max(1) as f64);
            system.alive()?;
        }
        drop(system);
        // A package's own script starts such a program: it can't run inside another.
        if self.way == Way::Callgrind && !spec.program.is_of_machine() {
            return Ok(rows);
        }
        let mut system = self.start(spec, &[], &self.way.wrapper(dir), replicas)?;
        for (_, case, cost) in &mut rows {
            wrk::run(&system.server, case, WARM_UP, dir)?;
            let processes = system.processes();
            let perf = self.way.begin(&processes, dir)?;
            let load = wrk::run_in(&perf, &system.server, case, each, dir)?;
            let instructions = self.way.end(&processes, dir)?;
            cost.instructions = Some(instructions.each(load.requests.max(1) as f64));
            system.alive()?;
        }
        replicas.alive()?;
        Ok(rows)
    }
}

/// CPU time, us, and wake-ups of a request.
fn untouched(
    system: &System,
    case: &Case,
    each: Duration,
    dir: &Path,
) -> anyhow::Result<(f64, f64)> {
    let before = (system.cpu(), system.wake_ups());
    let load = wrk::run(&system.server, case, each, dir)?;
    let requests = load.requests.max(1) as f64;
    let cpu = system.cpu().saturating_sub(before.0).as_secs_f64() * 1e6;
    Ok((cpu / requests, system.wake_ups().saturating_sub(before.1) as f64 / requests))
}

/// System calls of a request, by name.
fn traced(
    system: &System,
    case: &Case,
    each: Duration,
    dir: &Path,
) -> anyhow::Result<BTreeMap<String, f64>> {
    let calls = Calls::begin(&system.processes(), dir)?;
    let load = wrk::run(&system.server, case, each, dir)?;
    let requests = load.requests.max(1) as f64;
    let all = calls.end()?.into_iter();
    Ok(all.map(|(name, count)| (name, count as f64 / requests)).collect())
}
