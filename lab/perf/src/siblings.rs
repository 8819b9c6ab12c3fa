//! Measures what a request costs gateways of one region that tell each other of it, beside a gateway
//! alone.
//!
//! A gateway alone, one with 2 and one with 8 siblings stand before one replica that answers at once.
//! In each round each gets the same requests, so a drift of the machine affects all. The siblings get
//! none: their CPU time is that of hearing, the gateway's own that of serving and telling. Where requests
//! are spread evenly, one costs the region the gateway's share and that of each sibling.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::value_parser;
use meridian_base::median;
use meridian_fleet::{
    Certificates, Client, Fleet, Gateway, GatewaySpec, LoadSpec, PeersSpec, free_port,
};
use meridian_protocol::admin::Status;
use serde_json::json;

use crate::harness::Results;
use crate::race::process::cpu_of;

/// Siblings of the gateways that are compared.
const SIBLINGS: [usize; 3] = [0, 2, 8];
/// Sizes of a prompt, in bytes.
const PROMPTS: [(&str, u32); 2] = [("400 B", 400), ("16 KB", 16 << 10)];
/// Concurrent requests.
const CLIENTS: &str = "16";
/// Safety timeout.
const LIMIT: Duration = Duration::from_secs(120);

/// Options of the measurement, and the path of its results.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Rounds after the warm-up; in each, each gateway gets a block of requests
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Requests in a block
    #[arg(long, default_value_t = 5_000, value_parser = value_parser!(u32).range(100..=1_000_000))]
    requests: u32,
    /// Output file
    #[arg(long, default_value = "target/bench/siblings.json")]
    json: PathBuf,
}

/// Measures, prints the table, writes the file.
///
/// # Errors
/// If a process can't be started, or a request fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let settings = json!({"rounds": options.rounds, "requests": options.requests});
    let mut results = Results::new("siblings", settings, &options.json)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(options, &mut results))?;
    results.finish()
}

/// Gateways of one region; the first gets all requests.
struct GatewayGroup {
    gateways: Vec<Gateway>,
    client: Client,
}

/// CPU time of a request, in us.
#[derive(Default)]
struct Cost {
    /// At the gateway that serves it.
    own: Vec<f64>,
    /// At each sibling.
    heard: Vec<f64>,
    /// Bytes to each sibling.
    bytes: f64,
}

async fn measure(options: &Options, results: &mut Results) -> anyhow::Result<()> {
    let fleet = Fleet::of_this_program()?;
    let mock = fleet.meridian("mock", ["bench", "mock"], &["listening on "]).await?;
    let names = SIBLINGS.into_iter().flat_map(|all| (0..=all).map(move |at| name(all, at)));
    let names: Vec<_> = names.collect();
    let certificates = fleet.certificates(&names).await?;
    let mut regions = Vec::new();
    for siblings in SIBLINGS {
        regions.push(GatewayGroup::start(&fleet, &certificates, siblings, mock.said(0)).await?);
    }
    for (prompt, bytes) in PROMPTS {
        let mut costs: [Cost; SIBLINGS.len()] = Default::default();
        for round in 0..=options.rounds {
            for (region, cost) in regions.iter().zip(&mut costs) {
                let mut warm_up = Cost::default();
                let cost = if round == 0 { &mut warm_up } else { cost };
                region.block(&fleet, options.requests, bytes, cost).await?;
            }
        }
        let median = |of: &[f64]| median(of).unwrap_or_default();
        let alone = median(&costs[0].own);
        for (siblings, cost) in SIBLINGS.iter().zip(&costs) {
            let (own, heard) = (median(&cost.own), median(&cost.heard));
            results.case(format!("{prompt}, {siblings} siblings"));
            results.add("the gateway's CPU", "us a request", own);
            results.add("each sibling's CPU", "us a request", heard);
            results.add("the gateway's, of one alone", "ratio", own / alone);
            let all = own + heard * *siblings as f64;
            results.add("of all gateways, of one alone", "ratio", all / alone);
            results.add("to each sibling", "B a request", cost.bytes);
        }
    }
    Ok(())
}

