//! `meridian up`: a region on this machine, with a load to watch, and an honest end.
//!
//! Engines, gateway and load are processes of their own. The run ends after the time given or when
//! somebody asks for it; either way the load stops first, what is in flight ends, the counts of
//! client, gateway and engines are read and compared, and the gateway is drained. It ended well
//! only if every request did, all counts agree, and every process ended as it should.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use meridian_wire::admin::Status;
use tokio::time::Instant;

use crate::llamacpp::{self, ServerSpec};
use crate::load::Load;
use crate::page::{self, Screen};
use crate::{
    Client, Counts, EngineCounts, EngineSpec, Error, Fleet, Gateway, GatewaySpec, LoadSpec,
    Process, Report, Result,
};

/// The port that clients are told of, where it is free.
const USUAL_PORT: u16 = 8080;
/// Between two looks at the gateway.
const TICK: Duration = Duration::from_millis(500);
/// Guards: the longest that requests in flight may take to end, and the gateway to drain.
const DRAIN: Duration = Duration::from_secs(120);
/// The longest that the last counters may take to arrive where they are read.
const SETTLE: Duration = Duration::from_secs(10);
/// A load without an end runs for this long.
const WITHOUT_END: Duration = Duration::from_secs(365 * 24 * 3600);

/// What kind of replicas a region has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engines {
    /// Model engines: Llama-3.1-8B on L4.
    Model,
    /// Real llama.cpp servers with a tiny model.
    LlamaCpp,
}

/// How much is asked of the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: the region is for the user's own requests.
    None,
    /// A few sessions.
    Light,
    /// Sessions, trees and chats, enough to keep the replicas busy.
    Mixed,
}

/// A region to bring up.
#[derive(Debug, Clone)]
pub struct Options {
    /// What kind of replicas.
    pub engines: Engines,
    /// How many.
    pub replicas: u32,
    /// The gateway's policy.
    pub policy: String,
    /// How many times faster than real time model engines run.
    pub time_scale: f64,
    /// The load.
    pub demand: Demand,
    /// The load's seed.
    pub seed: u64,
    /// Ends by itself after this long; none runs until somebody ends it.
    pub duration: Option<Duration>,
    /// The `meridian` to run; none takes this very program.
    pub binary: Option<PathBuf>,
    /// Where llama.cpp is installed, or will be; none takes the usual place.
    pub llamacpp_home: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            engines: Engines::Model,
            replicas: 4,
            policy: "meridian".into(),
            time_scale: 1.0,
            demand: Demand::Mixed,
            seed: 1,
            duration: None,
            binary: None,
            llamacpp_home: None,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What went wrong, a sentence each; nothing when all went well.
    pub faults: Vec<String>,
}

/// The region while it is up.
struct Region {
    // In this order they are dropped.
    load: Option<Load>,
    gateway: Gateway,
    engines: Vec<Process>,
    fleet: Fleet,
    client: Client,
}

/// Brings a region up, shows it until the end, and says how it went.
pub async fn run(options: &Options) -> Result<Verdict> {
    validate(options)?;
    let mut stop = Stop::new()?;
    let mut region = tokio::select! {
        region = Region::start(options) => region?,
        () = stop.asked() => return Ok(Verdict { faults: vec!["ended before it was up".into()] }),
    };
    region.announce(options);
    let mut faults = Vec::new();
    if let Err(fault) = region.watch(options.duration, &mut stop).await {
        faults.push(fault);
    }
    let report = region.stop_load(&mut faults).await;
    match region.settle(report.as_ref()).await {
        Ok((status, counts)) => {
            judge(&status, &counts, report.as_ref(), &mut faults);
            summarize(&status, &counts, report.as_ref());
        }
        Err(error) => faults.push(error.to_string()),
    }
    region.drain(&mut faults).await;
    if !faults.is_empty() {
        region.fleet.keep_logs();
        faults.push(format!("the logs are in {}", region.fleet.dir().display()));
    }
    Ok(Verdict { faults })
}

fn validate(options: &Options) -> Result<()> {
    let setting = |field, value: String, remedy: &str| {
        Err(Error::Setting { field, value, remedy: remedy.to_owned() })
    };
    if !(1..=64).contains(&options.replicas) {
        return setting("--replicas", options.replicas.to_string(), "use 1 to 64");
    }
    let scale = options.time_scale;
    if !(scale > 0.0 && scale.is_finite()) {
        return setting("--time-scale", scale.to_string(), "use a number above 0");
    }
    Ok(())
}

