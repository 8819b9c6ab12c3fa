//! Races the gateway against others, in one run on one machine, in front of one mock.
//!
//! Every system runs with its documented production settings (in `lab/perf/peers/`) for the
//! whole race. They are measured one after the other, round by round, so that a drift of the
//! machine affects all. After a warm-up, medians and ranges are reported; ratios are taken within a
//! round. The table is always printed, and a missing peer fails the race.
//!
//! A case is a body and a number of connections (`cases.rs`), a system a program in one setting
//! (`systems.rs`). The usual sets of both take some ten minutes.
//!
//! The load is `wrk` on one thread: it also ends a request at the last chunk of the answer, takes
//! 26 us of CPU per streamed request (our own generator takes 32), and is independent of all
//! systems. It measures only complete answers, which are compared here; our own generator
//! measures TTFT. Both numbers: `time` of either, `-c 32` on one core for 3 s, against `meridian
//! bench mock`.
//!
//! All processes share the cores of one machine. If all cores are busy, requests a second measure
//! the CPU of load, gateway and mock together, and no gateway reaches the rate without one.

mod cases;
pub mod costs;
mod descriptors;
mod http;
mod peers;
pub(crate) mod process;
mod replicas;
mod results;
pub mod streams;
mod systems;
mod wrk;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use meridian_tools::load::seconds;
use meridian_tools::outputs;

use cases::Case;
use peers::{Binaries, System};
use replicas::Replicas;
use results::{Race, Sample};
use systems::{Choice, Tls};

/// The builds of the gateway that are measured.
#[derive(Clone, Debug, clap::Args)]
pub struct Builds {
    /// Binary of the gateway under test [default: this one]
    #[arg(long)]
    meridian: Option<PathBuf>,
    /// Binary of an earlier build, to measure as well and compare with
    #[arg(long)]
    before: Option<PathBuf>,
}

impl Builds {
    /// The build under test, which also includes the mock.
    fn meridian(&self) -> anyhow::Result<PathBuf> {
        self.meridian.clone().map_or_else(|| Ok(meridian_fleet::meridian()?), Ok)
    }
}

/// A race.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    builds: Builds,
    /// Rounds after the warm-up
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Length of a measurement
    #[arg(long, default_value = "1s", value_parser = seconds)]
    each: Duration,
    /// Compare their modes for one prefill and one decode replica: direct, smg, vllm-router,
    /// meridian-sglang, meridian-nixl
    #[arg(long, conflicts_with = "before")]
    pools: bool,
    /// Systems to compare: direct, nginx, haproxy, envoy, sglang-router, smg, vllm-router, recorded,
    /// meridian; with https to the replica nginx-https, meridian-https; with TLS to clients, too,
    /// direct-tls, nginx-tls, haproxy-tls, envoy-tls, meridian-tls
    /// [default: those without TLS]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Cases: plain, sse, 64k, apart (the replica writes head and events apart) or 200 (tokens), each
    /// with 1, 32 or 512 connections, as in sse_c1,sse_c32
    /// [default: nine of them, which take ten minutes with all usual systems]
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// All systems and all cases, unless --only or --cases names some
    #[arg(long)]
    full: bool,
    /// Output file
    #[arg(long, default_value = "target/bench/gateway.json")]
    json: PathBuf,
}

/// Length of a measurement in the warm-up.
const WARM_UP: Duration = Duration::from_secs(1);
/// The least length of one with hundreds of TLS connections: `wrk` opens new ones each time, and
/// their handshakes alone take most of a second.
const HANDSHAKES: Duration = Duration::from_secs(3);

/// Races the systems, prints the table and writes the results.
pub fn run(options: &Options) -> anyhow::Result<()> {
    outputs::prepare("--json", &options.json)?;
    ensure!(options.rounds > 0, "rounds is 0: nothing would be measured, use 1 or more");
    ensure!(options.each >= WARM_UP, "each is {:?}: use 1s or more", options.each);
    let cases = cases::select(&options.cases, options.full)?;
    let specs = Choice {
        only: &options.only,
        all: options.full,
        pools: options.pools,
        before: options.builds.before.is_some(),
    };
    let specs = specs.systems()?;
    descriptors::raise();
    let dir = options.json.parent().unwrap_or(Path::new(".")).join("race");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let dir = dir.canonicalize()?;
    cases::write_bodies(&dir)?;
    wrk::write_script(&dir)?;

    let secured = specs.iter().any(|spec| spec.tls != Tls::None);
    let meridian = options.builds.meridian()?;
    let mut replicas = Replicas::start(&meridian, options.pools, secured, &dir)?;
    let binaries = Binaries {
        meridian: &meridian,
        before: options.builds.before.as_deref(),
        environment: &[],
        wrapper: &[],
    };
    let mut systems = Vec::new();
    for spec in specs {
        eprintln!("starting {}", spec.name);
        let system = peers::start(spec, binaries, &replicas, &dir)?;
        system.check(&replicas, &dir)?;
        systems.push(system);
    }
    let race = measure_all(&mut systems, &cases, &mut replicas, options, &dir)?;
    println!("{}", race.render());
    outputs::write_json(&race.json(), &options.json)
}

/// All rounds.
fn measure_all(
    systems: &mut [System],
    cases: &[&'static Case],
    replicas: &mut Replicas,
    options: &Options,
    dir: &Path,
) -> anyhow::Result<Race> {
    let mut race = Race::new(systems.iter().map(|s| (s.name, s.version.clone())), cases);
    let bar =
        ProgressBar::new(u64::from(options.rounds + 1) * (systems.len() * cases.len()) as u64);
    bar.set_style(ProgressStyle::with_template("{wide_bar} {eta} {msg}")?);
    for round in 0..=options.rounds {
        let each = if round == 0 { WARM_UP } else { options.each };
        for case in cases {
            for system in &mut *systems {
                bar.set_message(format!("{} {}", case.name, system.name));
                let sample = measure(system, case, each, dir);
                // A process's own exit message is more informative than wrk's errors.
                replicas.alive()?;
                system.alive()?;
                let sample = sample?;
                if round > 0 {
                    race.add(system.name, case, sample);
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    for system in systems.iter() {
        race.memory(system.name, system.memory());
    }
    Ok(race)
}

/// Measures one system in one case, once.
fn measure(system: &System, case: &Case, each: Duration, dir: &Path) -> anyhow::Result<Sample> {
    let many = case.connections > 100 && system.server.certificate.is_some();
    let each = if many { each.max(HANDSHAKES) } else { each };
    let before = system.cpu();
    let load = wrk::run(&system.server, case, each, dir)?;
    let cpu = system.cpu().saturating_sub(before);
    Ok(Sample {
        p50_us: load.p50_us,
        rps: load.requests as f64 / load.seconds,
        cpu_us: cpu.as_secs_f64() * 1e6 / (load.requests.max(1)) as f64,
        // Without an answer there is no figure either.
        errors: load.errors.max(u64::from(load.requests == 0)),
    })
}
