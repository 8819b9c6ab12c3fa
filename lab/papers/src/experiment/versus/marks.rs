//! The rank of ours: a mark for each metric of each workload and fleet, within one topology or all.

use meridian_tools::stats::Mean;

use crate::experiment::build;
use crate::experiment::compare::{self, METRICS};
use crate::experiment::grid::Grid;
use crate::experiment::spec::Topology;

/// A difference this small counts as none.
pub(in crate::experiment) const SAME: f64 = 0.01;
/// Our default.
pub(in crate::experiment) const OURS: &str = "meridian";

/// The rank of ours on one metric of one workload and fleet, within one topology or all.
pub(super) struct Mark {
    pub(super) workload: String,
    pub(super) fleet: String,
    pub(super) metric: &'static str,
    /// `None`: ours in its own topology against systems in any topology.
    pub(super) topology: Option<&'static str>,
    /// Ours over the best of the field, so that below 1 is better; inverted for rates.
    pub(super) ratio: Mean,
    /// The best of the field.
    pub(super) rival: String,
    /// Its policy.
    pub(super) policy: &'static str,
    /// The metric on which that one is furthest behind ours, and by what factor; `None` if it is
    /// not behind on any.
    pub(super) pays: Option<(&'static str, f64)>,
}

impl Mark {
    /// No system is ahead by more than 1 %.
    pub(super) fn holds(&self) -> bool {
        self.ratio.mean <= 1.0 + SAME
    }

    /// Over the seeds, a system is significantly ahead by more than 1 %.
    pub(super) fn surely_behind(&self) -> bool {
        self.ratio.low > 1.0 + SAME
    }

    pub(super) fn among(&self) -> &'static str {
        self.topology.unwrap_or("all")
    }
}

pub(super) fn topology<'a>(grid: &'a Grid<'_>, cell: usize) -> &'a Topology {
    &grid.plan.systems[grid.cells[cell].system].0.topology
}

pub(super) fn is_oracle(grid: &Grid<'_>, cell: usize) -> bool {
    matches!(topology(grid, cell), Topology::Oracle(_))
}

pub(super) fn is_ours(grid: &Grid<'_>, cell: usize) -> bool {
    grid.plan.systems[grid.cells[cell].system].1.name == OURS && !is_oracle(grid, cell)
}

/// Ours in its own topology.
pub(in crate::experiment) fn own(grid: &Grid<'_>, group: &[usize]) -> Option<usize> {
    let is = |cell: &usize| is_ours(grid, *cell) && *topology(grid, *cell) == Topology::TwoLayer;
    group.iter().copied().find(is)
}

/// The systems of a group that ours must beat.
pub(in crate::experiment) fn field(grid: &Grid<'_>, group: &[usize]) -> Vec<usize> {
    let competes =
        |c: &usize| compare::answers(grid, *c) && !is_oracle(grid, *c) && !is_ours(grid, *c);
    group.iter().copied().filter(competes).collect()
}

/// Ours on every metric: in each topology against its field, and at its best against all systems.
pub(super) fn of_group(grid: &Grid<'_>, group: &[usize]) -> Vec<Mark> {
    let field = field(grid, group);
    let mut marks = Vec::new();
    for own in group.iter().copied().filter(|c| is_ours(grid, *c)) {
        let kind = topology(grid, own);
        let same = field.iter().copied().filter(|c| topology(grid, *c) == kind).collect();
        let mut against: Vec<(Vec<usize>, Option<&'static str>)> =
            vec![(same, Some(build::topology_name(kind)))];
        if *kind == Topology::TwoLayer {
            against.push((field.clone(), None));
        }
        for (rivals, topology) in against {
            let found = METRICS.iter().filter_map(|m| mark(grid, own, &rivals, m, topology));
            marks.extend(found);
        }
    }
    marks
}

fn mark(
    grid: &Grid<'_>,
    own: usize,
    rivals: &[usize],
    metric: &'static str,
    topology: Option<&'static str>,
) -> Option<Mark> {
    let (_, who) = compare::best(grid, rivals, metric)?;
    let cell = grid.cells[own];
    Some(Mark {
        workload: grid.plan.workload(cell).to_owned(),
        fleet: grid.plan.fleet(cell).to_owned(),
        metric,
        topology,
        ratio: compare::over(grid, own, who, metric)?,
        rival: grid.plan.system(grid.cells[who]).to_owned(),
        policy: grid.plan.systems[grid.cells[who].system].1.name,
        pays: pays(grid, own, who),
    })
}

fn pays(grid: &Grid<'_>, own: usize, who: usize) -> Option<(&'static str, f64)> {
    let behind = |metric: &&'static str| Some((*metric, compare::times(grid, who, own, metric)?));
    let most = METRICS.iter().filter_map(behind).max_by(|a, b| a.1.total_cmp(&b.1));
    most.filter(|(_, times)| *times > 1.0 + SAME)
}

/// By cell, whether it gets a row: ours, the oracles, and any system that is best on some metric in
/// some topology.
pub(super) fn leading(grid: &Grid<'_>) -> Vec<bool> {
    let mut leading = vec![false; grid.cells.len()];
    for group in grid.groups() {
        for &cell in &group {
            leading[cell] = is_ours(grid, cell) || is_oracle(grid, cell);
        }
        let field = field(grid, &group);
        for &cell in &field {
            let kind = topology(grid, cell);
            let same: Vec<usize> =
                field.iter().copied().filter(|c| topology(grid, *c) == kind).collect();
            // Once for each topology: at the first of its cells.
            if same.first() != Some(&cell) {
                continue;
            }
            for (_, best) in METRICS.iter().filter_map(|m| compare::best(grid, &same, m)) {
                leading[best] = true;
            }
        }
    }
    leading
}
