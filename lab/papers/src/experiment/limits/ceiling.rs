//! How many requests a second one gateway for all regions can take.
//!
//! Two limits: its routing machine, which decides about one request at a time, and the processor
//! that carries their bytes. The time of a decision is measured in this process, at the size of the
//! fleet; the processor's time of a request is the one that `./x bench gateway` measured.

use anyhow::Context as _;
use meridian_perf::decision;

use crate::experiment::Context;
use crate::experiment::plan::Plan;
use crate::experiment::values::Row;

/// Replicas of the fleets.
const FLEETS: [u16; 3] = [12, 100, 1000];
/// Blocks that a replica has cached, in the mean.
const BLOCKS: usize = 1000;
/// Decisions of each measurement.
const SAMPLES: usize = 5000;

/// A row for each limit.
///
/// # Errors
/// When a knob is missing, or the workload `steady`.
pub(super) fn rows(context: &Context<'_>, plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let cpu_us = context.knob("gateway_cpu_us")?;
    let each = replica_rps(plan).context("workloads: there is none called steady with rates")?;
    let row = |limit: &str, us: f64| {
        let rate = 1e6 / us;
        Row::new(limit, "one gateway for all", "")
            .with("us_a_request", [us])
            .with("gateway_rps", [rate])
            .with("replica_rps", [each])
            .with("replicas_needed", [rate / each])
    };
    let mut rows = Vec::new();
    for replicas in FLEETS {
        let us = match context.quick {
            true => context.knob("decision_us")?,
            false => decision::wait_us(replicas, BLOCKS * usize::from(replicas), SAMPLES)?,
        };
        let known = f64::from(replicas);
        rows.push(row("decisions, one at a time", us).with("replicas_known", [known]));
    }
    rows.push(row("a core that carries the bytes", cpu_us));
    Ok(rows)
}

/// Requests a second of a replica in the workload `steady`.
fn replica_rps(plan: &Plan) -> Option<f64> {
    let (workload, _) = plan.workloads.iter().find(|(workload, _)| workload.name == "steady")?;
    let rates = workload.loads.first()?.rates(workload.level)?;
    let fleet = plan.fleets.iter().find(|fleet| workload.fleets.contains(&fleet.name))?;
    Some(rates.iter().sum::<f64>() / fleet.replicas() as f64)
}
