//! Where ours stands in one cell: against the best rival by score, and against each system that is
//! better on every metric.

use meridian_tools::stats::Mean;

use crate::experiment::compare::{self, SCORE};
use crate::experiment::grid::Grid;
use crate::experiment::spec::{Half, Workload};
use crate::experiment::versus::marks::{self, SAME};

/// Ours in one cell.
pub(super) struct Standing {
    /// The runs of all systems.
    pub(super) group: Vec<usize>,
    /// Ours.
    pub(super) own: usize,
    /// The rival of the best score.
    pub(super) best: usize,
    /// Its score over that of ours: above 1, ours is better.
    pub(super) ratio: Mean,
    /// The system that is better on all metrics of the score; the best of them by score.
    pub(super) dominated: Option<usize>,
    /// Whether ours answers its requests. If it does not, its latencies lack the worst ones.
    pub(super) answers: bool,
    /// The share of the capacity that is offered; `None` if the workload has no level.
    pub(super) level: Option<f64>,
    /// The purpose of the workload.
    pub(super) half: Option<Half>,
}

/// The result of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiment) enum Verdict {
    /// The interval lies above 1: surely the best.
    Best,
    /// The interval includes 1, or comes within 1 % of it.
    Level,
    /// The interval lies below that.
    Behind,
}

impl Standing {
    /// Ours in `group`; `None` without ours, or without a rival that answers.
    pub(super) fn of(grid: &Grid<'_>, group: &[usize]) -> Option<Standing> {
        let own = marks::own(grid, group)?;
        let mut rivals: Vec<(usize, Mean)> = marks::field(grid, group)
            .into_iter()
            .filter_map(|cell| Some((cell, ratio(grid, &[(cell, own)])?)))
            .collect();
        rivals.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
        let (best, ratio) = *rivals.first()?;
        let dominates = |cell: &usize| SCORE.iter().all(|metric| better(grid, *cell, own, metric));
        let workload = &grid.plan.workloads[grid.cells[own].workload].0;
        Some(Standing {
            group: group.to_vec(),
            own,
            best,
            ratio,
            dominated: rivals.iter().map(|(cell, _)| *cell).find(dominates),
            answers: compare::answers(grid, own),
            level: workload.level,
            half: workload.half,
        })
    }

    pub(super) fn verdict(&self) -> Verdict {
        if self.answers { Verdict::of(self.ratio) } else { Verdict::Behind }
    }

    /// The names of the workload and the fleet.
    pub(super) fn place<'a>(&self, grid: &'a Grid<'_>) -> (&'a str, &'a str) {
        let cell = grid.cells[self.own];
        (grid.plan.workload(cell), grid.plan.fleet(cell))
    }

    pub(super) fn workload<'a>(&self, grid: &'a Grid<'_>) -> &'a Workload {
        &grid.plan.workloads[grid.cells[self.own].workload].0
    }
}

impl Verdict {
    pub(in crate::experiment) fn of(ratio: Mean) -> Verdict {
        match ratio {
            Mean { low, .. } if low > 1.0 => Verdict::Best,
            Mean { high, .. } if high < 1.0 - SAME => Verdict::Behind,
            _ => Verdict::Level,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Best => "best",
            Verdict::Level => "level",
            Verdict::Behind => "behind",
        }
    }
}

/// A system is better than another on a metric: by more than 1 %.
pub(in crate::experiment) fn better(
    grid: &Grid<'_>,
    cell: usize,
    other: usize,
    metric: &str,
) -> bool {
    compare::times(grid, other, cell, metric).is_some_and(|times| times > 1.0 + SAME)
}

/// The score of the first of each pair over that of the second, over all pairs.
pub(in crate::experiment) fn ratio(grid: &Grid<'_>, pairs: &[(usize, usize)]) -> Option<Mean> {
    compare::geometric(&compare::logs(grid, pairs, &SCORE))
}
