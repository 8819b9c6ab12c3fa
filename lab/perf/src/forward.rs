//! Measures the cost of a forward beyond the round trip, over kernel TCP.
//!
//! Two network namespaces are joined by a bridge that delays packets ([`bridge`]). The far one has
//! a replica that answers at once and its gateway; the near one has a gateway without replicas,
//! which forwards everything. The same requests are sent three ways: to the far gateway from its
//! own namespace (*direct*), to the far gateway from the near namespace, and to the near gateway
//! (*forwarded*). The round trip is the additional time of a short prompt from the near namespace
//! over a direct one, measured in the same rounds as the long ones, since a busy machine is slower
//! at times. Forwarded minus direct minus round trip is the cost of the second gateway, TLS and
//! HTTP/2, and, for long prompts, of transfer time that they could not hide.

pub mod bridge;
mod ground;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::value_parser;
use meridian_base::median;
use meridian_fleet::{Fleet, GatewaySpec, LoadSpec, PeersSpec};
use meridian_tools::load::{Record, seconds};
use serde_json::json;

use crate::harness::Results;
use ground::{Spaces, THERE};

/// Prompts.
const PROMPTS: [(&str, u32); 3] = [("short", 100), ("64 KB", 64 << 10), ("1 MB", 1 << 20)];
/// Requests at the start of a block that do not count: connections open, windows grow.
const FIRST: usize = 5;
/// Safety timeout.
const LIMIT: Duration = Duration::from_secs(120);

/// Options of the measurement, and the path of its results.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Delay in one direction between the namespaces
    #[arg(long, default_value = "40ms", value_parser = seconds)]
    delay: Duration,
    /// Rounds; in each, each way gets a block of requests
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Requests in a block
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u32).range(1..=10_000))]
    requests: u32,
    /// Output file
    #[arg(long, default_value = "target/bench/forward.json")]
    json: PathBuf,
}

/// The most that a forward should take beyond the round trip, in ms.
const MOST: f64 = 1.0;

/// Measures, prints the table, writes the file.
///
/// # Errors
/// If namespaces cannot be created, which the message says clearly, or a process fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let settings = json!({"delay_ms": options.delay.as_secs_f64() * 1e3});
    let mut results = Results::new("forward", settings, &options.json)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(options, &mut results)).context(
        "NOTHING WAS MEASURED: the cost of a forward over kernel TCP needs two network namespaces",
    )?;
    results.finish()
}

/// Namespace and gateway, 0 near and 1 far: a short prompt directly and from the near namespace;
/// then the prompt under test directly, from the near namespace and forwarded.
const WAYS: [(usize, usize); 5] = [(1, 1), (0, 1), (1, 1), (0, 1), (0, 0)];
/// How many of them have the short prompt.
const SHORT: usize = 2;

async fn measure(options: &Options, results: &mut Results) -> anyhow::Result<()> {
    let spaces = Spaces::make()?;
    let mut fleet = Fleet::of_this_program()?;
    let _bridge = spaces.join(&fleet, options.delay).await?;
    let named = ["near", "far"].map(|name| (name.to_owned(), name.to_owned()));
    let certificates = fleet.certificates(&named).await?;
    let spec = |region: &str, listen: &str, peers| GatewaySpec {
        region: region.to_owned(),
        listen: listen.to_owned(),
        policy: "round_robin".to_owned(),
        admission: Some("blind".to_owned()),
        peers: Some(peers),
        ..GatewaySpec::default()
    };
    let peers = |region: &str, listen: &str, gateways| {
        let (certificate, key) = certificates.of(region);
        let files = [certificates.ca(), certificate, key];
        // The far gateway forwards nothing, so it follows no peer.
        let accept = vec!["near/near".to_owned()];
        PeersSpec { listen: listen.to_owned(), files, gateways, accept, digests: None }
    };

    fleet.enter(Some(&spaces.names[1]));
    let mock = fleet.meridian("mock", ["bench", "mock"], &["listening on "]).await?;
    let any = format!("{THERE}:0");
    let far = GatewaySpec {
        replicas: vec![mock.said(0).to_owned()],
        ..spec("far", &any, peers("far", &any, Vec::new()))
    };
    let far = fleet.gateway("far", &far).await?;
    fleet.enter(Some(&spaces.names[0]));
    let at = far.peers.context("the far gateway prints the address for peers")?;
    let one = vec![("far".to_owned(), "far".to_owned(), at)];
    let near = spec("near", "127.0.0.1:0", peers("near", "127.0.0.1:0", one));
    let near = fleet.gateway("near", &near).await?;

    let urls = [near.url.clone(), far.url.clone()];
    for (name, bytes) in PROMPTS {
        let mut took: [Vec<f64>; 5] = Default::default();
        for round in 0..options.rounds {
            for (at, ((space, gateway), took)) in WAYS.iter().zip(&mut took).enumerate() {
                fleet.enter(Some(&spaces.names[*space]));
                let bytes = if at < SHORT { PROMPTS[0].1 } else { bytes };
                let label = format!("{name}-{round}-{at}").replace(' ', "");
                took.extend(block(&fleet, &label, &urls[*gateway], bytes, options.requests).await?);
            }
        }
        let [short, short_from_afar, direct, from_afar, forwarded] =
            took.map(|ms| median(&ms).expect("each has a first token"));
        let round_trip = short_from_afar - short;
        results.case(name);
        results.add("direct", "ms", direct);
        results.add("from afar", "ms", from_afar);
        results.add("forwarded", "ms", forwarded);
        results.add("round trip", "ms", round_trip);
        results.add("overhead", "ms", forwarded - direct - round_trip).at_most(MOST);
    }
    Ok(())
}

/// Sends requests one after the other over one connection; returns the times to the first token, in
/// ms.
async fn block(
    fleet: &Fleet,
    label: &str,
    url: &str,
    bytes: u32,
    requests: u32,
) -> anyhow::Result<Vec<f64>> {
    let records = fleet.dir().join(format!("{label}.records"));
    let number = (FIRST as u32 + requests).to_string();
    let question = bytes.to_string();
    let records_shown = records.display().to_string();
    let args = [
        ["--records", &records_shown],
        ["--requests", &number],
        ["--clients", "1"],
        ["--turns", "1"],
        ["--system-bytes", "16"],
        ["--question-bytes", &question],
        ["--max-tokens", "8"],
        ["--model", "mock"],
    ];
    let args = args.concat().iter().map(|arg| (*arg).to_owned()).collect();
    let spec = LoadSpec { url: url.to_owned(), duration: LIMIT, args };
    let mut load = fleet.load(label, &spec).await?;
    let report = load.report(LIMIT).await?;
    ensure!(report.counts.errors == 0, "{} requests of {label} failed", report.counts.errors);
    let took: Vec<f64> =
        Record::read(&records)?.iter().skip(FIRST).filter_map(|record| record.ttft_ms).collect();
    ensure!(!took.is_empty(), "no request of {label} had a first token");
    Ok(took)
}
