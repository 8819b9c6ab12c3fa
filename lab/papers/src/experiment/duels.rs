//! One system, ours, against each other one in its cell: a workload on a fleet.
//!
//! The score of a system is the geometric mean of the inverse of throughput, mean TTFT, P90 TTFT and
//! mean E2E, and less is better. A ratio is that of the other system over ours in cost: above 1, ours
//! is better. The best rival of a cell is chosen on the seeds that it is compared on, which favours it
//! a little. A system dominates ours if it is better by more than 1 % on all four metrics at once.

mod tables;

use anyhow::bail;
use meridian_tools::stats::Mean;
use meridian_tools::table::Table;

use super::claim::Claim;
use super::compare::{self, SCORE};
use super::grid::Grid;
use super::plan::Plan;
use super::spec::{Duels, Half, Judged, Pairs, Pick, Spec, Unanswered, Workload};
use super::versus::marks::SAME;

/// Ours against one other system in one cell.
#[derive(Clone, Copy)]
pub(super) struct Duel {
    /// Ours.
    pub(super) own: usize,
    /// The other.
    pub(super) other: usize,
    /// The score of the other over ours: above 1, ours is better.
    pub(super) score: Mean,
    /// The other if it is better on every metric of the score; among several, the best by score.
    dominator: Option<usize>,
    /// Whether ours answers its requests. If it does not, its latencies lack the worst ones.
    answers: bool,
}

/// Where ours stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The interval lies above 1: surely the best.
    Best,
    /// The interval includes 1, or comes within 1 % of it.
    Level,
    /// The interval lies below that.
    Behind,
}

impl Standing {
    pub(super) fn of(ratio: Mean) -> Standing {
        match ratio {
            Mean { low, .. } if low > 1.0 => Standing::Best,
            Mean { high, .. } if high < 1.0 - SAME => Standing::Behind,
            _ => Standing::Level,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Standing::Best => "best",
            Standing::Level => "level",
            Standing::Behind => "behind",
        }
    }
}

impl Duel {
    fn of(grid: &Grid<'_>, own: usize, other: usize) -> Option<Duel> {
        let better = |metric: &&str| {
            compare::times(grid, own, other, metric).is_some_and(|times| times > 1.0 + SAME)
        };
        let answers = compare::answers(grid, own);
        let dominator = SCORE.iter().all(better).then_some(other);
        Some(Duel { own, other, score: score(grid, &[(other, own)], &SCORE)?, dominator, answers })
    }

    fn standing(&self) -> Standing {
        if self.answers { Standing::of(self.score) } else { Standing::Behind }
    }

    fn is(&self, result: Judged) -> bool {
        match result {
            Judged::Best => self.standing() == Standing::Best,
            Judged::NotBest => self.standing() != Standing::Best,
            Judged::Behind => self.standing() == Standing::Behind,
            Judged::Dominated => self.dominator.is_some(),
        }
    }

    fn workload<'a>(&self, grid: &'a Grid<'_>) -> &'a Workload {
        &grid.plan.workloads[grid.cells[self.own].workload].0
    }

    fn fleet<'a>(&self, grid: &'a Grid<'_>) -> &'a str {
        grid.plan.fleet(grid.cells[self.own])
    }

    fn pair(&self) -> (usize, usize) {
        (self.other, self.own)
    }
}

/// The costs of the first of each pair over those of the second: the geometric mean over all pairs.
fn score(grid: &Grid<'_>, pairs: &[(usize, usize)], metrics: &[&str]) -> Option<Mean> {
    compare::geometric(&compare::logs(grid, pairs, metrics))
}

/// All pairs that the file compares. Without a rival that answers, a cell has none.
pub(super) fn all(grid: &Grid<'_>, duels: &Duels) -> Vec<Duel> {
    let mut all = Vec::new();
    for group in grid.groups() {
        let is_ours = |cell: &&usize| grid.plan.system(grid.cells[**cell]) == duels.ours;
        let Some(own) = group.iter().find(is_ours).copied() else { continue };
        let answers = |cell: usize| compare::answers(grid, cell);
        let competes = |other: usize| match duels.unanswered {
            Unanswered::LeftOut => answers(own) && answers(other),
            Unanswered::OursBehind => answers(other),
            Unanswered::Compared => true,
        };
        let others = group.iter().copied().filter(|cell| *cell != own && competes(*cell));
        all.extend(others.filter_map(|other| Duel::of(grid, own, other)));
    }
    all
}

