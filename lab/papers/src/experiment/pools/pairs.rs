//! The tables of the rules for pools. Every ratio is that of another system over ours in cost: above
//! 1, ours is better.

use std::collections::BTreeMap;

use meridian_tools::table::Table;

use super::duel::{Duel, score, shown};
use crate::experiment::compare::SCORE;
use crate::experiment::goal::Verdict;
use crate::experiment::grid::Grid;

/// Rows of the table of the worst cells.
const WORST: usize = 24;
/// Columns of a system's counts and ratios.
const COUNTS: [&str; 7] = ["cells", "dominated", "best", "level", "behind", "score", "interval"];

/// The same GPUs without pools against pools with our price, by workload and fleet.
pub(super) fn against_none(grid: &Grid<'_>, duels: &[Duel]) -> Table {
    let of = duels.iter().filter(|duel| duel.is_whole(grid));
    let title = "Pools against the same GPUs without roles (no pools / ours: below 1, pools lose)";
    let key = |duel: &Duel| {
        let [workload, fleet, other] = duel.names(grid);
        [workload, fleet.split(' ').next().unwrap_or(fleet), other].map(str::to_owned)
    };
    let mut groups = grouped(of, key);
    groups.sort_by(|a, b| mean(grid, &a.1).total_cmp(&mean(grid, &b.1)));
    counts(grid, title, &["workload", "prefill and decode", "system"], groups)
}

/// The worst of the other rules' cells, for ours.
pub(super) fn worst(grid: &Grid<'_>, duels: &[Duel]) -> Table {
    let mut behind: Vec<&Duel> = duels
        .iter()
        .filter(|duel| !duel.is_whole(grid) && Verdict::of(duel.score) == Verdict::Behind)
        .collect();
    behind.sort_by(|a, b| a.score.mean.total_cmp(&b.score.mean));
    let title = format!(
        "Where another rule for pools has the better score (theirs / ours): {} cells, the worst first",
        behind.len()
    );
    rows(grid, &title, behind.into_iter().take(WORST))
}

/// The cells in which another system is better on everything.
pub(super) fn dominated(grid: &Grid<'_>, duels: &[Duel]) -> Table {
    let title =
        "Where another rule for pools is better on all four metrics at once (theirs / ours)";
    rows(grid, title, duels.iter().filter(|duel| duel.dominates && !duel.is_whole(grid)))
}

/// Ours against each other system.
pub(super) fn by_rival(grid: &Grid<'_>, duels: &[Duel]) -> Table {
    let groups = grouped(duels.iter(), |duel| [duel.names(grid)[2].to_owned()]);
    counts(grid, "Against each system, over all cells (theirs / ours)", &["system"], groups)
}

/// Ours against all other rules, by fleet.
pub(super) fn by_fleet(grid: &Grid<'_>, duels: &[Duel]) -> Table {
    let rules = duels.iter().filter(|duel| !duel.is_whole(grid));
    let groups = grouped(rules, |duel| [duel.names(grid)[1].to_owned()]);
    counts(grid, "Against the other rules for pools, by fleet (theirs / ours)", &["fleet"], groups)
}

type Groups<'a, const N: usize> = Vec<([String; N], Vec<&'a Duel>)>;

/// The comparisons by key, in the order of their first.
fn grouped<'a, const N: usize>(
    duels: impl Iterator<Item = &'a Duel>,
    key: impl Fn(&Duel) -> [String; N],
) -> Groups<'a, N> {
    let mut groups: Groups<'a, N> = Vec::new();
    let mut places = BTreeMap::new();
    for duel in duels {
        let place = *places.entry(key(duel)).or_insert_with(|| {
            groups.push((key(duel), Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(duel);
    }
    groups
}

fn mean(grid: &Grid<'_>, duels: &[&Duel]) -> f64 {
    score(grid, duels).map_or(1.0, |score| score.mean)
}

/// A row of counts and of the mean ratio for each group.
fn counts<const N: usize>(
    grid: &Grid<'_>,
    title: &str,
    keys: &[&str],
    groups: Groups<'_, N>,
) -> Table {
    let header: Vec<&str> = keys.iter().copied().chain(COUNTS).collect();
    let mut table = Table::new(title, &header);
    for (key, duels) in groups {
        let count = |verdict| duels.iter().filter(|d| Verdict::of(d.score) == verdict).count();
        let dominated = duels.iter().filter(|duel| duel.dominates).count();
        let mut row: Vec<String> = key.into();
        row.extend([duels.len(), dominated].map(|n| n.to_string()));
        let verdicts = [Verdict::Best, Verdict::Level, Verdict::Behind];
        row.extend(verdicts.map(|verdict| count(verdict).to_string()));
        row.extend(shown(grid, score(grid, &duels)));
        table.row(row);
    }
    table
}

/// A row for each comparison.
fn rows<'a>(grid: &Grid<'_>, title: &str, duels: impl Iterator<Item = &'a Duel>) -> Table {
    let header = ["workload", "fleet", "system", "score", "interval"];
    let mut table = Table::new(title, &header.into_iter().chain(SCORE).collect::<Vec<_>>());
    for duel in duels {
        let mut row: Vec<String> = duel.names(grid).map(str::to_owned).into();
        row.extend(shown(grid, Some(duel.score)));
        row.extend(SCORE.iter().map(|metric| duel.times(grid, metric)));
        table.row(row);
    }
    table
}
