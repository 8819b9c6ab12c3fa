//! `meridian bench`: loads an OpenAI endpoint and reports the answers.

mod compare;
mod contents;
mod load;
mod output;
mod planet;
mod progress;
mod replay;
mod requests;
mod sweep;
mod target;

use std::path::{Path, PathBuf};
use std::time::Duration;

use meridian_perf::control;
use meridian_perf::decision;
use meridian_perf::digests;
use meridian_perf::flowspeed;
use meridian_perf::forward;
use meridian_perf::mock;
use meridian_perf::planspeed;
use meridian_perf::race;
use meridian_perf::simspeed;

pub(crate) use meridian_tools::load::seconds;

use self::load::Load;
use super::outputs;

/// Load an OpenAI endpoint and measure at the client
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    load: Load,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Find the most requests per second that an endpoint serves within an objective
    Sweep(Box<sweep::Sweep>),
    /// Replay a journal or a trace against an endpoint, at its own times
    Replay(Box<replay::Replay>),
    /// Compare two runs, metric by metric, with intervals
    Compare(compare::Compare),
    /// Run a replica that answers immediately
    #[command(hide = true)]
    Mock {
        /// Address to listen on
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: String,
        /// Play a prefill replica: one token, and the parameters of vLLM's NixlConnector
        #[arg(long)]
        prefill: bool,
        /// Certificate, for https
        #[arg(long, value_name = "FILE", requires = "key")]
        certificate: Option<PathBuf>,
        /// The certificate's key
        #[arg(long, value_name = "FILE", requires = "certificate")]
        key: Option<PathBuf>,
    },
    /// Compare this gateway with others, side by side: latency, rate, CPU time, memory
    Gateway(Race),
    /// Count what a request costs the gateway, beside nginx: CPU time, system calls, allocations,
    /// copies, instructions
    Costs(Costs),
    /// Measure what open streams, idle connections and slow readers cost the gateway
    Streams(Streams),
    /// Measure the cost of a decision: hashing, matching, deciding, memory of the index
    Decision(Decision),
    /// Measure the cost of a decision of the flow machine
    Flow(Flow),
    /// Measure time and memory of planning 9,600 GPUs
    Plan {
        /// Output file
        #[arg(long, default_value = "target/bench/plan.json")]
        json: PathBuf,
    },
    /// Measure time and memory of a simulated request, next to a simulator in Python
    Sim(Sim),
    /// Measure time and memory of a simulated request on a planet of regions
    Planet(planet::Planet),
    /// Measure the cost of a forward beyond the round trip, over kernel TCP between namespaces
    Forward(Forward),
    /// Measure the cost of digests: share of a core, bytes per second
    Digests(Digests),
    /// Measure the cost of a control plane on a file, and of one on etcd
    Control(Control),
    /// Make two network devices with a delay between them
    #[command(hide = true)]
    Bridge {
        /// First device
        here: String,
        /// Second device
        there: String,
        /// Delay in one direction
        #[arg(long, value_parser = seconds)]
        delay: Duration,
    },
}

#[derive(Debug, clap::Args)]
struct Decision {
    /// Replicas
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=4096))]
    replicas: u16,
    /// Distinct blocks in the index
    #[arg(long, default_value_t = 1_000_000)]
    blocks: usize,
    /// Output file
    #[arg(long, default_value = "target/bench/decision.json")]
    json: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Forward {
    /// Delay in one direction between the namespaces
    #[arg(long, default_value = "40ms", value_parser = seconds)]
    delay: Duration,
    /// Rounds; in each, each way gets a block of requests
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Requests in a block
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    requests: u32,
    /// Output file
    #[arg(long, default_value = "target/bench/forward.json")]
    json: PathBuf,
}

impl Forward {
    fn options(self) -> forward::Options {
        let Forward { delay, rounds, requests, json } = self;
        forward::Options { delay, rounds, requests, json }
    }
}

