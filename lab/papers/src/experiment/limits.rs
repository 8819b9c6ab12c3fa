//! What each arrangement of gateways costs, where papers say so without a figure.
//!
//! Most parts are ordinary cells: workloads with outages, residency rules, other prompts or fleets,
//! each under the systems that it names. Two parts are of another kind: how many requests one
//! gateway can decide ([`ceiling`]), and what gateways send to know the replicas ([`probes`]).

mod ceiling;
mod probes;

use super::plan::Plan;
use super::values::Values;
use super::{Context, Findings, cells};

/// The experiment.
///
/// # Errors
/// If the file is invalid, or a plot can't be drawn.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = Plan::new(&context.spec, context.quick)?;
    let grid = cells::simulate(context, &plan)?;
    let sent = probes::measure(context)?;
    let figure = probes::figure(&sent)?;
    let messages = Values { rows: sent.clone() }.results();
    let computed = ceiling::rows(context, &plan)?.into_iter().chain(sent).collect();
    let mut found = cells::findings_with(context, &grid, computed)?;
    found.figures.push(figure);
    found.rows.extend(messages);
    Ok(found)
}