impl Region {
    async fn start(options: &Options) -> Result<Region> {
        let fleet = match &options.binary {
            Some(binary) => Fleet::new(binary)?,
            None => Fleet::of_this_program()?,
        };
        let engines = start_engines(&fleet, options).await?;
        let spec = GatewaySpec {
            policy: options.policy.clone(),
            listen: usual_or_any(),
            replicas: engines.iter().map(|engine| engine.said(0).to_owned()).collect(),
            ..GatewaySpec::default()
        };
        let gateway = fleet.gateway("gateway", &spec).await?;
        let mut region = Region { load: None, gateway, engines, fleet, client: Client::new() };
        region.all_up().await?;
        if options.demand != Demand::None {
            let spec = LoadSpec {
                url: region.gateway.url.clone(),
                duration: WITHOUT_END,
                args: load_args(options),
            };
            region.load = Some(region.fleet.load("load", &spec).await?);
        }
        Ok(region)
    }

    fn announce(&self, options: &Options) {
        let kind = match options.engines {
            Engines::Model => "model engines, Llama-3.1-8B on L4 each",
            Engines::LlamaCpp => "llama.cpp servers with a tiny random model each",
        };
        println!("a region of {} replicas: {kind}", self.engines.len());
        println!("  gateway  {}/v1", self.gateway.url);
        println!("  admin    {}/admin/status", self.gateway.admin);
        println!("  logs     {}", self.fleet.dir().display());
        if options.duration.is_none() {
            println!("  Ctrl-C ends it");
        }
    }

    async fn status(&self) -> Result<Status> {
        self.client.json(&format!("{}/admin/status", self.gateway.admin)).await
    }

    /// Waits until the gateway has found every replica answering.
    async fn all_up(&self) -> Result<()> {
        let deadline = Instant::now() + DRAIN;
        loop {
            let status = self.status().await?;
            let up = status.replicas.iter().filter(|replica| replica.state == "up").count();
            if up == self.engines.len() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::TooSlow {
                    name: "gateway".into(),
                    what: format!("find {} of {} replicas up", self.engines.len() - up, up),
                    limit: DRAIN,
                    log: self.gateway.process.log_tail(),
                });
            }
            tokio::time::sleep(TICK / 5).await;
        }
    }

    /// Shows the region until the time is over or somebody asks to stop; an error ends it too.
    async fn watch(
        &mut self,
        duration: Option<Duration>,
        stop: &mut Stop,
    ) -> std::result::Result<(), String> {
        let start = Instant::now();
        let end = start + duration.unwrap_or(WITHOUT_END);
        let mut screen = Screen::new();
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                () = stop.asked() => return Ok(()),
                () = tokio::time::sleep_until(end) => return Ok(()),
                _ = ticks.tick() => {}
            }
            self.nobody_died()?;
            let status = self.status().await.map_err(|error| error.to_string())?;
            let live = self.load.as_ref().and_then(Load::live);
            screen.show(start.elapsed(), &status, live.as_ref());
        }
    }

    fn nobody_died(&mut self) -> std::result::Result<(), String> {
        let load = self.load.as_mut().map(|load| &mut load.process);
        for process in self.engines.iter_mut().chain([&mut self.gateway.process]).chain(load) {
            if let Some(status) = process.ended() {
                let (name, log) = (process.name(), process.log_tail());
                return Err(format!("{name} ended with {status} in mid-run\n{log}"));
            }
        }
        Ok(())
    }

    /// Asks the load to end, and waits until its requests in flight have.
    async fn stop_load(&mut self, faults: &mut Vec<String>) -> Option<Report> {
        let load = self.load.as_mut()?;
        load.process.terminate();
        match load.report(DRAIN + SETTLE).await {
            Ok(report) => Some(report),
            Err(error) => {
                faults.push(error.to_string());
                None
            }
        }
    }

    /// Reads the counts once they are at rest: nothing in flight, and nothing that still differs
    /// because a counter is on its way. What differs at the end of a bounded wait, differs.
    async fn settle(&self, report: Option<&Report>) -> Result<(Status, Counts)> {
        let urls: Vec<&str> = self.engines.iter().map(|engine| engine.said(0)).collect();
        let give_up = Instant::now() + DRAIN;
        let mut idle_since = None;
        loop {
            let status = self.status().await?;
            let engines = EngineCounts::ask(&self.client, &urls).await?;
            let counts = Counts::new(report.map(|report| &report.counts), &status, &engines);
            let now = Instant::now();
            let idle = status.requests.in_flight == 0 && engines.outstanding == 0;
            if idle {
                idle_since.get_or_insert(now);
            }
            let late = now >= idle_since.map_or(give_up, |since| since + SETTLE);
            if (idle && counts.disagreements().is_empty()) || late {
                return Ok((status, counts));
            }
            tokio::time::sleep(TICK / 5).await;
        }
    }

    /// Ends the gateway as an operator would; it must end in good order.
    async fn drain(&mut self, faults: &mut Vec<String>) {
        let gateway = &mut self.gateway.process;
        gateway.terminate();
        match gateway.wait(DRAIN).await {
            Ok(status) if status.success() => {}
            Ok(status) => {
                let log = gateway.log_tail();
                faults.push(format!("the gateway ended with {status} on SIGTERM\n{log}"));
            }
            Err(error) => faults.push(error.to_string()),
        }
    }
}

