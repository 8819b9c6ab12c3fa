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

mod standing;
mod tables;

use anyhow::bail;
use meridian_tools::plot::{self, Figure, Point};

use super::ablation::halves;
use super::cells::{findings, simulate};
use super::claim::Claim;
use super::grid::Grid;
use super::plan::Plan;
use super::spec::{Ref, System, Topology};
use super::versus::{field, marks};
use super::{Context, Findings};
use standing::Standing;

pub(super) use standing::{Verdict, better, ratio};

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
    halves(plan)?;
    let ours = |system: &System, policy: &str| {
        policy == marks::OURS && system.topology == Topology::TwoLayer
    };
    if !plan.systems.iter().any(|(system, policy, _)| ours(system, policy.name)) {
        bail!("systems: `{}@two_layer` is missing; name it", marks::OURS);
    }
    let grid = simulate(context, plan)?;
    // Without a rival that answers, a cell has nothing to compare with.
    let standings: Vec<Standing> =
        grid.groups().iter().filter_map(|group| Standing::of(&grid, group)).collect();
    let mut found = findings(context, &grid)?;
    let mut tables = vec![tables::summary(&grid, &standings), tables::dominated(&grid, &standings)];
    tables.push(tables::cells(&grid, &standings));
    tables.extend(standings.iter().map(|standing| tables::cell(&grid, standing)));
    found.tables = tables;
    found.claims = claims(&standings);
    for standing in &standings {
        found.figures.push(figure(&grid, standing)?);
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

fn claims(standings: &[Standing]) -> Vec<Claim> {
    let all = standings.len();
    let free = standings.iter().filter(|s| s.dominated.is_none()).count();
    let held = standings.iter().filter(|s| s.verdict() != Verdict::Behind).count();
    vec![
        Claim::target("no system is better than ours on all four metrics at once", free, all),
        Claim::target("the score of ours is the best, or level with the best", held, all),
    ]
}

/// Mean TTFT against mean E2E: a point for each system that answers, in the colour of its policy.
fn figure(grid: &Grid<'_>, standing: &Standing) -> anyhow::Result<Figure> {
    let mut policies: Vec<plot::Line> = Vec::new();
    let rivals = marks::field(grid, &standing.group);
    for cell in std::iter::once(standing.own).chain(rivals) {
        let policy = grid.plan.systems[grid.cells[cell].system].1.name;
        let mean = |metric| grid.named(cell, metric);
        let (Some(ttft), Some(e2e)) = (mean("ttft_ms.mean"), mean("e2e_ms.mean")) else { continue };
        let point = Point { x: ttft.mean, mean: e2e.mean, low: e2e.low, high: e2e.high };
        match policies.iter_mut().find(|(name, _)| name == policy) {
            Some((_, points)) => points.push(point),
            None => policies.push((policy.to_owned(), vec![point])),
        }
    }
    let (workload, fleet) = standing.place(grid);
    let title = format!("TTFT and E2E ({workload} on {fleet}, simulated)");
    let svg = plot::points(&title, ["mean TTFT, ms", "mean E2E, ms"], &policies, [true; 2])?;
    Ok(Figure::new(&["ttft-e2e", workload, fleet], title, svg))
}

#[cfg(test)]
mod tests;
