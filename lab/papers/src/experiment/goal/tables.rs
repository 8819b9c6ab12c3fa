//! The tables of the goal.

use meridian_tools::metric;
use meridian_tools::stats::Mean;
use meridian_tools::table::Table;

use super::standing::{Standing, Verdict, ratio};
use crate::experiment::claim;
use crate::experiment::compare::{self, SCORE};
use crate::experiment::grid::Grid;
use crate::experiment::spec::Half;

/// A ratio with its interval, if several seeds give one.
fn shown(grid: &Grid<'_>, ratio: Option<Mean>) -> [String; 2] {
    let Some(Mean { mean, low, high }) = ratio else { return ["-".to_owned(), "-".to_owned()] };
    let several = grid.seeds.len() > 1;
    let interval = if several { format!("{low:.3} to {high:.3}") } else { "one seed".to_owned() };
    [format!("{mean:.3}"), interval]
}

fn load(level: Option<f64>) -> String {
    level.map_or("-".to_owned(), |level| format!("{:.0} %", level * 100.0))
}

/// The counts by level and half, then over everything.
pub(super) fn summary(grid: &Grid<'_>, standings: &[Standing]) -> Table {
    let title = "Ours against the best rival of each cell (ratio above 1: ours is better)";
    let alone = grid.groups().len() - standings.len();
    let title = match alone {
        0 => title.to_owned(),
        _ => format!("{title}; {alone} cells have no rival that answers and are left out"),
    };
    let mut table = Table::new(
        title,
        &[
            "load",
            "half",
            "cells",
            "dominated",
            "best",
            "level",
            "behind",
            "score, best rival / ours",
            "interval",
        ],
    );
    let mut levels: Vec<Option<f64>> = standings.iter().map(|s| s.level).collect();
    levels.sort_by(|a, b| a.partial_cmp(b).expect("levels are numbers"));
    levels.dedup();
    let mut row = |load: String, half: &str, of: Vec<&Standing>| {
        if of.is_empty() {
            return;
        }
        let count = |verdict| of.iter().filter(|s| s.verdict() == verdict).count().to_string();
        let pairs: Vec<(usize, usize)> = of.iter().map(|s| (s.best, s.own)).collect();
        let mut cells = vec![load, half.to_owned(), of.len().to_string()];
        cells.push(of.iter().filter(|s| s.dominated.is_some()).count().to_string());
        cells.extend([Verdict::Best, Verdict::Level, Verdict::Behind].map(count));
        cells.extend(shown(grid, ratio(grid, &pairs)));
        table.row(cells);
    };
    for level in levels {
        for half in [Half::Judging, Half::Tuning] {
            let here = |s: &&Standing| s.level == level && s.half == Some(half);
            row(load(level), half.name(), standings.iter().filter(here).collect());
        }
    }
    for half in [Half::Judging, Half::Tuning] {
        let here = |s: &&Standing| s.half == Some(half);
        row("all".to_owned(), half.name(), standings.iter().filter(here).collect());
    }
    row("all".to_owned(), "both", standings.iter().collect());
    table
}

/// The systems that dominate ours, and by how much.
pub(super) fn dominated(grid: &Grid<'_>, standings: &[Standing]) -> Table {
    let mut header = vec!["workload", "fleet", "dominated by"];
    header.extend(SCORE);
    let mut table = Table::new("Where one system is better on all metrics: ours / theirs", &header);
    for standing in standings {
        let Some(rival) = standing.dominated else { continue };
        let (workload, fleet) = standing.place(grid);
        let system = grid.plan.system(grid.cells[rival]);
        let mut row = vec![workload.to_owned(), fleet.to_owned(), system.to_owned()];
        row.extend(SCORE.iter().map(|metric| {
            let times = compare::times(grid, standing.own, rival, metric);
            times.map_or("-".to_owned(), |times| format!("{times:.3}"))
        }));
        table.row(row);
    }
    table
}

/// A row for each cell.
pub(super) fn cells(grid: &Grid<'_>, standings: &[Standing]) -> Table {
    let mut table = Table::new(
        "Every cell, by score",
        &[
            "workload",
            "load",
            "half",
            "fleet",
            "ours is",
            "best rival / ours",
            "interval",
            "best rival",
            "dominated by",
        ],
    );
    for standing in standings {
        let system = |cell: usize| grid.plan.system(grid.cells[cell]).to_owned();
        let [mean, interval] = shown(grid, Some(standing.ratio));
        let verdict = standing.verdict().name();
        table.row([
            standing.workload(grid).base().to_owned(),
            load(standing.level),
            standing.half.map_or("-", Half::name).to_owned(),
            standing.place(grid).1.to_owned(),
            if standing.answers { verdict.to_owned() } else { format!("{verdict}: not answering") },
            mean,
            interval,
            system(standing.best),
            standing.dominated.map_or("-".to_owned(), system),
        ]);
    }
    table
}

/// Ours and the best rival of one cell, by metric.
pub(super) fn cell(grid: &Grid<'_>, standing: &Standing) -> Table {
    let (workload, fleet) = standing.place(grid);
    let mut table = Table::new(
        format!("{workload} on {fleet}"),
        &["metric", "ours", "best rival", "rival", "rival / ours in cost", "interval"],
    );
    let rival = grid.plan.system(grid.cells[standing.best]);
    for name in SCORE {
        let show = |cell: usize| {
            let value = grid.named(cell, name).map(|mean| mean.mean);
            let found = metric::find(name).zip(value);
            found.map_or("-".to_owned(), |((_, metric), value)| claim::number(metric, value))
        };
        let [mean, interval] = shown(grid, compare::over(grid, standing.best, standing.own, name));
        let [ours, theirs] = [standing.own, standing.best].map(show);
        table.row([name.to_owned(), ours, theirs, rival.to_owned(), mean, interval]);
    }
    let [mean, interval] = shown(grid, Some(standing.ratio));
    let none = || "-".to_owned();
    table.row(["score".to_owned(), none(), none(), rival.to_owned(), mean, interval]);
    table
}
