//! Measures the cost of a control plane: on a file, and on an etcd of three members.
//!
//! The control plane is the real program, without TLS. Simulated gateways ([`fleet`]) do what real
//! ones do: each registers, renews its lease every third of it with a report on its replicas, whose
//! loads change each time, and follows the watch. Each request has its own connection. The processor
//! time and the memory are those of the processes, as the kernel counts them.

mod fleet;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::value_parser;
use meridian_fleet::etcd::Etcd;
use meridian_fleet::{Client, Control, ControlSpec, Fleet};
use meridian_protocol::registry::Status;
use meridian_tools::load::seconds;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::Results;
use crate::race::process::{cpu_of, memory_of};
use fleet::{Gateways, LEASE};

/// Sizes of the measurement, and the path of its results.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Gateways, each in its own region
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u16).range(1..=200))]
    gateways: u16,
    /// Replicas of each gateway
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u16).range(1..=1000))]
    replicas: u16,
    /// Length of a measurement
    #[arg(long, default_value = "60s", value_parser = seconds)]
    each: Duration,
    /// Output file
    #[arg(long, default_value = "target/bench/control.json")]
    json: PathBuf,
}

/// Members of etcd.
const MEMBERS: usize = 3;
/// Leases before a measurement: every gateway has registered, and every replica was seen.
const WARM_UP: u32 = 3;

/// Measures, prints the table, writes the file.
///
/// # Errors
/// If a program cannot be started, or a request fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let Options { gateways, replicas, each, .. } = *options;
    ensure!(each >= LEASE, "each: {each:?} is too short; use {LEASE:?} or more");
    let settings = json!({
        "gateways": gateways, "replicas": replicas, "lease_s": LEASE.as_secs(),
        "seconds": each.as_secs(),
    });
    let mut results = Results::new("control", settings, &options.json)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for (name, members) in [("file", 0), ("etcd", MEMBERS)] {
        results.case(name);
        runtime.block_on(measure(options, members, &mut results))?;
    }
    results.finish()
}

/// One control plane, with its store.
async fn measure(options: &Options, members: usize, results: &mut Results) -> anyhow::Result<()> {
    let fleet = Fleet::of_this_program()?;
    let etcd = match members {
        0 => None,
        members => Some(fleet.etcd(members).await?),
    };
    let spec = ControlSpec {
        name: "control".into(),
        admin: "127.0.0.1:0".into(),
        etcd: etcd.as_ref().map(Etcd::endpoints).unwrap_or_default(),
        further: String::new(),
        certificates: None,
    };
    let control = fleet.control(&spec).await?;
    let gateways = Gateways::start(options, &control.admin).await?;
    tokio::time::sleep(LEASE * WARM_UP).await;
    let (began, before) = (Instant::now(), read(&control, etcd.as_ref()).await?);
    let counted = gateways.counts();
    tokio::time::sleep(options.each).await;
    let (seconds, after) = (began.elapsed(), read(&control, etcd.as_ref()).await?);
    let counts = gateways.counts().since(counted);
    ensure!(
        counts.failed == 0,
        "{} renewals failed, the last one: {}",
        counts.failed,
        gateways.why()
    );
    let per_second = |count: u64| count as f64 / seconds.as_secs_f64();
    let followers = f64::from(options.gateways);
    let [p50, p99] = gateways.renewals(began);
    results.add("renewals", "1/s", per_second(counts.renewed));
    results.add("p50", "ms", p50);
    results.add("p99", "ms", p99);
    results.add("writes", "1/s", per_second(after.revision - before.revision));
    results.add("events to a follower", "1/s", per_second(counts.events) / followers);
    results.add("bytes to a follower", "B/s", per_second(counts.bytes) / followers);
    let mut used = |what: &str, now: Total, then: Total| {
        let share = (now.cpu - then.cpu).as_secs_f64() / seconds.as_secs_f64();
        results.add(what, "% of a core", share * 100.0);
        results.add(format!("{what}, peak"), "MB", now.peak_bytes as f64 / 1e6);
    };
    used("control plane", after.control, before.control);
    if etcd.is_some() {
        used("etcd", after.etcd, before.etcd);
    }
    Ok(())
}

/// What the processes have used, and the store's revision.
struct Reading {
    revision: u64,
    control: Total,
    etcd: Total,
}

/// Used so far by processes together.
#[derive(Default)]
struct Total {
    cpu: Duration,
    peak_bytes: u64,
}

impl Total {
    fn of(pids: impl IntoIterator<Item = u32>) -> Total {
        pids.into_iter().fold(Total::default(), |total, pid| Total {
            cpu: total.cpu + cpu_of(pid).unwrap_or_default(),
            peak_bytes: total.peak_bytes + memory_of(pid).1,
        })
    }
}

async fn read(control: &Control, etcd: Option<&Etcd>) -> anyhow::Result<Reading> {
    let status: Status = Client::new().json(&format!("{}/admin/status", control.admin)).await?;
    let members = etcd.into_iter().flat_map(|etcd| &etcd.members);
    let members = members.filter_map(|member| member.process.as_ref()?.id());
    let pid = control.process.id().context("the control plane has ended")?;
    Ok(Reading { revision: status.revision, control: Total::of([pid]), etcd: Total::of(members) })
}
