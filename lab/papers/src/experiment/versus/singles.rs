//! Ours against one system at a time. The best of the field differs by metric and workload, but an
//! operator has to choose a single system.

use std::collections::BTreeMap;

use meridian_tools::table::Table;

use super::marks::{self, SAME};
use crate::experiment::compare::{self, METRICS};
use crate::experiment::grid::Grid;

/// Rows that are shown.
const SHOWN: usize = 10;

/// Ours relative to one system, on every metric of every workload that both answer.
#[derive(Default)]
struct Single {
    ratios: Vec<f64>,
}

impl Single {
    fn count(&self, which: impl Fn(f64) -> bool) -> String {
        self.ratios.iter().filter(|ratio| which(**ratio)).count().to_string()
    }

    /// The geometric mean.
    fn mean(&self) -> f64 {
        let logs: f64 = self.ratios.iter().map(|ratio| libm::log(*ratio)).sum();
        libm::exp(logs / self.ratios.len() as f64)
    }
}

/// Ours in its own topology against each system, the closest first. Excludes systems that leave
/// requests unanswered in some cell.
pub(super) fn table(grid: &Grid<'_>) -> Table {
    let mut all: BTreeMap<usize, Single> = BTreeMap::new();
    let groups = grid.groups();
    for group in &groups {
        let Some(own) = marks::own(grid, group) else { continue };
        for rival in marks::field(grid, group) {
            let over = |metric: &&str| compare::times(grid, own, rival, metric);
            let single = all.entry(grid.cells[rival].system).or_default();
            single.ratios.extend(METRICS.iter().filter_map(over));
        }
    }
    let most = all.values().map(|single| single.ratios.len()).max().unwrap_or(0);
    let mut whole: Vec<(usize, Single)> =
        all.into_iter().filter(|(_, single)| single.ratios.len() == most).collect();
    whole.sort_by(|a, b| b.1.mean().total_cmp(&a.1.mean()));
    let header = ["system", "of", "ours ahead", "within 1 %", "ours behind", "ours over it"];
    let mut table = Table::new("Ours against one system at a time, the nearest ten", &header);
    for (system, single) in whole.iter().take(SHOWN) {
        table.row([
            grid.plan.systems[*system].0.name.clone(),
            single.ratios.len().to_string(),
            single.count(|ratio| ratio < 1.0 - SAME),
            single.count(|ratio| (1.0 - SAME..=1.0 + SAME).contains(&ratio)),
            single.count(|ratio| ratio > 1.0 + SAME),
            format!("{:.3}", single.mean()),
        ]);
    }
    table
}