/// Everything that must hold of the numbers.
fn judge(status: &Status, counts: &Counts, report: Option<&Report>, faults: &mut Vec<String>) {
    let r = &status.requests;
    for (count, how) in [
        (r.client_error, "refused as the client's mistake"),
        (r.rejected, "rejected by the gateway"),
        (r.failed, "failed"),
        (r.cancelled, "cancelled"),
        (r.in_flight, "without an end"),
    ] {
        if count > 0 {
            faults.push(format!("the gateway has {count} requests {how}"));
        }
    }
    if let Some(report) = report {
        for (kind, count) in report.errors.iter().filter(|(_, count)| **count > 0) {
            faults.push(format!("the client has {count} errors of kind {kind}"));
        }
        if report.counts.ok == 0 {
            faults.push("the client got no answer at all".into());
        }
    }
    for row in counts.disagreements() {
        faults.push(format!("client, gateway and engines count {row} differently"));
    }
}

async fn start_engines(fleet: &Fleet, options: &Options) -> Result<Vec<Process>> {
    let mut engines = Vec::new();
    match options.engines {
        Engines::Model => {
            for n in 0..options.replicas {
                let spec = EngineSpec {
                    time_scale: options.time_scale,
                    seed: options.seed + u64::from(n),
                    ..EngineSpec::default()
                };
                engines.push(fleet.engine(&format!("engine-{n}"), &spec).await?);
            }
        }
        Engines::LlamaCpp => {
            let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
            let usual = || llamacpp::home(&here);
            let home = options.llamacpp_home.clone().unwrap_or_else(usual);
            note_installation(&home);
            let installed = llamacpp::install(&home).await?;
            for n in 0..options.replicas {
                let name = format!("llamacpp-{n}");
                let spec = ServerSpec { slots: 4, context: 12288, port: 0 };
                engines.push(fleet.llamacpp(&name, &installed, spec).await?);
            }
        }
    }
    Ok(engines)
}

fn note_installation(home: &Path) {
    if !home.join("venv").exists() {
        println!("installing llama.cpp for Python into {}, once", home.display());
    }
}

/// The usual port where it is free, any other where it is not.
fn usual_or_any() -> String {
    // The listener goes away here; should somebody take the port before the gateway does, the
    // gateway says so and nothing is lost but this start.
    let free = TcpListener::bind(("127.0.0.1", USUAL_PORT)).is_ok();
    format!("127.0.0.1:{}", if free { USUAL_PORT } else { 0 })
}

fn load_args(options: &Options) -> Vec<String> {
    let (workload, clients, tokens, system) = match (options.demand, options.engines) {
        (Demand::Mixed, Engines::Model) => ("mixed", 24, 64, 6144),
        (_, Engines::Model) => ("sessions", 4, 64, 6144),
        (Demand::Mixed, Engines::LlamaCpp) => ("mixed", 8, 32, 2048),
        (_, Engines::LlamaCpp) => ("sessions", 2, 32, 2048),
    };
    let args = [
        ("--workload", workload.to_owned()),
        ("--clients", clients.to_string()),
        ("--max-tokens", tokens.to_string()),
        ("--system-bytes", system.to_string()),
        ("--seed", options.seed.to_string()),
        ("--drain", format!("{}s", DRAIN.as_secs())),
    ];
    args.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

/// Prints how it went, and the three counts side by side.
fn summarize(status: &Status, counts: &Counts, report: Option<&Report>) {
    let mut text = String::from("\n");
    if let Some(row) = report.and_then(|report| report.rows.first()) {
        let of = |q: Option<crate::load::ReportQuantiles>| {
            (page::ms(q.map(|q| q.p50)), page::ms(q.map(|q| q.p99)))
        };
        let (ttft, e2e) = (of(row.ttft_ms), of(row.e2e_ms));
        let rate = row.throughput_rps.unwrap_or(0.0);
        let _ = writeln!(
            text,
            "{rate:.1} requests/s   TTFT p50 {} p99 {}   E2E p50 {} p99 {}",
            ttft.0, ttft.1, e2e.0, e2e.1
        );
    }
    let prefix = &status.prefix;
    let _ = writeln!(
        text,
        "policy {}   prefix hit ratio {} by the engines, {} as the gateway expected\n",
        status.policy,
        page::percent(prefix.cached_tokens, prefix.known_prompt_tokens),
        page::percent(prefix.matched_tokens, prefix.prompt_tokens),
    );
    println!("{text}{}", page::counts(counts));
}

/// Somebody asking the run to end.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Stop {
    fn new() -> Result<Stop> {
        use tokio::signal::unix::{SignalKind, signal};
        let on = |kind| signal(kind).map_err(Error::file("listening for", "signals"));
        Ok(Stop {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