#[derive(Debug, clap::Args)]
struct Digests {
    /// Peers
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=64))]
    peers: u16,
    /// Replicas in each region
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=4096))]
    replicas: u16,
    /// Simulated time for each row
    #[arg(long, default_value = "10s", value_parser = seconds)]
    each: Duration,
    /// Output file
    #[arg(long, default_value = "target/bench/digests.json")]
    json: PathBuf,
}

impl Digests {
    fn options(self) -> digests::Options {
        let Digests { peers, replicas, each, json } = self;
        digests::Options { peers, replicas, each, json }
    }
}

#[derive(Debug, clap::Args)]
struct Control {
    /// Gateways, each in its own region
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=200))]
    gateways: u16,
    /// Replicas of each gateway
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    replicas: u16,
    /// Length of a measurement
    #[arg(long, default_value = "60s", value_parser = seconds)]
    each: Duration,
    /// Output file
    #[arg(long, default_value = "target/bench/control.json")]
    json: PathBuf,
}

impl Control {
    fn options(self) -> control::Options {
        let Control { gateways, replicas, each, json } = self;
        control::Options { gateways, replicas, each, json }
    }
}

#[derive(Debug, clap::Args)]
struct Flow {
    /// Policy
    #[arg(long, default_value = "mfs")]
    policy: String,
    /// Live flows
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    flows: u32,
    /// Output file
    #[arg(long, default_value = "target/bench/flow.json")]
    json: PathBuf,
}

impl Flow {
    fn options(self) -> flowspeed::Options {
        let Flow { policy, flows, json } = self;
        flowspeed::Options { policy, flows, json, ..flowspeed::Options::default() }
    }
}

#[derive(Debug, clap::Args)]
struct Sim {
    /// Requests in the runs that compare systems
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Requests in the runs that show growth
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000",
          value_parser = clap::value_parser!(u64).range(1..))]
    growth: Vec<u64>,
    /// System in the runs that show growth
    #[arg(long, default_value = "skywalker", value_parser = simspeed::SYSTEMS)]
    system: String,
    /// Simulated time before the runs that show growth are measured: until then conversations grow
    /// longer and indexes fill up
    #[arg(long, default_value = "6h", value_parser = seconds)]
    warmup: Duration,
    /// Requests in the trace that Vidur also runs; 0 for no run of Vidur
    #[arg(long, default_value_t = 2000)]
    peer: u64,
    /// Output file
    #[arg(long, default_value = "target/bench/sim.json")]
    json: PathBuf,
    /// One run in this process: WORKLOAD/SYSTEM/REQUESTS
    #[arg(long, hide = true)]
    cell: Option<String>,
}

impl Sim {
    fn run(self) -> anyhow::Result<()> {
        let Sim { requests, growth, system, warmup, peer, json, cell } = self;
        match cell {
            Some(cell) => simspeed::one(&cell.parse()?, warmup),
            None => simspeed::measure(&simspeed::Options {
                requests,
                growth,
                system,
                warmup,
                peer,
                json,
            }),
        }
    }
}

impl Decision {
    fn options(self) -> decision::Options {
        let Decision { replicas, blocks, json } = self;
        decision::Options { replicas, blocks, json, ..decision::Options::default() }
    }
}

#[derive(Debug, clap::Args)]
struct Race {
    /// Binary of the gateway under test [default: this one]
    #[arg(long)]
    meridian: Option<PathBuf>,
    /// Binary of an earlier build, to measure in the same rounds and compare with
    #[arg(long)]
    before: Option<PathBuf>,
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

#[derive(Debug, clap::Args)]
struct Costs {
    /// Binary of the gateway under test [default: this one]
    #[arg(long)]
    meridian: Option<PathBuf>,
    /// Binary of an earlier build, to compare with
    #[arg(long)]
    before: Option<PathBuf>,
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

impl Costs {
    fn options(self) -> anyhow::Result<race::costs::Options> {
        let Costs { meridian, before, only, each, profile, json } = self;
        let meridian = beside_unless(meridian)?;
        Ok(race::costs::Options { meridian, before, only, each, profile, json })
    }
}

#[derive(Debug, clap::Args)]
struct Streams {
    /// Binary of the gateway under test [default: this one]
    #[arg(long)]
    meridian: Option<PathBuf>,
    /// Binary of an earlier build, to compare with
    #[arg(long)]
    before: Option<PathBuf>,
    /// Open streams, as far as the limit on open files allows
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u16).range(1..=25_000))]
    streams: u16,
    /// Idle connections, as far as the limit on open files allows; 0 for none
    #[arg(long, default_value_t = 50_000)]
    idle: u32,
    /// Slow readers, with 1 KB/s each; 0 for none
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(0..=1000))]
    slow: u16,
    /// For how long the streams stay open
    #[arg(long, default_value = "60s", value_parser = seconds)]
    hold: Duration,
    /// Output file
    #[arg(long, default_value = "target/bench/streams.json")]
    json: PathBuf,
}

