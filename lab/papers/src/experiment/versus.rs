//! Our default policy against the field: every policy in every topology on every workload.
//!
//! The file adds only a clairvoyant scheduler at several weights. This code adds the published
//! defaults of every policy in every topology, from the registry, so that a new policy is included automatically, and the
//! tuned ones (`experiments/tuned.yaml`), which ours must beat.
//!
//! On each metric ours is first, or within 1 % of first, or behind; the tables show by how much and
//! behind which system, and the file may give the cause. The *best known* value of a metric is the
//! best of all that ran, clairvoyant schedules included, and the tables name whose it is. A
//! better schedule may exist: nothing here proves the contrary.

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
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
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
    let what = format!(
        "our default is first or within {:.0} % of first, every workload and metric",
        SAME * 100.0
    );
    Claim::target(&what, held, all.len())
}

#[cfg(test)]
mod tests;
