//! How many requests a second one gateway for all regions can take.
//!
//! Two limits: its routing machine, which decides about one request at a time, and the processor
//! that carries their bytes. The time of a decision is measured in this process, at the size of the
//! fleet; the processor's time of a request is the one that `./x bench gateway` measured.

use anyhow::Context as _;
use meridian_perf::decision;
use meridian_tools::table::Table;

use crate::experiment::Context;
use crate::experiment::plan::Plan;

/// Replicas of the fleets.
const FLEETS: [u16; 3] = [12, 100, 1000];
/// Blocks that a replica has cached, in the mean.
const BLOCKS: usize = 1000;
/// Decisions of each measurement.
const SAMPLES: usize = 5000;

/// The table.
///
/// # Errors
/// When a knob is missing, or the workload `steady`.
pub(super) fn table(context: &Context<'_>, plan: &Plan) -> anyhow::Result<Table> {
    let cpu_us = context.knob("gateway_cpu_us")?;
    let each = replica_rps(plan).context("workloads: there is none called steady with rates")?;
    let title = format!(
        "One gateway for all: requests/s that it can take, and replicas that need as many ({each:.1} \
         each, in `steady`)"
    );
    let header =
        ["limit", "replicas known", "µs a request", "requests/s", "replicas that need as many"];
    let mut table = Table::new(title, &header);
    let mut row = |limit: &str, known: Option<u16>, us: f64| {
        let rate = 1e6 / us;
        table.row([
            limit.to_owned(),
            known.map_or(String::new(), |n| n.to_string()),
            format!("{us:.1}"),
            format!("{rate:.0}"),
            format!("{:.0}", rate / each),
        ]);
    };
    for replicas in FLEETS {
        let us = match context.quick {
            true => context.knob("decision_us")?,
            false => decision::wait_us(replicas, BLOCKS * usize::from(replicas), SAMPLES)?,
        };
        row("decisions, one at a time", Some(replicas), us);
    }
    row("a core that carries the bytes", None, cpu_us);
    Ok(table)
}

/// Requests a second of a replica in the workload `steady`.
fn replica_rps(plan: &Plan) -> Option<f64> {
    let (workload, _) = plan.workloads.iter().find(|(workload, _)| workload.name == "steady")?;
    let rates = workload.loads.first()?.rates(workload.level)?;
    let fleet = plan.fleets.iter().find(|fleet| workload.fleets.contains(&fleet.name))?;
    Some(rates.iter().sum::<f64>() / fleet.replicas() as f64)
}