/// The pair with the best rival of each cell, with any system that dominates ours there.
pub(super) fn best_rivals(duels: &[Duel]) -> Vec<Duel> {
    let mut sorted = duels.to_vec();
    sorted.sort_by(|a, b| a.own.cmp(&b.own).then(a.score.mean.total_cmp(&b.score.mean)));
    let of_cell = |cell: &[Duel]| {
        let dominator = cell.iter().find_map(|duel| duel.dominator);
        Duel { dominator, ..cell[0] }
    };
    sorted.chunk_by(|a, b| a.own == b.own).map(of_cell).collect()
}

/// Of the fleets with the same last word, the one of the best score for ours, for each workload.
fn best_fleets(grid: &Grid<'_>, duels: &[Duel]) -> Vec<Duel> {
    let links = |duel: &Duel| {
        let fleet = duel.fleet(grid);
        (duel.workload(grid).name.clone(), fleet.split(' ').next_back().unwrap_or(fleet).to_owned())
    };
    let mut best: Vec<Duel> = Vec::new();
    for duel in duels {
        match best.iter_mut().find(|known| links(known) == links(duel)) {
            Some(known) if known.score.mean >= duel.score.mean => {}
            Some(known) => *known = *duel,
            None => best.push(*duel),
        }
    }
    best
}

/// The pairs of a choice, first before their result counts, and then with it.
fn chosen(grid: &Grid<'_>, duels: &[Duel], of: &Pairs) -> [Vec<Duel>; 2] {
    let about = |duel: &&Duel| {
        let whole = grid.plan.systems[grid.cells[duel.other].system].0.whole;
        of.whole.is_none_or(|wanted| wanted == whole)
            && (of.half.is_none() || duel.workload(grid).half == of.half)
    };
    let duels: Vec<Duel> = duels.iter().filter(about).copied().collect();
    let duels = match of.pick {
        None => duels,
        Some(Pick::BestRival) => best_rivals(&duels),
        Some(Pick::BestFleet) => best_fleets(grid, &duels),
    };
    let with = duels.iter().filter(|duel| of.that.is_none_or(|that| duel.is(that)));
    [duels.clone(), with.copied().collect()]
}

/// The tables and targets of a file.
///
/// # Errors
/// A system of ours that is not there.
pub(super) fn findings(spec: &Spec, grid: &Grid<'_>) -> anyhow::Result<(Vec<Table>, Vec<Claim>)> {
    let Some(duels) = &spec.duels else { return Ok(Default::default()) };
    check(duels, grid.plan)?;
    let all = all(grid, duels);
    let tables = duels.tables.iter().map(|one| tables::table(grid, one, &all)).collect();
    let claims = duels.targets.iter().map(|target| {
        let [_, of] = chosen(grid, &all, &target.of);
        let (held, count) = match target.pays {
            true => tables::paying(grid, &duels.ours, &of),
            false => {
                let missed = |duel: &&Duel| target.never.is_some_and(|never| duel.is(never));
                (of.len() - of.iter().filter(missed).count(), of.len())
            }
        };
        Claim::target(&target.what, held, count)
    });
    Ok((tables, claims.collect()))
}

/// Checks that ours is one of the systems, and that every workload has its half.
///
/// # Errors
/// A name that is missing, and workloads without a half.
pub(super) fn check(duels: &Duels, plan: &Plan) -> anyhow::Result<()> {
    if !plan.systems.iter().any(|(system, ..)| system.name == duels.ours) {
        bail!("systems: `{}` is missing; name it", duels.ours);
    }
    halves(plan)
}

/// Checks that every workload has its half.
///
/// # Errors
/// Those that have none.
pub(super) fn halves(plan: &Plan) -> anyhow::Result<()> {
    let without = plan.workloads.iter().filter(|w| w.0.half.is_none());
    let problems: Vec<String> = without
        .map(|w| format!("workloads ({}).half: missing; use tuning or judging", w.0.name))
        .collect();
    if !problems.is_empty() {
        bail!(problems.join("\n"));
    }
    Ok(())
}

/// The name of a half.
fn half(half: Option<Half>) -> &'static str {
    half.map_or("-", Half::name)
}

#[cfg(test)]
mod tests;
