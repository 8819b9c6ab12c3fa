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
use meridian_fleet::etcd::Etcd;
use meridian_fleet::{Client, Control, ControlSpec, Fleet};
use meridian_protocol::registry::Status;
use serde::Serialize;
use tokio::time::Instant;

use crate::race::process::{cpu_of, memory_of};
use fleet::{Gateways, LEASE};
use meridian_tools::json_file;
use meridian_tools::load::table;

/// Sizes of the measurement, and the path of its results.
#[derive(Clone, Debug)]
pub struct Options {
    /// Gateways, each in a region of its own.
    pub gateways: u16,
    /// Replicas of each gateway.
    pub replicas: u16,
    /// Length of a measurement.
    pub each: Duration,
    /// Output file.
    pub json: PathBuf,
}

/// Members of etcd.
const MEMBERS: usize = 3;
/// Leases before a measurement: every gateway has registered, and every replica was seen.
const WARM_UP: u32 = 3;

/// Used by processes together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Used {
    core_share: f64,
    /// The sum of each one's most resident memory.
    peak_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    renewals_per_second: f64,
    renewal_p50_ms: f64,
    renewal_p99_ms: f64,
    /// Revisions of the store.
    writes_per_second: f64,
    /// To one follower.
    events_per_second: f64,
    bytes_per_second: f64,
    control: Used,
    /// Of all members together.
    etcd: Option<Used>,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    commit: String,
    gateways: u16,
    replicas: u16,
    lease_s: u64,
    seconds: u64,
    rows: Vec<Row>,
}

/// Measures, prints the table, writes the file.
///
/// # Errors
/// If a program cannot be started, or a request fails.
pub fn measure(options: &Options) -> anyhow::Result<()> {
    ensure!(options.each >= LEASE, "each: {:?} is too short; use {LEASE:?} or more", options.each);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = Vec::new();
    for (name, members) in [("file", 0), ("etcd", MEMBERS)] {
        rows.push(runtime.block_on(row(options, name, members))?);
    }
    let report = Report {
        bench: "control",
        commit: meridian_tools::commit(),
        gateways: options.gateways,
        replicas: options.replicas,
        lease_s: LEASE.as_secs(),
        seconds: options.each.as_secs(),
        rows,
    };
    print(&report);
    json_file::write(&report, &options.json)
}

async fn row(options: &Options, name: &'static str, members: usize) -> anyhow::Result<Row> {
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
    Ok(Row {
        name,
        renewals_per_second: per_second(counts.renewed),
        renewal_p50_ms: p50,
        renewal_p99_ms: p99,
        writes_per_second: per_second(after.revision - before.revision),
        events_per_second: per_second(counts.events) / followers,
        bytes_per_second: per_second(counts.bytes) / followers,
        control: after.control.since(before.control, seconds),
        etcd: etcd.map(|_| after.etcd.since(before.etcd, seconds)),
    })
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

    fn since(&self, then: Total, passed: Duration) -> Used {
        let core_share = (self.cpu - then.cpu).as_secs_f64() / passed.as_secs_f64();
        Used { core_share, peak_bytes: self.peak_bytes }
    }
}

async fn read(control: &Control, etcd: Option<&Etcd>) -> anyhow::Result<Reading> {
    let status: Status = Client::new().json(&format!("{}/admin/status", control.admin)).await?;
    let members = etcd.into_iter().flat_map(|etcd| &etcd.members);
    let members = members.filter_map(|member| member.process.as_ref()?.id());
    let pid = control.process.id().context("the control plane has ended")?;
    Ok(Reading { revision: status.revision, control: Total::of([pid]), etcd: Total::of(members) })
}

fn print(report: &Report) {
    let header = [
        "",
        "renewals/s",
        "p50 ms",
        "p99 ms",
        "writes/s",
        "events/s to a follower",
        "B/s",
        "control plane, % of a core",
        "peak MB",
        "etcd, % of a core",
        "peak MB",
    ];
    let mut table = table::table(&header);
    let used = |of: Option<Used>| match of {
        None => ["-".to_owned(), "-".to_owned()],
        Some(used) => [
            format!("{:.1}", used.core_share * 100.0),
            format!("{:.0}", used.peak_bytes as f64 / 1e6),
        ],
    };
    for row in &report.rows {
        let ([cpu, peak], [etcd_cpu, etcd_peak]) = (used(Some(row.control)), used(row.etcd));
        table.add_row([
            row.name.to_owned(),
            format!("{:.1}", row.renewals_per_second),
            format!("{:.1}", row.renewal_p50_ms),
            format!("{:.1}", row.renewal_p99_ms),
            format!("{:.1}", row.writes_per_second),
            format!("{:.1}", row.events_per_second),
            format!("{:.0}", row.bytes_per_second),
            cpu,
            peak,
            etcd_cpu,
            etcd_peak,
        ]);
    }
    println!(
        "{} gateways with {} replicas each, a lease of {} s, {} s each; etcd has {MEMBERS} members, \
         together\n{table}",
        report.gateways, report.replicas, report.lease_s, report.seconds
    );
}
