//! Measures the flow machine's decisions (the three primitives, a layer, a pass), and the simulated
//! network and cluster.
//!
//! One thread, no sockets: the machine as a daemon would drive it, with 10,000 live flows of 200
//! batches over 400 ports. A tenth of them are collectives, the rest are fetches and handoffs of
//! four requests a batch, each with a plan for 16 ports. Flows end and others reuse their rows in
//! random order, so the data touched is seldom in the processor's caches.
//!
//! Each timing covers one input and the polls that empty the outputs, including the clock's own
//! cost. Operations of milliseconds are timed in CPU time, which other programs do not affect.

mod cluster;
mod gate;
mod network;
mod prefill;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use meridian_base::Duration;
use meridian_flow::{Config, Input, Output, policy};
use serde::Serialize;

use self::cluster::Cluster;
use crate::decision::{Quantiles, Row, bounded, print, row, sample};
use meridian_tools::json_file;

/// Sizes of the measurement, and the path of its results.
#[derive(Clone, Debug)]
pub struct Options {
    /// The policy.
    pub policy: String,
    /// Live flows.
    pub flows: u32,
    /// Operations timed of each kind.
    pub samples: usize,
    /// Seed of flows and order.
    pub seed: u64,
    /// The path of the results.
    pub json: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            policy: "mfs".into(),
            flows: 10_000,
            samples: 100_000,
            seed: 1,
            json: PathBuf::from("target/bench/flow.json"),
        }
    }
}

/// A run's figures, as written to the file.
#[derive(Clone, Debug, Serialize)]
struct Report {
    bench: &'static str,
    commit: String,
    policy: String,
    flows: u32,
    seed: u64,
    rows: Vec<Row>,
}

/// Measures, prints the table, writes the file.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut rows = primitives(options)?;
    rows.extend(layers(options)?);
    rows.extend(passes(options)?);
    rows.extend(gate::rows(options)?);
    rows.extend(network::rows(options)?);
    rows.extend(prefill::rows(options)?);
    print(&rows);
    let Options { policy, flows, seed, json, .. } = options;
    let (commit, policy) = (meridian_tools::commit(), policy.clone());
    let report = Report { bench: "flow", commit, policy, flows: *flows, seed: *seed, rows };
    json_file::write(&report, json)
}

fn config(options: &Options) -> anyhow::Result<Config> {
    let name = &options.policy;
    let known = || policy::ALL.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
    let spec = policy::find(name)
        .with_context(|| format!("--policy {name} is unknown: use one of {}", known()))?;
    let mut config = Config::new(spec);
    config.limits.flows = options.flows + options.flows / 4;
    Ok(config)
}

/// Submit, ask and completion with all flows live.
fn primitives(options: &Options) -> anyhow::Result<Vec<Row>> {
    let mut cluster = Cluster::new(config(options)?, options.seed, 200, 400)?;
    cluster.fill(options.flows)?;
    let (mut submits, mut asks, mut ends) = (vec![], vec![], vec![]);
    for nth in 0..options.samples + options.samples / 20 {
        cluster.now = cluster.now + Duration::from_micros(1);
        let (old, new) = cluster.turnover();
        let id = new.id;
        let (end, _) = timed(&mut cluster, |_| old);
        let (submit, outputs) = timed(&mut cluster, |_| Input::Submit(new));
        anyhow::ensure!(matches!(outputs, Some(Output::Placed { .. })), "a flow was not placed");
        let (ask, _) = timed(&mut cluster, |_| Input::Ask { flow: id, bytes: 1 << 18 });
        if nth >= options.samples / 20 {
            submits.push(submit);
            asks.push(ask);
            ends.push(end);
        }
        cluster.flows.handle_timeout(cluster.now);
        while cluster.flows.poll().is_some() {}
    }
    let mut rows = vec![row("live flows", "flows", f64::from(cluster.flows.len()))];
    for (names, times) in [
        (["submit, p50", "submit, p99"], submits),
        (["ask, p50", "ask, p99"], asks),
        (["last completion, p50", "last completion, p99"], ends),
    ] {
        let times = Quantiles::of(times);
        rows.push(bounded(names[0], "us", times.p50, 1.0));
        rows.push(bounded(names[1], "us", times.p99, 10.0));
    }
    Ok(rows)
}

/// Times one input with its outputs; returns the first of these.
fn timed(
    cluster: &mut Cluster,
    input: impl FnOnce(&Cluster) -> Input,
) -> (Duration, Option<Output>) {
    let input = input(cluster);
    let start = Instant::now();
    cluster.flows.handle(cluster.now, input);
    let first = cluster.flows.poll();
    while cluster.flows.poll().is_some() {}
    (start.elapsed(), first)
}

/// The start of a layer, with all its promotions; and the updates of a millisecond.
fn layers(options: &Options) -> anyhow::Result<Vec<Row>> {
    let mut cluster = Cluster::new(config(options)?, options.seed, 200, 400)?;
    cluster.fill(options.flows)?;
    let mut placed = 0_u64;
    let mut times = vec![];
    for layer in 1..60 {
        for batch in 0..200 {
            cluster.now = cluster.now + Duration::from_micros(20);
            let input = cluster.layer(batch, layer);
            let start = Instant::now();
            cluster.flows.handle(cluster.now, input);
            while cluster.flows.poll().is_some() {
                placed += 1;
            }
            times.push(start.elapsed());
        }
    }
    let each = placed as f64 / times.len() as f64;
    let times = Quantiles::of(times);
    cluster.depart_all();
    let mut now = cluster.now;
    let updates = sample(200, || {
        now = now + Duration::from_millis(1);
        let start = processor();
        cluster.flows.handle_timeout(now);
        while cluster.flows.poll().is_some() {}
        processor() - start
    });
    Ok(vec![
        row("layer of a batch of 50 flows, p50", "us", times.p50),
        row("layer of a batch of 50 flows, p99", "us", times.p99),
        row("flows placed by a layer", "flows", each),
        row("updates of 800 requests without layers, p50", "us", updates.p50),
    ])
}

/// CPU time of this thread.
fn processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// A batch that arrives among 1,000 with 2,000 ports: all are ordered and checked again.
fn passes(options: &Options) -> anyhow::Result<Vec<Row>> {
    let mut cluster = Cluster::new(config(options)?, options.seed, 1000, 2000)?;
    let times = sample(200, || {
        cluster.now = cluster.now + Duration::from_micros(500);
        let (gone, new) = cluster.next_batch();
        cluster.flows.handle(cluster.now, gone);
        while cluster.flows.poll().is_some() {}
        let start = processor();
        cluster.flows.handle(cluster.now, new);
        while cluster.flows.poll().is_some() {}
        processor() - start
    });
    Ok(vec![
        bounded("pass, 1,000 batches, 2,000 ports, p50", "us", times.p50, 5000.0),
        bounded("pass, 1,000 batches, 2,000 ports, p99", "us", times.p99, 5000.0),
    ])
}