/// A gateway's name, and its region.
fn name(siblings: usize, at: usize) -> (String, String) {
    (format!("with-{siblings}-{at}"), format!("with-{siblings}"))
}

impl GatewayGroup {
    async fn start(
        fleet: &Fleet,
        certificates: &Certificates,
        siblings: usize,
        replica: &str,
    ) -> anyhow::Result<GatewayGroup> {
        let ports: Vec<u16> = (0..=siblings).map(|_| free_port()).collect::<Result<_, _>>()?;
        let address = |at: usize| std::net::SocketAddr::from(([127, 0, 0, 1], ports[at]));
        let mut gateways = Vec::new();
        for at in 0..=siblings {
            let (own, region) = name(siblings, at);
            let others = (0..=siblings).filter(|other| *other != at);
            let one = |other| (name(siblings, other).0, region.clone(), address(other));
            let (certificate, key) = certificates.of(&own);
            let peers = PeersSpec {
                listen: address(at).to_string(),
                files: [certificates.ca(), certificate, key],
                gateways: others.map(one).collect(),
                accept: Vec::new(),
                digests: None,
            };
            let spec = GatewaySpec {
                region: region.clone(),
                replicas: vec![replica.to_owned()],
                peers: (siblings > 0).then_some(peers),
                ..GatewaySpec::default()
            };
            gateways.push(fleet.gateway(&own, &spec).await?);
        }
        let region = GatewayGroup { gateways, client: Client::new() };
        let deadline = tokio::time::Instant::now() + LIMIT;
        for gateway in &region.gateways {
            let is_up = |status: &Status| {
                status.replicas.iter().all(|replica| replica.state == "up")
                    && status.peers.iter().all(|peer| peer.state == "up")
            };
            while !is_up(&region.status(gateway).await?) {
                ensure!(tokio::time::Instant::now() < deadline, "gateways do not find each other");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(region)
    }

    async fn status(&self, gateway: &Gateway) -> anyhow::Result<Status> {
        Ok(self.client.json(&format!("{}/admin/status", gateway.admin)).await?)
    }

    /// Sends a block of requests to the first gateway.
    async fn block(
        &self,
        fleet: &Fleet,
        requests: u32,
        bytes: u32,
        cost: &mut Cost,
    ) -> anyhow::Result<()> {
        let (number, bytes) = (requests.to_string(), bytes.to_string());
        let args = [
            ["--requests", &number],
            ["--clients", CLIENTS],
            ["--turns", "1"],
            ["--system-bytes", "16"],
            ["--question-bytes", &bytes],
            ["--max-tokens", "8"],
            ["--model", "mock"],
        ];
        let args = args.concat().iter().map(|arg| (*arg).to_owned()).collect();
        let spec = LoadSpec { url: self.gateways[0].url.clone(), duration: LIMIT, args };
        let (cpu, told) = (self.cpu()?, self.told().await?);
        let report = fleet.load("load", &spec).await?.report(LIMIT).await?;
        let counts = report.counts;
        ensure!(counts.ok == u64::from(requests), "requests failed: {counts:?}");
        let each = |all: f64| all / f64::from(requests);
        let now = self.cpu()?;
        let mut used =
            now.iter().zip(&cpu).map(|(now, then)| each((*now - *then).as_secs_f64() * 1e6));
        cost.own.extend(used.next());
        cost.heard.extend(used);
        cost.bytes = each((self.told().await? - told) as f64);
        Ok(())
    }

    fn cpu(&self) -> anyhow::Result<Vec<Duration>> {
        let one = |gateway: &Gateway| gateway.process.id().and_then(cpu_of);
        self.gateways.iter().map(|gateway| one(gateway).context("a gateway has ended")).collect()
    }

    /// Bytes that a sibling was told.
    async fn told(&self) -> anyhow::Result<u64> {
        let status = self.status(&self.gateways[0]).await?;
        Ok(status
            .peers
            .first()
            .and_then(|peer| peer.sibling)
            .map_or(0, |sibling| sibling.told_bytes))
    }
}
