//! The results of all cells, with means over seeds and comparisons.

use std::collections::BTreeMap;

use meridian_tools::dist::Dist;
use meridian_tools::metric::{self, Metric};
use meridian_tools::stats::{self, Mean};

use super::plan::{Cell, Plan};
use super::runner::Observed;

/// Every cell of a plan with its results for each seed.
pub struct Grid<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// By cell, then by seed.
    pub observed: Vec<Vec<Observed>>,
}

impl Grid<'_> {
    /// The cells in groups that are compared with each other: one workload on one fleet.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (i, cell) in self.cells.iter().enumerate() {
            groups.entry((cell.workload, cell.fleet)).or_default().push(i);
        }
        groups.into_values().collect()
    }

    /// The values of a metric for each seed, by its index in [`metric::all`].
    #[must_use]
    pub fn by_seed(&self, cell: usize, metric: usize) -> Vec<Option<f64>> {
        self.observed[cell].iter().map(|o| o.values[metric]).collect()
    }

    /// A metric over all seeds: the mean, or the sum for counts of failures; `None` if it applies
    /// to no seed.
    #[must_use]
    pub fn mean(&self, cell: usize, place: usize, metric: &Metric) -> Option<Mean> {
        let values: Vec<f64> = self.by_seed(cell, place).into_iter().flatten().collect();
        let mean = stats::mean(&values)?;
        if metric.sum {
            let sum = values.iter().sum();
            return Some(Mean { mean: sum, low: sum, high: sum });
        }
        Some(mean)
    }

    /// The metric called `name`, over all seeds.
    #[must_use]
    pub fn named(&self, cell: usize, name: &str) -> Option<Mean> {
        let (place, metric) = metric::find(name)?;
        self.mean(cell, place, metric)
    }

    /// The mean distribution of this name over all seeds.
    #[must_use]
    pub fn dist(&self, cell: usize, name: &str) -> Option<Dist> {
        Dist::average(self.observed[cell].iter().filter_map(|o| o.dist(name)))
    }

    /// Share of seeds that collapsed, by mean TTFT.
    #[must_use]
    pub fn collapsed(&self, cell: usize) -> Option<f64> {
        let (place, _) = metric::find("ttft_ms.mean")?;
        let values: Vec<f64> = self.by_seed(cell, place).into_iter().flatten().collect();
        stats::collapsed(&values)
    }

    /// The index of the cell with this workload, fleet and system.
    #[must_use]
    pub fn at(&self, workload: usize, fleet: usize, system: &str) -> Option<usize> {
        self.cells.iter().position(|c| {
            c.workload == workload && c.fleet == fleet && self.plan.system(*c) == system
        })
    }

    /// The index of the workload called `name`.
    #[must_use]
    pub fn workload(&self, name: &str) -> Option<usize> {
        self.plan.workloads.iter().position(|(workload, _)| workload.name == name)
    }

    /// The index of the fleet called `name`.
    #[must_use]
    pub fn fleet(&self, name: &str) -> Option<usize> {
        self.plan.fleets.iter().position(|fleet| fleet.name == name)
    }

    /// Broken invariants of all runs, in words, with their cells.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (cell, seeds) in self.cells.iter().zip(&self.observed) {
            for (seed, observed) in self.seeds.iter().zip(seeds) {
                let (workload, fleet) = (self.plan.workload(*cell), self.plan.fleet(*cell));
                let at = format!("{workload}, {fleet}, {}", self.plan.system(*cell));
                let words = observed.violations.iter();
                found.extend(words.map(|v| format!("{at}, seed {seed}: {v}")));
            }
        }
        found
    }
}
