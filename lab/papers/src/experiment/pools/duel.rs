//! Ours against one other system in one cell.

use meridian_tools::stats::Mean;

use crate::experiment::compare::{self, SCORE};
use crate::experiment::goal::{better, ratio};
use crate::experiment::grid::Grid;
use crate::experiment::spec::System;

/// Our policy.
const OURS: &str = "meridian";

/// Ours against one other system in one cell.
pub(super) struct Duel {
    /// Ours.
    pub(super) own: usize,
    /// The other.
    pub(super) other: usize,
    /// The score of the other over ours: above 1, ours is better.
    pub(super) score: Mean,
    /// Whether the other is better by more than 1 % on every metric of the score.
    pub(super) dominates: bool,
}

/// Whether it is ours in front of pools.
pub(super) fn is_ours(system: &System) -> bool {
    system.policy.name == OURS && !system.whole
}

impl Duel {
    /// Every comparison of the system at `ours` with another one in the same cell that answers its
    /// requests. Where ours does not answer, its latencies lack the worst ones, and there is none.
    pub(super) fn all(grid: &Grid<'_>, ours: usize) -> Vec<Duel> {
        let mut duels = Vec::new();
        for group in grid.groups() {
            let Some(own) = group.iter().copied().find(|cell| grid.cells[*cell].system == ours)
            else {
                continue;
            };
            let others = group.iter().copied().filter(|cell| *cell != own);
            duels.extend(others.filter_map(|other| Duel::of(grid, own, other)));
        }
        duels
    }

    fn of(grid: &Grid<'_>, own: usize, other: usize) -> Option<Duel> {
        if !compare::answers(grid, own) || !compare::answers(grid, other) {
            return None;
        }
        let dominates = SCORE.iter().all(|metric| better(grid, other, own, metric));
        Some(Duel { own, other, score: ratio(grid, &[(other, own)])?, dominates })
    }

    /// Whether the other one has no pools.
    pub(super) fn is_whole(&self, grid: &Grid<'_>) -> bool {
        grid.plan.systems[grid.cells[self.other].system].0.whole
    }

    /// The names of the workload, the fleet and the other system.
    pub(super) fn names<'a>(&self, grid: &'a Grid<'_>) -> [&'a str; 3] {
        let cell = grid.cells[self.other];
        [grid.plan.workload(cell), grid.plan.fleet(cell), grid.plan.system(cell)]
    }

    /// The cost of the other over ours on a metric: above 1, ours is better.
    pub(super) fn times(&self, grid: &Grid<'_>, metric: &str) -> String {
        let times = compare::times(grid, self.other, self.own, metric);
        times.map_or("-".to_owned(), |times| format!("{times:.2}"))
    }
}

/// The score of the others over ours, over all of these comparisons.
pub(super) fn score(grid: &Grid<'_>, duels: &[&Duel]) -> Option<Mean> {
    let pairs: Vec<(usize, usize)> = duels.iter().map(|duel| (duel.other, duel.own)).collect();
    ratio(grid, &pairs)
}

/// A ratio with its interval.
pub(super) fn shown(grid: &Grid<'_>, ratio: Option<Mean>) -> [String; 2] {
    let Some(Mean { mean, low, high }) = ratio else { return ["-".to_owned(), "-".to_owned()] };
    let several = grid.seeds.len() > 1;
    let interval = if several { format!("{low:.2} to {high:.2}") } else { "one seed".to_owned() };
    [format!("{mean:.2}"), interval]
}
