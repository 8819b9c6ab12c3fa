//! The tables of pairs.

use meridian_tools::metric;
use meridian_tools::stats::Mean;
use meridian_tools::table::Table;

use super::{Duel, Standing, chosen, half, score};
use crate::experiment::claim;
use crate::experiment::compare::{self, SCORE};
use crate::experiment::grid::Grid;
use crate::experiment::spec::{DuelColumn, DuelKey, DuelTable, Fact};

/// Ratios closer to 1 than this are shown as 0.0 %, which is no difference.
const SHOWN: f64 = 5e-4;

/// A table of the pairs that it is about.
pub(super) fn table(grid: &Grid<'_>, one: &DuelTable, duels: &[Duel]) -> Table {
    let [before, mut of] = chosen(grid, duels, &one.of);
    if one.worst_first {
        of.sort_by(|a, b| a.score.mean.total_cmp(&b.score.mean));
    }
    let mut cells: Vec<usize> = duels.iter().map(|duel| duel.own).collect();
    cells.dedup();
    let alone = match grid.groups().len() - cells.len() {
        0 => String::new(),
        alone => format!("; {alone} cells have no rival that answers and are left out"),
    };
    let title = one.title.replace("{count}", &of.len().to_string());
    let title = title.replace("{all}", &before.len().to_string()).replace("{alone}", &alone);
    let view = View { grid, one };
    if one.metrics {
        return view.by_metric(title, &of);
    }
    let groups = view.groups(&of);
    let mut header: Vec<String> = one.by.iter().map(|key| lower(&format!("{key:?}"))).collect();
    header.extend(one.columns.iter().map(|column| match column {
        DuelColumn::Of(word) => lower(&format!("{word:?}")),
        DuelColumn::Metric(name) => name.clone(),
    }));
    let places = view.places(&of);
    if one.across {
        header.extend(places.iter().map(|cell| view.place(*cell)));
    }
    let mut table = Table { title, header, rows: Vec::new() };
    for (mut row, of) in groups.into_iter().take(one.most.unwrap_or(usize::MAX)) {
        row.extend(one.columns.iter().map(|column| view.shown(&of, column)));
        if one.across {
            row.extend(places.iter().map(|cell| {
                let here: Vec<Duel> = of.iter().filter(|d| d.own == *cell).copied().collect();
                view.ratio(view.cost(&here, &SCORE), 1)
            }));
        }
        table.row(row);
    }
    table
}

