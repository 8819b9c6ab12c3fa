//! `meridian bench`: loads an OpenAI endpoint and says what came back.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use meridian_bench::load::{
    self, Arrivals, Live, Options, Place, Progress, Report, Site, Workload, nearest_first,
};
use meridian_bench::{
    decision, digests, flowspeed, forward, mock, parity, planspeed, race, simspeed,
};
use meridian_wire::config::{Policy, Scalar};
use meridian_workload::Day;

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
    /// A replica that answers at once
    #[command(hide = true)]
    Mock {
        /// Where to listen
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: String,
    },
    /// Race this gateway against others, side by side
    Gateway(Race),
    /// What a decision costs: hashing, matching, deciding, the index's memory
    Decision(Decision),
    /// What a decision of the flow machine costs: submit, permit, completion, layers, passes
    Flow(Flow),
    /// What planning 9,600 GPUs costs: time, memory
    Plan {
        /// Where the results go
        #[arg(long, default_value = "target/bench/plan.json")]
        json: PathBuf,
    },
    /// What a simulated request costs: time, memory, beside a simulator in Python
    Sim(Sim),
    /// What a forward costs beyond the round trip, over kernel TCP between network namespaces
    Forward(Forward),
    /// What digests cost: share of a core, bytes a second
    Digests(Digests),
    /// Distance between two network devices, which it makes
    #[command(hide = true)]
    Bridge {
        /// The one
        here: String,
        /// The other
        there: String,
        /// One way
        #[arg(long, value_parser = seconds)]
        delay: Duration,
    },
    /// How true the simulator is: live over simulated, on the wall clock
    Parity(Parity),
}

