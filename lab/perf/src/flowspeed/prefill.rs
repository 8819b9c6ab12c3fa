//! Measures an event of a simulated cluster at the scale of MFS: 32 prefill replicas of 32 GPUs and
//! as many for decode, with everything between a request and its first token.

use anyhow::Context;
use meridian_sim::cluster;
use meridian_tools::cluster::file::Uplinks;
use meridian_tools::cluster::{File, setup};

use super::{Options, SEED};
use crate::harness::{Results, cpu_time};

const CLUSTER: &str = include_str!("../../../../experiments/clusters/mixtral-8x22b.yaml");

/// Events and flows per second of CPU time.
pub(super) fn measure(options: &Options, results: &mut Results) -> anyhow::Result<()> {
    let mut file = File::read(CLUSTER)?;
    (file.servers, file.requests) = (256, 1024);
    // Only cards are ports then: the speed of the cluster, not of the network around it.
    file.uplinks = Uplinks::Pooled;
    let served = file.models.first_mut().context("the file serves a model")?;
    served.prefill = 32;
    let setup = setup(&file, &options.policy, SEED)?;
    let start = cpu_time();
    let report = cluster::run(&setup)?;
    let seconds = (cpu_time() - start).as_secs_f64();
    let (name, each) = ("cluster of 256 x 8 GPUs", |count: u64| count as f64 / seconds);
    results.add(format!("{name}, 1,024 requests"), "s", seconds);
    results.add(name, "events/s", each(report.events));
    results.add(name, "flows/s", each(report.flows));
    Ok(())
}
