//! Where pools pay: against the same GPUs without roles, by the length of prompts, the load and the
//! rate of the links, with the best ratio of prefill to decode replicas for each.

use anyhow::bail;
use meridian_tools::stats::Mean;
use meridian_tools::table::Table;

use super::duel::{self, Duel, shown};
use crate::experiment::cells::{findings, simulate};
use crate::experiment::grid::Grid;
use crate::experiment::plan::Plan;
use crate::experiment::{Context, Findings, compare};

/// The metrics of the tables. The gaps between tokens are what pools are built for.
const SHOWN: [&str; 5] =
    ["throughput_rps", "ttft_ms.mean", "tpot_ms.mean", "tpot_ms.p99", "e2e_ms.mean"];

/// Compares pools with the same GPUs without roles.
///
/// # Errors
/// What is wrong with the YAML; no system of ours in front of pools, or none without.
pub(in crate::experiment) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = Plan::new(&context.spec, context.quick)?;
    let ours = plan.systems.iter().position(|(system, ..)| duel::is_ours(system));
    let Some(ours) = ours.filter(|_| plan.systems.iter().any(|(system, ..)| system.whole)) else {
        bail!("systems: give `meridian` once in front of pools and once with `whole: true`");
    };
    let grid = simulate(context, &plan)?;
    let duels: Vec<Duel> =
        Duel::all(&grid, ours).into_iter().filter(|duel| duel.is_whole(&grid)).collect();
    let mut found = findings(context, &grid)?;
    let best = best(&grid, &duels);
    let mut tables = vec![places(&grid, &best, false), places(&grid, &best, true)];
    tables.append(&mut found.tables);
    found.tables = tables;
    Ok(found)
}

/// Of the fleets with the same links, the one whose ratio is best, for each workload.
fn best<'a>(grid: &Grid<'_>, duels: &'a [Duel]) -> Vec<&'a Duel> {
    let links = |duel: &Duel| {
        let [workload, fleet, _] = duel.names(grid);
        (workload.to_owned(), fleet.split(' ').next_back().unwrap_or(fleet).to_owned())
    };
    let mut best: Vec<&Duel> = Vec::new();
    for duel in duels {
        match best.iter_mut().find(|known| links(known) == links(duel)) {
            Some(known) if known.score.mean >= duel.score.mean => {}
            Some(known) => *known = duel,
            None => best.push(duel),
        }
    }
    best
}

/// The places where pools pay, or do not.
fn places(grid: &Grid<'_>, best: &[&Duel], pays: bool) -> Table {
    let mut some: Vec<&Duel> =
        best.iter().copied().filter(|duel| is_better(duel.score) == pays).collect();
    let title = format!(
        "{} (no pools / pools, with the best ratio for these links): {} of {}",
        if pays { "Where pools pay" } else { "Where pools do not pay" },
        some.len(),
        best.len()
    );
    some.sort_by(|a, b| a.score.mean.total_cmp(&b.score.mean));
    let header = ["workload", "best fleet", "split", "score", "interval"];
    let mut table = Table::new(title, &header.into_iter().chain(SHOWN).collect::<Vec<_>>());
    for duel in some {
        let [workload, fleet, _] = duel.names(grid);
        let split = grid.named(duel.own, "split_ratio").map_or(0.0, |share| share.mean);
        let mut row =
            vec![workload.to_owned(), fleet.to_owned(), format!("{:.0} %", split * 100.0)];
        row.extend(shown(grid, Some(duel.score)));
        row.extend(SHOWN.iter().map(|metric| {
            let ratio = compare::over(grid, duel.other, duel.own, metric);
            ratio.map_or("-".to_owned(), |ratio| format!("{:.2}", ratio.mean))
        }));
        table.row(row);
    }
    table
}

/// Whether the score of pools is surely the better one.
fn is_better(score: Mean) -> bool {
    score.low > 1.0
}