/// `DominatedBy` as `dominated by`.
fn lower(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// How many systems are worse than ours, and of how many: each lacks a term that then pays. A system
/// without a pair has answered nothing.
pub(super) fn paying(grid: &Grid<'_>, ours: &str, duels: &[Duel]) -> (usize, usize) {
    let others = grid.plan.systems.iter().enumerate().filter(|(_, (one, ..))| one.name != ours);
    let pays = |(system, _): (usize, _)| {
        let is = |duel: &&Duel| grid.cells[duel.other].system == system;
        let of: Vec<Duel> = duels.iter().filter(is).copied().collect();
        of.is_empty() || term(grid, &of).starts_with("pays")
    };
    let verdicts: Vec<bool> = others.map(pays).collect();
    (verdicts.iter().filter(|pays| **pays).count(), verdicts.len())
}

/// Whether the term that a system lacks pays.
fn term(grid: &Grid<'_>, duels: &[Duel]) -> &'static str {
    if duels.iter().any(|duel| !compare::answers(grid, duel.other)) {
        return "pays: without it not all is answered";
    }
    let pairs: Vec<_> = duels.iter().map(Duel::pair).collect();
    match score(grid, &pairs, &SCORE) {
        Some(Mean { low, .. }) if low > 1.0 + SHOWN => "pays",
        Some(Mean { high, .. }) if high < 1.0 - SHOWN => "costs",
        Some(_) => "no difference",
        None => "-",
    }
}

struct View<'a> {
    grid: &'a Grid<'a>,
    one: &'a DuelTable,
}

impl View<'_> {
    fn key(&self, duel: &Duel, key: DuelKey) -> String {
        let (grid, workload, fleet) = (self.grid, duel.workload(self.grid), duel.fleet(self.grid));
        match key {
            DuelKey::Workload => workload.name.clone(),
            DuelKey::Base => workload.base().to_owned(),
            DuelKey::Load => {
                workload.level.map_or("-".to_owned(), |l| format!("{:.0} %", l * 100.0))
            }
            DuelKey::Half => half(workload.half).to_owned(),
            DuelKey::Fleet => fleet.to_owned(),
            DuelKey::Shape => fleet.split(' ').next().unwrap_or(fleet).to_owned(),
            DuelKey::System => grid.plan.system(grid.cells[duel.other]).to_owned(),
        }
    }

    /// The pairs of each row, with its names: by load and half, in the order of the first of each, or
    /// the worst first.
    fn groups(&self, duels: &[Duel]) -> Vec<(Vec<String>, Vec<Duel>)> {
        let mut groups: Vec<(Vec<String>, Vec<Duel>)> = Vec::new();
        for duel in duels {
            let names: Vec<String> = self.one.by.iter().map(|key| self.key(duel, *key)).collect();
            match groups.iter_mut().find(|(known, _)| self.one.grouped && *known == names) {
                Some((_, of)) => of.push(*duel),
                None => groups.push((names, vec![*duel])),
            }
        }
        if let Some(DuelKey::Load | DuelKey::Half) = self.one.by.first() {
            groups.sort_by(|a, b| a.0.cmp(&b.0));
        }
        if self.one.worst_first {
            let mean = |of: &[Duel]| self.cost(of, &SCORE).map_or(1.0, |score| score.mean);
            groups.sort_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
        }
        groups
    }

    /// The cells of ours, in their order.
    fn places(&self, duels: &[Duel]) -> Vec<usize> {
        let mut cells: Vec<usize> = duels.iter().map(|duel| duel.own).collect();
        cells.sort_unstable();
        cells.dedup();
        cells
    }

    fn place(&self, cell: usize) -> String {
        let cell = self.grid.cells[cell];
        format!("{} on {}", self.grid.plan.workload(cell), self.grid.plan.fleet(cell))
    }

    /// The cost of the others over ours: of one pair the ratio of the means, of a group of pairs the
    /// geometric mean.
    fn cost(&self, of: &[Duel], metrics: &[&str]) -> Option<Mean> {
        match (of, metrics) {
            ([one], [metric]) if !self.one.grouped => {
                compare::over(self.grid, one.other, one.own, metric)
            }
            _ => score(self.grid, &of.iter().map(Duel::pair).collect::<Vec<_>>(), metrics),
        }
    }

    fn ratio(&self, ratio: Option<Mean>, seeds: usize) -> String {
        let digits = self.one.digits;
        ratio.map_or("-".to_owned(), |ratio| match self.one.percent {
            true => compare::percent(ratio, seeds),
            false => format!("{:.digits$}", ratio.mean),
        })
    }

    fn interval(&self, ratio: Option<Mean>) -> String {
        let digits = self.one.digits;
        match ratio {
            None => "-".to_owned(),
            Some(_) if self.grid.seeds.len() == 1 => "one seed".to_owned(),
            Some(Mean { low, high, .. }) => format!("{low:.digits$} to {high:.digits$}"),
        }
    }

    fn shown(&self, of: &[Duel], column: &DuelColumn) -> String {
        let grid = self.grid;
        let seeds = grid.seeds.len();
        let word = match column {
            DuelColumn::Metric(name) => return self.ratio(self.cost(of, &[name]), seeds),
            DuelColumn::Of(word) => *word,
        };
        let count = |standing| of.iter().filter(|d| d.standing() == standing).count().to_string();
        let first = of[0];
        match word {
            Fact::Cells => of.len().to_string(),
            Fact::Dominated => of.iter().filter(|d| d.dominator.is_some()).count().to_string(),
            Fact::Best => count(Standing::Best),
            Fact::Level => count(Standing::Level),
            Fact::Behind => count(Standing::Behind),
            Fact::Score => self.ratio(self.cost(of, &SCORE), seeds),
            Fact::Interval => self.interval(self.cost(of, &SCORE)),
            Fact::Result if first.answers => first.standing().name().to_owned(),
            Fact::Result => format!("{}: not answering", first.standing().name()),
            Fact::Term => term(grid, of).to_owned(),
            Fact::DominatedBy => first
                .dominator
                .map_or("-".to_owned(), |cell| grid.plan.system(grid.cells[cell]).to_owned()),
            Fact::Split => {
                let share = grid.named(first.own, "split_ratio").map_or(0.0, |share| share.mean);
                format!("{:.0} %", share * 100.0)
            }
        }
    }

    /// A row for each metric of the score of each pair, with both values.
    fn by_metric(&self, title: String, duels: &[Duel]) -> Table {
        let mut header: Vec<String> =
            self.one.by.iter().map(|key| lower(&format!("{key:?}"))).collect();
        header.extend(["metric", "ours", "theirs", "ratio of cost", "interval"].map(str::to_owned));
        let mut table = Table { title, header, rows: Vec::new() };
        for duel in duels {
            for name in SCORE {
                let show = |cell: usize| {
                    let value = self.grid.named(cell, name).map(|mean| mean.mean);
                    let found = metric::find(name).zip(value);
                    found.map_or("-".to_owned(), |((_, m), value)| claim::number(m, value))
                };
                let ratio = compare::over(self.grid, duel.other, duel.own, name);
                let names = self.one.by.iter().map(|key| self.key(duel, *key));
                let values = [name.to_owned(), show(duel.own), show(duel.other)];
                let ratios = [self.ratio(ratio, 1), self.interval(ratio)];
                table.row(names.chain(values).chain(ratios));
            }
        }
        table
    }
}