impl Streams {
    fn options(self) -> anyhow::Result<race::streams::Options> {
        let Streams { meridian, before, streams, idle, slow, hold, json } = self;
        Ok(race::streams::Options {
            meridian: beside_unless(meridian)?,
            before,
            streams: usize::from(streams),
            idle: idle as usize,
            slow: usize::from(slow),
            hold,
            json,
        })
    }
}

/// The given binary, or the one beside this one.
fn beside_unless(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    given.map_or_else(|| Ok(meridian_fleet::meridian()?), Ok)
}

impl Command {
    /// The output file of a measurement.
    fn json(&self) -> Option<&Path> {
        Some(match self {
            // A cell reports to the command that started it.
            Command::Sim(sim) => return sim.cell.is_none().then_some(&*sim.json),
            Command::Planet(planet) => return planet.json(),
            Command::Forward(forward) => &forward.json,
            Command::Control(control) => &control.json,
            Command::Digests(digests) => &digests.json,
            Command::Plan { json } => json,
            Command::Flow(flow) => &flow.json,
            Command::Costs(costs) => &costs.json,
            Command::Streams(streams) => &streams.json,
            Command::Decision(decision) => &decision.json,
            Command::Gateway(race) => &race.json,
            Command::Sweep(_)
            | Command::Replay(_)
            | Command::Compare(_)
            | Command::Mock { .. }
            | Command::Bridge { .. } => return None,
        })
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if let Some(json) = args.command.as_ref().and_then(Command::json) {
        outputs::prepare("--json", json)?;
    }
    match args.command {
        None => load::run(args.load),
        Some(Command::Sweep(args)) => sweep::run(*args),
        Some(Command::Replay(args)) => replay::run(*args),
        Some(Command::Compare(args)) => compare::run(args),
        Some(Command::Mock { listen, prefill, certificate, key }) => {
            let role = if prefill { mock::Role::Prefill } else { mock::Role::Answers };
            let tls = certificate.zip(key).map(|(certificate, key)| mock::Tls { certificate, key });
            mock::run(&listen, role, tls)
        }
        Some(Command::Sim(sim)) => sim.run(),
        Some(Command::Planet(planet)) => planet.run(),
        Some(Command::Forward(forward)) => forward::measure(&forward.options()),
        Some(Command::Control(control)) => control::measure(&control.options()),
        Some(Command::Digests(digests)) => digests::measure(&digests.options()),
        Some(Command::Bridge { here, there, delay }) => {
            forward::bridge::run([&here, &there], delay)
        }
        Some(Command::Plan { json }) => planspeed::run(&planspeed::Options { json }),
        Some(Command::Flow(flow)) => flowspeed::run(&flow.options()),
        Some(Command::Costs(costs)) => race::costs::run(&costs.options()?),
        Some(Command::Streams(streams)) => race::streams::run(&streams.options()?),
        Some(Command::Decision(decision)) => decision::run(&decision.options()),
        Some(Command::Gateway(race)) => race::run(race::Options {
            meridian: beside_unless(race.meridian)?,
            before: race.before,
            rounds: race.rounds,
            each: race.each,
            pools: race.pools,
            only: race.only,
            cases: race.cases,
            full: race.full,
            json: race.json,
        }),
    }
}
