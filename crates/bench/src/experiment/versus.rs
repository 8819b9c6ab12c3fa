//! Our default policy against the field: every policy in every topology on every workload.
//!
//! The file adds only the oracle's settings. This code adds the published defaults of every policy
//! in every topology, from the registry, so that a new policy is included automatically, and the
//! tuned ones (`experiments/tuned.yaml`), which ours must beat.
//!
//! On each metric ours is first, or within 1 % of first, or behind; the tables show by how much and
//! behind which system, and the file may give the cause. The oracle of a metric is the best of its
//! own settings and of every system, so no system beats it; the distance to it is the possible
//! gain.

pub(super) mod field;
pub(super) mod marks;
mod singles;
mod tables;

use super::cells::{self, findings, simulate};
use super::claim::Claim;
use super::plan::Plan;
use super::{Context, Findings};
use marks::{Mark, SAME};

/// Runs the comparison.
///
/// # Errors
/// If the YAML is invalid.
pub(super) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let mut spec = context.spec.clone();
    spec.systems.extend(field::all());
    let plan = Plan::new(&spec, context.quick)?;
    tables::check(&spec, &Plan::new(&spec, false)?)?;
    let grid = simulate(context, &plan)?;
    let mut found = findings(context, &grid)?;
    let marks: Vec<Mark> =
        grid.groups().iter().flat_map(|group| marks::of_group(&grid, group)).collect();
    let mut tables = vec![
        tables::summary(&marks, context.seeds),
        singles::table(&grid),
        tables::by_workload(&marks),
        tables::by_cause(&marks, &spec.exceptions),
        tables::behind(&marks, &spec.exceptions, context.seeds),
    ];
    tables.extend(grid.groups().iter().map(|group| tables::distance(&grid, group)));
    let show: Vec<&str> = spec.show.iter().map(String::as_str).collect();
    let leading = marks::leading(&grid);
    tables.extend(cells::tables_of(&grid, &show, context.seeds > 1, |cell| leading[cell]));
    found.tables = tables;
    found.claims.push(verdict(&marks));
    Ok(found)
}

fn verdict(marks: &[Mark]) -> Claim {
    let all: Vec<&Mark> = marks.iter().filter(|m| m.topology.is_none()).collect();
    let held = all.iter().filter(|m| m.holds()).count();
    let mut claim = Claim::about(
        &format!(
            "our default is first or within {:.0} % of first, every workload and metric",
            SAME * 100.0
        ),
        "the target",
        format!("{} of {}", all.len(), all.len()),
        format!("{held} of {}", all.len()),
        held == all.len(),
    );
    claim.agree = (held, all.len());
    claim
}

#[cfg(test)]
mod tests;
