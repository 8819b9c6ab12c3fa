//! `meridian bench URL`: its command line, and the run of its load.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use meridian_bench::load::{
    self, Arrivals, Live, Options, Place, Progress, Report, Site, Workload, nearest_first,
};
use meridian_wire::config::{Policy, Scalar};
use meridian_workload::Day;

use super::seconds;

#[derive(Debug, clap::Args)]
pub(super) struct Load {
    /// Endpoint, http://host:port
    #[arg(long, required_unless_present = "gateways")]
    url: Option<String>,
    /// Gateway and its location; repeat for more. Clients use the nearest first
    #[arg(long = "gateway", value_name = "LAT,LON=URL", conflicts_with_all = ["url", "elsewhere"], requires = "at", allow_hyphen_values = true)]
    gateways: Vec<Site>,
    /// Location of the clients; repeat for more, which take turns
    #[arg(long, value_name = "LAT,LON", requires = "gateways", conflicts_with_all = ["url", "elsewhere"], allow_hyphen_values = true)]
    at: Vec<Place>,
    /// Endpoints for retries, nearest first, tried when no byte of an answer came
    #[arg(long = "elsewhere", value_name = "URL", value_delimiter = ',')]
    elsewhere: Vec<String>,
    /// Further endpoints; each session uses one of all
    #[arg(long = "also", value_name = "URL", value_delimiter = ',', conflicts_with_all = ["gateways", "at"])]
    also: Vec<String>,
    /// Model [default: the first of /v1/models]
    #[arg(long)]
    model: Option<String>,
    /// API key; repeat for more, each session uses one
    #[arg(long, env = "OPENAI_API_KEY", hide_env_values = true)]
    api_key: Vec<String>,
    /// Name of the system in the report
    #[arg(long, default_value = "live")]
    system: String,
    /// Workload: sessions, tree2, tree4, chat, mixed, documents
    #[arg(long, default_value = "sessions")]
    workload: String,
    /// Generator to use instead; `meridian workload list` lists them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["workload", "turns", "system_bytes", "question_bytes", "depth", "max_tokens"])]
    generator: Option<String>,
    /// Parameter of the generator; repeat for more
    #[arg(long = "knob", value_name = "NAME=NUMBER", value_parser = knob, requires = "generator")]
    knobs: Vec<(String, f64)>,
    /// Turns in a session
    #[arg(long, default_value_t = 8)]
    turns: u32,
    /// Bytes in the system prompt that sessions share
    #[arg(long, default_value_t = 6144)]
    system_bytes: u32,
    /// Bytes in a question
    #[arg(long, default_value_t = 160)]
    question_bytes: u32,
    /// Levels of a tree
    #[arg(long, default_value_t = 4)]
    depth: u32,
    /// Most tokens in a reply
    #[arg(long, default_value_t = 64)]
    max_tokens: u32,
    /// Clients of a closed loop
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Clients of the closed loop start within this time
    #[arg(long, default_value = "0s", value_parser = seconds)]
    ramp: Duration,
    /// Number of the first client, so that parallel loads have different clients
    #[arg(long, default_value_t = 0)]
    first_client: u32,
    /// Length of a day, in which clients of the closed loop wake and sleep
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    day: Option<Duration>,
    /// Time with the most active clients, as a share of the day
    #[arg(long, default_value_t = 0.5, requires = "day")]
    peak: f64,
    /// Smallest share of active clients
    #[arg(long, default_value_t = 0.3, requires = "day")]
    night: f64,
    /// Open loop instead: programs (sessions, trees) per second
    #[arg(long, conflicts_with = "clients")]
    program_rate: Option<f64>,
    /// Open loop instead: requests per second
    #[arg(long, conflicts_with_all = ["clients", "program_rate"])]
    rate: Option<f64>,
    /// Most programs at a time in an open loop
    #[arg(long, default_value_t = 10_000)]
    max_programs: usize,
    /// Start no more requests after this time [default: 30s, or none if a count is given]
    #[arg(long = "for", value_parser = seconds)]
    duration: Option<Duration>,
    /// Stop after this many programs
    #[arg(long)]
    programs: Option<u64>,
    /// Stop after this many requests
    #[arg(long)]
    requests: Option<u64>,
    /// Time at the start that is not measured
    #[arg(long, default_value = "0s", value_parser = seconds)]
    warmup: Duration,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seed of the open loop's arrivals [default: the seed]
    #[arg(long)]
    arrival_seed: Option<u64>,
    /// Region of the clients
    #[arg(long, default_value_t = 0)]
    region: u32,
    /// Request whole answers instead of streams
    #[arg(long)]
    no_stream: bool,
    /// Do not request usage in streams
    #[arg(long)]
    no_usage: bool,
    /// Make the engine send exactly --max-tokens tokens
    #[arg(long)]
    ignore_eos: bool,
    /// Header for the session's key; "none" for no header
    #[arg(long, default_value = "x-session-id")]
    session_header: String,
    /// Share of requests that their client cancels
    #[arg(long, default_value_t = 0.0)]
    abort_share: f64,
    /// Longest time until a client cancels
    #[arg(long, default_value = "2s", value_parser = seconds)]
    abort_within: Duration,
    /// Timeout of a request
    #[arg(long, default_value = "120s", value_parser = seconds)]
    timeout: Duration,
    /// Timeout of a connect
    #[arg(long, default_value = "5s", value_parser = seconds)]
    connect_timeout: Duration,
    /// Longest wait for running requests at the end
    #[arg(long, default_value = "30s", value_parser = seconds)]
    drain: Duration,
    /// Longest TTFT that counts as good
    #[arg(long, value_parser = seconds)]
    slo_ttft: Option<Duration>,
    /// Admin address of the gateway whose counts are compared
    #[arg(long)]
    check_gateway: Option<String>,
    /// Write the report to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write a line of JSON with times and tokens for each request to this file
    #[arg(long)]
    records: Option<PathBuf>,
    /// Print counts as one line of JSON per second, and no table
    #[arg(long)]
    live_json: bool,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// Loads the endpoint and reports the answers.
pub(super) fn run(load: Load) -> anyhow::Result<()> {
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
        // The reader may have closed the pipe; the report file below is still written.
        writeln!(std::io::stdout(), "{}", load::render(&report)).ok();
    }
    if let Some(path) = json {
        let text = serde_json::to_vec_pretty(&report)?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    verdict(&report)
}

/// Fails if no request was answered, or if the counts of the gateway differ.
fn verdict(report: &Report) -> anyhow::Result<()> {
    let counts = &report.counts;
    if counts.ok == 0 && counts.errors > 0 {
        bail!("none of {} requests got an answer from {}", counts.sent, report.options.url);
    }
    let Some(check) = report.gateway.as_ref().filter(|check| !check.agrees()) else {
        return Ok(());
    };
    let rows = check.rows.iter().filter(|r| !r.agrees());
    let names: Vec<&str> = rows.map(|r| r.name.as_str()).collect();
    bail!(
        "the gateway's counts differ from the client's ({}): requests were lost or counted twice, or another client used the gateway",
        names.join(", ")
    )
}

/// Resolves at SIGTERM or Ctrl-C.
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
            // The reader may have closed the pipe; the run and its report continue.
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
            arrival_seed: self.arrival_seed,
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

/// A parameter and its value: `share=0.5`.
fn knob(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not a parameter; write NAME=NUMBER"))?;
    let number = value.parse().map_err(|_| format!("`{value}` is not a number"))?;
    Ok((name.to_owned(), number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: crate::lab::bench::Args,
    }

    fn options(line: &str) -> Result<Options, String> {
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|e| e.to_string())?;
        Ok(cli.bench.load.into_options())
    }

    // A run ends after half a minute, unless the command line limits its time or its requests.
    #[test]
    fn runs_are_bounded() {
        let duration = |line| options(line).expect("a good line").duration;
        assert_eq!(duration("bench --url u"), Some(Duration::from_secs(30)));
        assert_eq!(duration("bench --url u --for 5s"), Some(Duration::from_secs(5)));
        assert_eq!(duration("bench --url u --requests 5"), None);
    }

    // A load needs an endpoint and either one rate or one number of clients.
    #[test]
    fn what_goes_together() {
        let arrivals = |line| options(line).expect("a good line").arrivals;
        assert_eq!(arrivals("bench --url u --clients 3"), Arrivals::Closed { clients: 3 });
        assert_eq!(arrivals("bench --url u --rate 9"), Arrivals::Requests { per_second: 9.0 });
        let seeds = |line| options(line).map(|o| (o.seed, o.arrival_seed)).expect("a good line");
        assert_eq!(seeds("bench --url u --rate 9 --seed 3"), (3, None));
        assert_eq!(seeds("bench --url u --rate 9 --arrival-seed 4"), (1, Some(4)));
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
