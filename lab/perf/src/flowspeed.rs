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
use clap::value_parser;
use meridian_base::Duration;
use meridian_flow::{Config, Input, Output, policy};
use serde_json::json;

use self::cluster::Cluster;
use crate::harness::{Quantiles, Results, cpu_time, sample};

/// Sizes of the measurement, and the path of its results.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Policy
    #[arg(long, default_value = "mfs")]
    policy: String,
    /// Live flows
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1000..=1_000_000))]
    flows: u32,
    /// Output file
    #[arg(long, default_value = "target/bench/flow.json")]
    json: PathBuf,
}

/// Operations timed of each kind.
const SAMPLES: usize = 100_000;
/// Operations before them that do not count.
const WARM_UP: usize = SAMPLES / 20;
/// Seed of flows and order.
const SEED: u64 = 1;

/// Measures, prints the table, writes the file.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let settings = json!({"policy": options.policy, "flows": options.flows, "seed": SEED});
    let mut results = Results::new("flow", settings, &options.json)?;
    primitives(options, &mut results)?;
    layers(options, &mut results)?;
    passes(options, &mut results)?;
    gate::measure(options, &mut results)?;
    network::measure(&mut results)?;
    prefill::measure(options, &mut results)?;
    results.finish()
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
fn primitives(options: &Options, results: &mut Results) -> anyhow::Result<()> {
    let mut cluster = Cluster::new(config(options)?, SEED, 200, 400)?;
    cluster.fill(options.flows)?;
    let (mut submits, mut asks, mut ends) = (vec![], vec![], vec![]);
    for nth in 0..SAMPLES + WARM_UP {
        cluster.now = cluster.now + Duration::from_micros(1);
        let (old, new) = cluster.turnover();
        let id = new.id;
        let (end, _) = timed(&mut cluster, |_| old);
        let (submit, outputs) = timed(&mut cluster, |_| Input::Submit(new));
        anyhow::ensure!(matches!(outputs, Some(Output::Placed { .. })), "a flow was not placed");
        let (ask, _) = timed(&mut cluster, |_| Input::Ask { flow: id, bytes: 1 << 18 });
        if nth >= WARM_UP {
            submits.push(submit);
            asks.push(ask);
            ends.push(end);
        }
        cluster.flows.handle_timeout(cluster.now);
        while cluster.flows.poll().is_some() {}
    }
    results.add("live flows", "flows", f64::from(cluster.flows.len()));
    for (name, times) in [("submit", submits), ("ask", asks), ("last completion", ends)] {
        results.times(name, &Quantiles::of(&times), [Some(1.0), Some(10.0)]);
    }
    Ok(())
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
fn layers(options: &Options, results: &mut Results) -> anyhow::Result<()> {
    let mut cluster = Cluster::new(config(options)?, SEED, 200, 400)?;
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
    let layer = Quantiles::of(&times);
    cluster.depart_all();
    let mut now = cluster.now;
    let updates = sample(200, || {
        now = now + Duration::from_millis(1);
        let start = cpu_time();
        cluster.flows.handle_timeout(now);
        while cluster.flows.poll().is_some() {}
        cpu_time() - start
    });
    results.times("layer of a batch of 50 flows", &layer, [None; 2]);
    results.add("flows placed by a layer", "flows", each);
    results.add("updates of 800 requests without layers, p50", "us", updates.p50);
    Ok(())
}

/// A batch that arrives among 1,000 with 2,000 ports: all are ordered and checked again.
fn passes(options: &Options, results: &mut Results) -> anyhow::Result<()> {
    let mut cluster = Cluster::new(config(options)?, SEED, 1000, 2000)?;
    let times = sample(200, || {
        cluster.now = cluster.now + Duration::from_micros(500);
        let (gone, new) = cluster.next_batch();
        cluster.flows.handle(cluster.now, gone);
        while cluster.flows.poll().is_some() {}
        let start = cpu_time();
        cluster.flows.handle(cluster.now, new);
        while cluster.flows.poll().is_some() {}
        cpu_time() - start
    });
    results.times("pass, 1,000 batches, 2,000 ports", &times, [Some(5000.0); 2]);
    Ok(())
}
