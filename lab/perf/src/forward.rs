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
use meridian_base::median;
use meridian_fleet::{Fleet, GatewaySpec, LoadSpec, PeersSpec};
use serde::Serialize;

use ground::{Spaces, THERE};
use meridian_tools::json_file;
use meridian_tools::load::Record;
use meridian_tools::load::table;

/// Prompts.
const PROMPTS: [(&str, u32); 3] = [("short", 100), ("64 KB", 64 << 10), ("1 MB", 1 << 20)];
/// Requests at the start of a block that do not count: connections open, windows grow.
const FIRST: usize = 5;
/// Safety timeout.
const LIMIT: Duration = Duration::from_secs(120);

/// Options of the measurement, and the path of its results.
#[derive(Clone, Debug)]
pub struct Options {
    /// One-way delay.
    pub delay: Duration,
    /// Rounds; each has a block of requests for each way in turn.
    pub rounds: u32,
    /// Requests of a block.
    pub requests: u32,
    /// Output file.
    pub json: PathBuf,
}

/// One prompt's medians, in ms.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    unit: &'static str,
    direct: f64,
    from_afar: f64,
    forwarded: f64,
    round_trip: f64,
    /// Forwarded minus direct minus round trip.
    value: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    commit: String,
    delay_ms: f64,
    rows: Vec<Row>,
}

/// Measures, prints the table, writes the file.
///
/// # Errors
/// If namespaces cannot be created, which the message says clearly, or a process fails.
pub fn measure(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rows = runtime.block_on(rows(options)).context(
        "NOTHING WAS MEASURED: the cost of a forward over kernel TCP needs two network namespaces",
    )?;
    let delay_ms = options.delay.as_secs_f64() * 1e3;
    let report = Report { bench: "forward", commit: meridian_tools::commit(), delay_ms, rows };
    print(&report);
    json_file::write(&report, &options.json)
}

/// Namespace and gateway, 0 near and 1 far: a short prompt directly and from the near namespace;
/// then the prompt under test directly, from the near namespace and forwarded.
const WAYS: [(usize, usize); 5] = [(1, 1), (0, 1), (1, 1), (0, 1), (0, 0)];
/// How many of them have the short prompt.
const SHORT: usize = 2;

async fn rows(options: &Options) -> anyhow::Result<Vec<Row>> {
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
    let mut rows: Vec<Row> = Vec::new();
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
        let value = forwarded - direct - round_trip;
        rows.push(Row { name, unit: "ms", direct, from_afar, forwarded, round_trip, value });
    }
    Ok(rows)
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

fn print(report: &Report) {
    let header = ["prompt", "direct", "from afar", "forwarded", "round trip", "over, ms"];
    let mut table = table::table(&header);
    for row in &report.rows {
        let times = [row.direct, row.from_afar, row.forwarded, row.round_trip];
        let shown = times.map(|ms| format!("{ms:.2}"));
        table.add_row(
            [row.name.to_owned()].into_iter().chain(shown).chain([format!("{:+.2}", row.value)]),
        );
    }
    println!(
        "time to the first token, ms, at the median; {} ms a way between two network namespaces\n\
         {table}\nover = forwarded - direct - round trip; the target is at most 1 ms",
        report.delay_ms
    );
}
