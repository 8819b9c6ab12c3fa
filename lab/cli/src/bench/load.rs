//! `meridian bench URL`: its command line, and the run of its load.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use meridian_tools::load;
use meridian_tools::load::{Arrivals, Options, Report, Slo};
use meridian_workload::Day;

use super::contents::Contents;
use super::output::{Files, Forms, print};
use super::requests::{Requests, runtime, stop};
use super::target::Target;
use super::{progress, seconds};

#[derive(Debug, clap::Args)]
pub(super) struct Load {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    contents: Contents,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    requests: Requests,
    #[command(flatten)]
    files: Files,
    /// Write a line of JSON with times and tokens for each request to this file
    #[arg(long)]
    records: Option<PathBuf>,
    /// Print counts as one line of JSON per second, and no table
    #[arg(long)]
    live_json: bool,
    /// Admin address of the gateway whose counts are compared
    #[arg(long)]
    check_gateway: Option<String>,
}

/// Arrivals and length of a run.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Arrivals and length")]
struct Pace {
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
    /// Everything at once instead: this many programs at a time, more than the replicas run and
    /// queue (GORGO's throughput load)
    #[arg(long, value_name = "PROGRAMS", num_args = 0..=1, default_missing_value = "512",
          conflicts_with_all = ["clients", "program_rate", "rate", "ramp", "day"])]
    throughput: Option<u32>,
    /// Seed of the open loop's arrivals [default: the seed]
    #[arg(long)]
    arrival_seed: Option<u64>,
    /// Start no more requests after this time [default: 30s, or none if a count is given]
    #[arg(long = "for", value_parser = seconds)]
    duration: Option<Duration>,
    /// Stop after this many programs
    #[arg(long)]
    programs: Option<u64>,
    /// Stop after this many requests
    #[arg(long = "requests")]
    count: Option<u64>,
    /// Time at the start that is not measured
    #[arg(long, default_value = "0s", value_parser = seconds)]
    warmup: Duration,
    /// Objective of goodput, as ttft=500ms,tpot=50ms
    #[arg(long)]
    slo: Option<Slo>,
    /// Make the engine send exactly --max-tokens tokens
    #[arg(long)]
    ignore_eos: bool,
}

/// Loads the endpoint and reports the answers.
pub(super) fn run(load: Load) -> anyhow::Result<()> {
    load.files.check()?;
    let live_json = load.live_json;
    let runtime = runtime(load.requests.threads)?;
    let (options, files) = load.into_options();
    let progress = progress::of_run(&options, live_json);
    let report = runtime.block_on(async { load::run(options, progress, stop()?).await })?;
    if !live_json {
        print(&load::render(&report));
    }
    files.write(&Forms {
        json: &|| load::json(&report),
        csv: &|| load::csv(&report),
        svg: &|| load::svg(&report),
    })?;
    verdict(&report)
}

/// Fails if no request was answered, or if the counts of the gateway differ.
pub(super) fn verdict(report: &Report) -> anyhow::Result<()> {
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

impl Load {
    fn into_options(self) -> (Options, Files) {
        let tick = Duration::from_millis(if self.live_json { 1000 } else { 250 });
        let mut options = Options {
            records: self.records,
            check_gateway: self.check_gateway,
            tick,
            ..Options::default()
        };
        self.target.set(&mut options);
        self.contents.set(&mut options);
        self.pace.set(&mut options);
        self.requests.set(&mut options);
        (options, self.files)
    }
}

impl Pace {
    fn set(self, options: &mut Options) {
        let counted = self.programs.is_some() || self.count.is_some();
        let half_a_minute = (!counted).then_some(Duration::from_secs(30));
        options.arrivals = match (self.program_rate, self.rate, self.throughput) {
            (Some(per_second), _, _) => Arrivals::Programs { per_second },
            (None, Some(per_second), _) => Arrivals::Requests { per_second },
            (None, None, Some(most)) => Arrivals::Throughput { most },
            (None, None, None) => Arrivals::Closed { clients: self.clients },
        };
        options.ramp = self.ramp;
        options.first_client = self.first_client;
        options.day = self.day.map(|length| Day { length, peak: self.peak, night: self.night });
        options.arrival_seed = self.arrival_seed;
        options.duration = self.duration.or(half_a_minute);
        options.programs = self.programs;
        options.requests = self.count;
        options.warmup = self.warmup;
        options.slo = self.slo;
        options.ignore_eos = self.ignore_eos;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: crate::bench::Args,
    }

    fn options(line: &str) -> Result<Options, String> {
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|e| e.to_string())?;
        Ok(cli.bench.load.into_options().0)
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
        assert_eq!(arrivals("bench --url u --throughput"), Arrivals::Throughput { most: 512 });
        assert_eq!(arrivals("bench --url u --throughput 9"), Arrivals::Throughput { most: 9 });
        assert!(options("bench --url u --throughput --rate 9").is_err());
        let nowhere = options("bench").map(|options| options.validate()).expect("a good line");
        assert!(nowhere.is_err_and(|e| e.to_string().contains("--url")));
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
