//! Measures an event of a simulated cluster at the scale of MFS: 32 prefill replicas of 32 GPUs and
//! as many for decode, with everything between a request and its first token.

use anyhow::Context;
use meridian_sim::cluster;

use super::{Options, processor};
use crate::decision::{Row, row};
use meridian_tools::cluster::File;
use meridian_tools::cluster::file::Uplinks;
use meridian_tools::cluster::setup;

const CLUSTER: &str = include_str!("../../../../experiments/clusters/mixtral-8x22b.yaml");

/// Events and flows per second of CPU time.
pub(super) fn rows(options: &Options) -> anyhow::Result<Vec<Row>> {
    let mut file = File::read(CLUSTER)?;
    (file.servers, file.requests) = (256, 1024);
    // Only cards are ports then: the speed of the cluster, not of the network around it.
    file.uplinks = Uplinks::Pooled;
    let served = file.models.first_mut().context("the file serves a model")?;
    served.prefill = 32;
    let setup = setup(&file, &options.policy, options.seed)?;
    let start = processor();
    let report = cluster::run(&setup)?;
    let seconds = (processor() - start).as_secs_f64();
    Ok(vec![
        row("cluster of 256 x 8 GPUs, 1,024 requests", "s", seconds),
        row("cluster of 256 x 8 GPUs", "events/s", report.events as f64 / seconds),
        row("cluster of 256 x 8 GPUs", "flows/s", report.flows as f64 / seconds),
    ])
}