#[derive(Debug, clap::Args)]
struct Decision {
    /// Replicas
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=4096))]
    replicas: u16,
    /// Distinct blocks in the index
    #[arg(long, default_value_t = 1_000_000)]
    blocks: usize,
    /// Where the results go
    #[arg(long, default_value = "target/bench/decision.json")]
    json: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Forward {
    /// One way between the namespaces
    #[arg(long, default_value = "40ms", value_parser = seconds)]
    delay: Duration,
    /// Rounds, in each of which each way has a block of requests
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Requests of a block
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    requests: u32,
    /// Where the results go
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
    /// Replicas of each region
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=4096))]
    replicas: u16,
    /// Simulated time of each row
    #[arg(long, default_value = "10s", value_parser = seconds)]
    each: Duration,
    /// Where the results go
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
struct Flow {
    /// Policy
    #[arg(long, default_value = "mfs")]
    policy: String,
    /// Live flows
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    flows: u32,
    /// Where the results go
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
struct Parity {
    /// Policy
    #[arg(long, default_value = "meridian")]
    policy: String,
    /// Clients
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// Length of a run
    #[arg(long, default_value = "30s", value_parser = seconds)]
    each: Duration,
    /// Runs, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Where the results go
    #[arg(long, default_value = "target/bench/parity.json")]
    json: PathBuf,
}

impl Parity {
    fn options(self) -> parity::Options {
        let Parity { policy, clients, each, runs, json } = self;
        parity::Options { policy, clients, each, runs, json }
    }
}

#[derive(Debug, clap::Args)]
struct Sim {
    /// Requests of the runs that compare systems
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Requests of the runs that show growth
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000")]
    growth: Vec<u64>,
    /// System whose growth is shown
    #[arg(long, default_value = "skywalker")]
    system: String,
    /// Requests of the trace that Vidur runs too; 0 leaves Vidur out
    #[arg(long, default_value_t = 2000)]
    peer: u64,
    /// Where the results go
    #[arg(long, default_value = "target/bench/sim.json")]
    json: PathBuf,
    /// One run in this process: WORKLOAD/SYSTEM/REQUESTS
    #[arg(long, hide = true)]
    cell: Option<String>,
}

impl Sim {
    fn run(self) -> anyhow::Result<()> {
        let Some(cell) = self.cell else {
            let Sim { requests, growth, system, peer, json, .. } = self;
            return simspeed::measure(&simspeed::Options { requests, growth, system, peer, json });
        };
        let parts: Vec<&str> = cell.split('/').collect();
        let [workload, system, requests] = parts[..] else {
            bail!("--cell {cell:?} is not WORKLOAD/SYSTEM/REQUESTS");
        };
        simspeed::one(workload, system, requests.parse()?)
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
    /// Rounds after the warm-up
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Length of a measurement
    #[arg(long, default_value = "3s", value_parser = seconds)]
    each: Duration,
    /// Systems to race, of direct, nginx, sglang-router, smg, meridian [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the results go
    #[arg(long, default_value = "target/bench/gateway.json")]
    json: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Load {
    /// The endpoint, as http://host:port
    #[arg(long, required_unless_present = "gateways")]
    url: Option<String>,
    /// A gateway and where it stands; may be given again. Clients ask the nearest first
    #[arg(long = "gateway", value_name = "LAT,LON=URL", conflicts_with_all = ["url", "elsewhere"], requires = "at", allow_hyphen_values = true)]
    gateways: Vec<Site>,
    /// Where clients stand; given again, they stand at one place after the other
    #[arg(long, value_name = "LAT,LON", requires = "gateways", conflicts_with_all = ["url", "elsewhere"], allow_hyphen_values = true)]
    at: Vec<Place>,
    /// Further endpoints, nearest first: asked in turn when no byte of an answer came
    #[arg(long = "elsewhere", value_name = "URL", value_delimiter = ',')]
    elsewhere: Vec<String>,
    /// Further endpoints that share the sessions with the first, each session at one of them
    #[arg(long = "also", value_name = "URL", value_delimiter = ',', conflicts_with_all = ["gateways", "at"])]
    also: Vec<String>,
    /// Model to ask for [default: the first of /v1/models]
    #[arg(long)]
    model: Option<String>,
    /// API key; given again, sessions are shared out among the keys
    #[arg(long, env = "OPENAI_API_KEY", hide_env_values = true)]
    api_key: Vec<String>,
    /// Name of what is measured, for the report
    #[arg(long, default_value = "live")]
    system: String,
    /// What to send: sessions, tree2, tree4, chat, mixed
    #[arg(long, default_value = "sessions")]
    workload: String,
    /// What the experiments send instead, by its name: `meridian workload list` has them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["workload", "turns", "system_bytes", "question_bytes", "depth", "max_tokens"])]
    generator: Option<String>,
    /// A knob of the generator; may be given again
    #[arg(long = "knob", value_name = "NAME=NUMBER", value_parser = knob, requires = "generator")]
    knobs: Vec<(String, f64)>,
    /// Turns of a session
    #[arg(long, default_value_t = 8)]
    turns: u32,
    /// Bytes of the system prompt that sessions share
    #[arg(long, default_value_t = 6144)]
    system_bytes: u32,
    /// Bytes of a question
    #[arg(long, default_value_t = 160)]
    question_bytes: u32,
    /// Levels of a tree
    #[arg(long, default_value_t = 4)]
    depth: u32,
    /// Most tokens of a reply
    #[arg(long, default_value_t = 64)]
    max_tokens: u32,
    /// Clients of a closed loop
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Clients of the closed loop start within this time
    #[arg(long, default_value = "0s", value_parser = seconds)]
    ramp: Duration,
    /// Number of the first client: loads beside each other have clients of their own
    #[arg(long, default_value_t = 0)]
    first_client: u32,
    /// A day of this length passes: clients of the closed loop wake and sleep
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    day: Option<Duration>,
    /// When most clients are awake, as a share of the day
    #[arg(long, default_value_t = 0.5, requires = "day")]
    peak: f64,
    /// Share of the clients that are awake when fewest are
    #[arg(long, default_value_t = 0.3, requires = "day")]
    night: f64,
    /// Open loop instead: programs (sessions, trees) a second
    #[arg(long, conflicts_with = "clients")]
    program_rate: Option<f64>,
    /// Open loop instead: requests a second
    #[arg(long, conflicts_with_all = ["clients", "program_rate"])]
    rate: Option<f64>,
    /// Most programs at a time in an open loop
    #[arg(long, default_value_t = 10_000)]
    max_programs: usize,
    /// Stop starting requests after this long [default: 30s, unless a count is given]
    #[arg(long = "for", value_parser = seconds)]
    duration: Option<Duration>,
    /// Stop after this many programs
    #[arg(long)]
    programs: Option<u64>,
    /// Stop after this many requests
    #[arg(long)]
    requests: Option<u64>,
    /// Not measured at the start
    #[arg(long, default_value = "0s", value_parser = seconds)]
    warmup: Duration,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Region that the clients stand for
    #[arg(long, default_value_t = 0)]
    region: u32,
    /// Ask for whole answers instead of streams
    #[arg(long)]
    no_stream: bool,
    /// Do not ask for usage in streams
    #[arg(long)]
    no_usage: bool,
    /// Ask the engine for exactly the most tokens
    #[arg(long)]
    ignore_eos: bool,
    /// Header for the session's key; "none" sends none
    #[arg(long, default_value = "x-session-id")]
    session_header: String,
    /// Share of requests whose client hangs up
    #[arg(long, default_value_t = 0.0)]
    abort_share: f64,
    /// They hang up within this time
    #[arg(long, default_value = "2s", value_parser = seconds)]
    abort_within: Duration,
    /// Longest request
    #[arg(long, default_value = "120s", value_parser = seconds)]
    timeout: Duration,
    /// Longest connect
    #[arg(long, default_value = "5s", value_parser = seconds)]
    connect_timeout: Duration,
    /// Longest wait for the requests in flight at the end
    #[arg(long, default_value = "30s", value_parser = seconds)]
    drain: Duration,
    /// TTFT that counts as good
    #[arg(long, value_parser = seconds)]
    slo_ttft: Option<Duration>,
    /// Compare counts with the gateway whose admin address this is
    #[arg(long)]
    check_gateway: Option<String>,
    /// Write the report here
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write a line of JSON for each request here: times and tokens
    #[arg(long)]
    records: Option<PathBuf>,
    /// Print running counts as a line of JSON a second, and no table
    #[arg(long)]
    live_json: bool,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        None => run_load(args.load),
        Some(Command::Mock { listen }) => mock::run(&listen),
        Some(Command::Sim(sim)) => sim.run(),
        Some(Command::Parity(parity)) => parity::measure(&parity.options()),
        Some(Command::Forward(forward)) => forward::measure(&forward.options()),
        Some(Command::Digests(digests)) => digests::measure(&digests.options()),
        Some(Command::Bridge { here, there, delay }) => {
            forward::bridge::run([&here, &there], delay)
        }
        Some(Command::Plan { json }) => planspeed::run(&planspeed::Options { json }),
        Some(Command::Flow(flow)) => flowspeed::run(&flow.options()),
        Some(Command::Decision(decision)) => decision::run(&decision.options()),
        Some(Command::Gateway(race)) => race::run(race::Options {
            meridian: match race.meridian {
                Some(path) => path,
                None => std::env::current_exe().context("this program's own path is unknown")?,
            },
            rounds: race.rounds,
            each: race.each,
            only: race.only,
            json: race.json,
        }),
    }
}

fn run_load(load: Load) -> anyhow::Result<()> {
    let (json, live_json) = (load.json.clone(), load.live_json);
    let mut runtime = match load.threads {
        0 | 1 => tokio::runtime::Builder::new_current_thread(),
        n => {
            let mut many = tokio::runtime::Builder::new_multi_thread();
            many.worker_threads(n);
            many
        }
    };
    let options = load.into_options();
    let progress = progress(&options, live_json);
    let report = runtime
        .enable_all()
        .build()?
        .block_on(async { load::run(options, progress, stop()?).await })?;
    if !live_json {
        // Nobody may be reading; the report file below is then still written.
        writeln!(std::io::stdout(), "{}", load::render(&report)).ok();
    }
    if let Some(path) = json {
        let text = serde_json::to_vec_pretty(&report)?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    verdict(&report)
}

/// Fails when nothing was answered, or when the gateway counted something else.
fn verdict(report: &Report) -> anyhow::Result<()> {
    let counts = &report.counts;
    if counts.ok == 0 && counts.errors > 0 {
        bail!("none of {} requests was answered by {}", counts.sent, report.options.url);
    }
    let Some(check) = report.gateway.as_ref().filter(|check| !check.agrees()) else {
        return Ok(());
    };
    let rows = check.rows.iter().filter(|r| !r.agrees());
    let names: Vec<&str> = rows.map(|r| r.name.as_str()).collect();
    bail!(
        "the gateway's counts disagree with the client's ({}): requests were lost or counted \
         twice, or somebody else used the gateway during the run",
        names.join(", ")
    )
}

/// Resolves when somebody asks the run to end.
fn stop() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn progress(options: &Options, live_json: bool) -> Option<Box<dyn Progress>> {
    if live_json {
        return Some(Box::new(|live: &Live| {
            let line = serde_json::to_string(live).expect("counts are always JSON");
            let mut out = std::io::stdout().lock();
            // Whoever read the lines may be gone; the run and its report go on.
            writeln!(out, "{line}").and_then(|()| out.flush()).ok();
        }));
    }
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::with_draw_target(
        options.duration.map(|d| d.as_millis() as u64).or(options.requests),
        ProgressDrawTarget::stderr(),
    );
    let style = ProgressStyle::with_template("{wide_bar} {elapsed} {msg}");
    bar.set_style(style.expect("the template is a constant"));
    let timed = options.duration.is_some();
    Some(Box::new(move |live: &Live| {
        bar.set_position(if timed { (live.t_s * 1e3) as u64 } else { live.ok + live.errors });
        let p50 = live.recent_ttft_ms.p50.map_or("-".into(), |ms| format!("{ms:.0} ms"));
        bar.set_message(format!(
            "{} ok, {} errors, {} on, {:.0}/s, TTFT p50 {p50}",
            live.ok, live.errors, live.in_flight, live.rps
        ));
    }))
}

impl Load {
    fn into_options(self) -> Options {
        let first =
            self.at.first().and_then(|at| nearest_first(&self.gateways, *at).first().copied());
        let nearest = first.map(|site| site.url.clone()).unwrap_or_default();
        let counted = self.programs.is_some() || self.requests.is_some();
        let half_a_minute = (!counted).then_some(Duration::from_secs(30));
        Options {
            url: self.url.unwrap_or(nearest),
            sites: self.gateways,
            places: self.at,
            also: self.also,
            elsewhere: self.elsewhere,
            ramp: self.ramp,
            first_client: self.first_client,
            records: self.records,
            day: self.day.map(|length| Day { length, peak: self.peak, night: self.night }),
            model: self.model,
            api_keys: self.api_key,
            system: self.system,
            workload: Workload {
                name: self.generator.clone().unwrap_or(self.workload),
                generator: self.generator.map(|name| Policy {
                    name,
                    params: self.knobs.into_iter().map(|(k, v)| (k, Scalar::Number(v))).collect(),
                }),
                turns: self.turns,
                system_bytes: self.system_bytes,
                question_bytes: self.question_bytes,
                depth: self.depth,
                max_tokens: self.max_tokens,
            },
            arrivals: match (self.program_rate, self.rate) {
                (Some(per_second), _) => Arrivals::Programs { per_second },
                (None, Some(per_second)) => Arrivals::Requests { per_second },
                (None, None) => Arrivals::Closed { clients: self.clients },
            },
            region: self.region,
            seed: self.seed,
            duration: self.duration.or(half_a_minute),
            programs: self.programs,
            requests: self.requests,
            warmup: self.warmup,
            stream: !self.no_stream,
            include_usage: !self.no_usage,
            ignore_eos: self.ignore_eos,
            session_header: Some(self.session_header).filter(|name| name != "none"),
            abort_share: self.abort_share,
            abort_within: self.abort_within,
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            drain: self.drain,
            max_programs: self.max_programs,
            slo_ttft: self.slo_ttft,
            check_gateway: self.check_gateway,
            tick: Duration::from_millis(if self.live_json { 1000 } else { 250 }),
            ..Options::default()
        }
    }
}

/// A knob and its value: `share=0.5`.
fn knob(text: &str) -> Result<(String, f64), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?}: write NAME=NUMBER"))?;
    let number = value.parse().map_err(|_| format!("{value:?} is no number"))?;
    Ok((name.to_owned(), number))
}

/// A duration with its unit: 250ms, 15s, 2m.
fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("{text:?} has no unit: write 250ms, 15s or 2m")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("{text:?} is no duration"))?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| format!("{text:?} is no duration"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: Args,
    }

    fn options(line: &str) -> Result<Options, String> {
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|e| e.to_string())?;
        Ok(cli.bench.load.into_options())
    }

    // Durations have units, and only those we know.
    #[test]
    fn durations() {
        assert_eq!(seconds("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds("2m"), Ok(Duration::from_secs(120)));
        for bad in ["5", "s", "-1s", "5h", "1e400s", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    // A run is bounded by half a minute unless it is told otherwise, by time or by count.
    #[test]
    fn runs_are_bounded() {
        let duration = |line| options(line).expect("a good line").duration;
        assert_eq!(duration("bench --url u"), Some(Duration::from_secs(30)));
        assert_eq!(duration("bench --url u --for 5s"), Some(Duration::from_secs(5)));
        assert_eq!(duration("bench --url u --requests 5"), None);
    }

    // One rate or one number of clients, and an endpoint, unless a subcommand needs none.
    #[test]
    fn what_goes_together() {
        let arrivals = |line| options(line).expect("a good line").arrivals;
        assert_eq!(arrivals("bench --url u --clients 3"), Arrivals::Closed { clients: 3 });
        assert_eq!(arrivals("bench --url u --rate 9"), Arrivals::Requests { per_second: 9.0 });
        assert!(options("bench --url u --rate 9 --clients 3").is_err());
        assert!(options("bench").is_err_and(|e| e.contains("--url")));
        assert!(Cli::try_parse_from(["bench", "mock"]).is_ok());
    }

    // Gateways with places need clients with places, and replace the endpoint.
    #[test]
    fn places() {
        let sites = "--gateway 39.0,-77.5=http://us --gateway -33.9,151.2=http://au";
        let found =
            options(&format!("bench {sites} --at -37.8,145.0 --at 40.7,-74.0")).expect("good");
        assert_eq!(
            (found.url.as_str(), found.sites.len(), found.places.len()),
            ("http://au", 2, 2)
        );
        found.validate().expect("goes together");
        for (line, part) in [
            (format!("bench {sites}"), "--at"),
            ("bench --url u --at 1,2".to_owned(), "--url"),
            (format!("bench {sites} --at 1,2 --url u"), "--url"),
            (format!("bench {sites} --at 1,2 --elsewhere u"), "--elsewhere"),
            (format!("bench {sites} --at 1"), "LAT,LON"),
            ("bench --gateway http://us --at 1,2".to_owned(), "LAT,LON=URL"),
        ] {
            assert!(options(&line).is_err_and(|e| e.contains(part)), "{line}: {part}");
        }
    }
}
