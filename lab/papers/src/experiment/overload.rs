//! Detects systems that were sent more than they could answer. Their latencies depend mainly on the
//! length of the run, so a report names such systems.

use super::compare;
use super::grid::Grid;

/// Queues that grow by more than this share of the requests in the window are not noise,
const GROWTH: f64 = 0.05;
/// and fewer requests than this are not a queue.
const LEAST: f64 = 10.0;

/// A line for each cell that was overloaded, with its numbers.
#[must_use]
pub fn lines(grid: &Grid<'_>) -> Vec<String> {
    (0..grid.cells.len()).filter_map(|cell| line(grid, cell)).collect()
}

/// The line of one cell; `None` if it kept up.
pub(super) fn line(grid: &Grid<'_>, cell: usize) -> Option<String> {
    let runs = grid.observed[cell].len().max(1) as f64;
    let named = |name| grid.named(cell, name).map_or(0.0, |mean| mean.mean);
    let sent = named("requests");
    let growth = grid.observed[cell].iter().map(|run| run.growth).sum::<f64>() / runs;
    let mut says = Vec::new();
    if growth > LEAST && growth > GROWTH * sent {
        says.push(format!(
            "its queues grew by {growth:.0} of {sent:.0} requests within the window"
        ));
    }
    if !compare::answers(grid, cell) {
        let left = (named("lost") + named("rejected")) / runs;
        says.push(format!("{left:.0} of {sent:.0} requests per run were refused or broken"));
    }
    let at = grid.cells[cell];
    let (system, workload, fleet) =
        (grid.plan.system(at), grid.plan.workload(at), grid.plan.fleet(at));
    (!says.is_empty()).then(|| format!("{system}, {workload} on {fleet}: {}", says.join("; ")))
}
