//! Capacities: the most that any of the file's systems answers a second when more is offered.
//!
//! A workload with a capacity runs at the file's `levels`, which lie above 1, so that the queues of
//! the run never empty; its row is the most over levels and systems, the mean over the seeds. Other
//! workloads run once, at the rates that the file gives. A fleet that keeps up with all of its
//! levels may have more: the row says so.

use std::collections::BTreeMap;

use meridian_tools::table::Table;

use super::cells::{findings, simulate};
use super::grid::Grid;
use super::plan::Plan;
use super::{Context, Findings, compare, overload};

/// Runs the file and adds a table of capacities.
///
/// # Errors
/// What is wrong with the YAML.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = Plan::new(&context.spec, context.quick)?;
    let grid = simulate(context, &plan)?;
    let mut found = findings(context, &grid)?;
    found.tables.insert(0, capacities(&grid));
    Ok(found)
}

/// The most that is answered, by workload and fleet.
fn capacities(grid: &Grid<'_>) -> Table {
    let mut table = Table::new(
        "The most that any system answers, requests/s",
        &["workload", "fleet", "in the file", "offered", "most answered", "by", "overloaded"],
    );
    let mut places: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    let workload = |cell: usize| &grid.plan.workloads[grid.cells[cell].workload].0;
    for group in grid.groups() {
        let at = grid.cells[group[0]];
        let is = |w: &(super::spec::Workload, _)| w.0.base() == workload(group[0]).base();
        let first = grid.plan.workloads.iter().position(is).unwrap_or(at.workload);
        places.entry((first, at.fleet)).or_default().extend(group);
    }
    for cells in places.values() {
        let Some((_, best)) = compare::best(grid, cells, "throughput_rps") else { continue };
        let at = workload(best);
        let offered = |level: Option<f64>| -> f64 {
            at.loads.iter().filter_map(|load| load.rates(level)).flatten().sum()
        };
        let answered = grid.named(best, "throughput_rps").map_or(0.0, |mean| mean.mean);
        let file = at.level.map_or("-".to_owned(), |_| format!("{:.2}", offered(None)));
        let behind = cells.iter().filter(|cell| overload::line(grid, **cell).is_some()).count();
        table.row([
            at.base().to_owned(),
            grid.plan.fleet(grid.cells[best]).to_owned(),
            file,
            format!("{:.2}", offered(at.level)),
            format!("{answered:.2}"),
            grid.plan.system(grid.cells[best]).to_owned(),
            format!("{behind} of {}", cells.len()),
        ]);
    }
    table
}
