//! The goal for our default policy: no system dominates it, and its score is the best or level with
//! the best, on workloads that are hard on routing and at several levels of load.
//!
//! A cell is a workload at a level on its fleet. The score of a system there is the geometric mean
//! of the inverse of throughput, mean TTFT, P90 TTFT and mean E2E, and less is better. The best
//! rival is the single system with the best score in that cell, over the seeds; it is chosen on the
//! seeds that it is compared on, which favours it a little. A system dominates ours if it is better
//! by more than 1 % on all four metrics at once.
//!
//! The file names the systems as `meridian-vs-all` does, so a copy of it with fewer names, levels
//! or workloads runs a part of the goal. A weighted sum of TTFT and E2E is not judged here: the
//! plots show the points of all systems.

use anyhow::Context as _;
use meridian_tools::plot::{self, Figure, Point};

use super::cells::{findings, simulate};
use super::duels::{self, Duel};
use super::grid::Grid;
use super::plan::Plan;
use super::spec::{Ref, System};
use super::versus::field;
use super::{Context, Findings};

/// Runs the systems and counts where ours stands.
///
/// # Errors
/// What is wrong with the YAML; a workload of neither half; no system of ours.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let mut spec = context.spec.clone();
    spec.systems = named(&spec.systems);
    judge(context, &Plan::new(&spec, context.quick)?)
}

/// Runs `plan` and counts where ours stands.
///
/// # Errors
/// A workload of neither half; no system of ours.
pub(super) fn judge(context: &Context<'_>, plan: &Plan) -> anyhow::Result<Findings> {
    let spec = &context.spec;
    let compared = spec.duels.as_ref().context("duels: missing; name the system of ours")?;
    duels::check(compared, plan)?;
    let grid = simulate(context, plan)?;
    let mut found = findings(context, &grid)?;
    // Without the tables of all systems: they are too many.
    found.tables = duels::findings(spec, &grid)?.0;
    let all = duels::all(&grid, compared);
    for of_cell in all.chunk_by(|a, b| a.own == b.own) {
        found.figures.push(figure(&grid, of_cell)?);
    }
    Ok(found)
}

/// The systems with names of the comparison's field in place of references to the catalogue.
pub(super) fn named(systems: &[Ref<System>]) -> Vec<Ref<System>> {
    let known = field::all();
    let resolve = |one: &Ref<System>| {
        let is = |system: &&Ref<System>| match (one, system) {
            (Ref::Named(name), Ref::Own(own)) => own.name == *name,
            _ => false,
        };
        known.iter().find(is).unwrap_or(one).clone()
    };
    systems.iter().map(resolve).collect()
}

/// Mean TTFT against mean E2E: a point for each system that answers, in the colour of its policy.
fn figure(grid: &Grid<'_>, of_cell: &[Duel]) -> anyhow::Result<Figure> {
    let mut policies: Vec<plot::Line> = Vec::new();
    let own = of_cell[0].own;
    for cell in std::iter::once(own).chain(of_cell.iter().map(|duel| duel.other)) {
        let policy = grid.plan.systems[grid.cells[cell].system].1.name;
        let mean = |metric| grid.named(cell, metric);
        let (Some(ttft), Some(e2e)) = (mean("ttft_ms.mean"), mean("e2e_ms.mean")) else { continue };
        let point = Point { x: ttft.mean, mean: e2e.mean, low: e2e.low, high: e2e.high };
        match policies.iter_mut().find(|(name, _)| name == policy) {
            Some((_, points)) => points.push(point),
            None => policies.push((policy.to_owned(), vec![point])),
        }
    }
    let (workload, fleet) = (grid.plan.workload(grid.cells[own]), grid.plan.fleet(grid.cells[own]));
    let title = format!("TTFT and E2E ({workload} on {fleet}, simulated)");
    let svg = plot::points(&title, ["mean TTFT, ms", "mean E2E, ms"], &policies, [true; 2])?;
    Ok(Figure::new(&["ttft-e2e", workload, fleet], title, svg))
}

#[cfg(test)]
mod tests;
