//! Values by seed, in rows that are named by system, workload and fleet: simulated ones, those that an
//! experiment's own code computed, and published ones. Claims and tables read nothing else.

use std::collections::BTreeMap;

use meridian_tools::{metric, results, stats};
use serde_json::{Value, json};

use super::grid::Grid;
use super::spec::{self, Published, PublishedTable, Quantity, RowName, Spec};

/// Rows of values.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// The rows, in the order of the tables.
    pub rows: Vec<Row>,
}

/// Values of one system under one workload on one fleet.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The system.
    pub system: String,
    /// The workload.
    pub workload: String,
    /// The fleet; empty if there is none.
    pub fleet: String,
    values: BTreeMap<String, Vec<Option<f64>>>,
}

impl Row {
    /// A row without values.
    #[must_use]
    pub fn new(system: &str, workload: &str, fleet: &str) -> Row {
        let [system, workload, fleet] = [system, workload, fleet].map(str::to_owned);
        Row { system, workload, fleet, values: BTreeMap::new() }
    }

    /// The row with a value of a quantity for each seed.
    #[must_use]
    pub fn with(mut self, quantity: &str, seeds: impl IntoIterator<Item = f64>) -> Row {
        self.values.insert(quantity.to_owned(), seeds.into_iter().map(Some).collect());
        self
    }

    /// The row with a value of a quantity for each seed, or none for a seed that has none.
    #[must_use]
    pub fn with_seeds(mut self, quantity: &str, seeds: Vec<Option<f64>>) -> Row {
        self.values.insert(quantity.to_owned(), seeds);
        self
    }

    /// One of its names.
    #[must_use]
    pub fn name(&self, name: RowName) -> &str {
        match name {
            RowName::System => &self.system,
            RowName::Workload => &self.workload,
            RowName::Fleet => &self.fleet,
        }
    }

    /// The values of a quantity for each seed; none if it has none.
    #[must_use]
    pub fn seeds(&self, quantity: &str) -> &[Option<f64>] {
        self.values.get(quantity).map_or(&[], Vec::as_slice)
    }

    /// The seeds that have a value.
    #[must_use]
    pub fn known(&self, quantity: &str) -> Vec<f64> {
        self.seeds(quantity).iter().copied().flatten().collect()
    }
}

impl Values {
    /// All metrics of a grid.
    #[must_use]
    pub fn of(grid: &Grid<'_>) -> Values {
        let row = |at: usize| {
            let cell = grid.cells[at];
            let (system, workload) = (grid.plan.system(cell), grid.plan.workload(cell));
            let mut row = Row::new(system, workload, grid.plan.fleet(cell));
            for (place, metric) in metric::all().enumerate() {
                row.values.insert(metric.name.to_owned(), grid.by_seed(at, place));
            }
            row
        };
        Values { rows: (0..grid.cells.len()).map(row).collect() }
    }

    /// The published values: those of the tables, and of figures that state one value of one system.
    #[must_use]
    pub fn published(spec: &Spec) -> Values {
        let mut all = Values::default();
        for PublishedTable { fleet, columns, rows } in &spec.published_tables {
            for (workload, systems) in rows {
                for (system, values) in systems {
                    let row = Row::new(system, workload, fleet);
                    let known = columns.iter().zip(values).filter_map(|(c, v)| Some((c, (*v)?)));
                    all.rows.push(known.fold(row, |row, (c, v)| row.with(c, [v])));
                }
            }
        }
        for figure in &spec.published {
            let Published { metric, of, workloads, value, .. } = figure;
            if !figure.is_plain() {
                continue;
            }
            let (Some([value, _]), [system]) = (value.and_then(spec::Value::ends), &of[..]) else {
                continue;
            };
            let any = [String::new()];
            for workload in if workloads.is_empty() { &any[..] } else { workloads } {
                all.rows.push(Row::new(system, workload, "").with(metric, [value]));
            }
        }
        all.derived(&spec.quantities)
    }

    /// With the derived quantities.
    #[must_use]
    pub fn derived(mut self, quantities: &[Quantity]) -> Values {
        for one in quantities {
            let (Some(of), Some(at)) = (&one.of, &one.at) else { continue };
            let (from, compare): (_, fn(f64, f64) -> f64) = match (&one.minus, &one.over) {
                (Some(from), _) => (from, |a, b| a - b),
                (_, Some(from)) => (from, |a, b| a / b),
                _ => continue,
            };
            for nth in 0..self.rows.len() {
                let row = &self.rows[nth];
                let base = self.at(&row.system, from, &row.fleet);
                let Some(base) = base.filter(|_| row.workload == *at) else { continue };
                let both = row.seeds(of).iter().zip(base.seeds(of));
                let seeds = both.map(|(a, b)| Some(compare((*a)?, (*b)?))).collect();
                self.rows[nth].values.insert(one.name.clone(), seeds);
            }
        }
        self
    }

    /// The row with these names.
    #[must_use]
    pub fn at(&self, system: &str, workload: &str, fleet: &str) -> Option<&Row> {
        let is =
            |row: &&Row| row.system == system && row.workload == workload && row.fleet == fleet;
        self.rows.iter().find(is)
    }

    /// The published value for a row of ours. A published row without a workload or fleet is about
    /// all of them.
    #[must_use]
    pub fn stated(&self, ours: &Row, quantity: &str) -> Option<f64> {
        let about = |stated: &str, name: &str| stated.is_empty() || stated == name;
        let is = |row: &&Row| {
            row.system == ours.system
                && about(&row.workload, &ours.workload)
                && about(&row.fleet, &ours.fleet)
        };
        self.rows.iter().filter(is).find_map(|row| row.known(quantity).first().copied())
    }

    /// The workloads and fleets, in the order of the rows.
    #[must_use]
    pub fn places(&self) -> Vec<[&str; 2]> {
        let mut places = Vec::new();
        for row in &self.rows {
            let place = [row.workload.as_str(), row.fleet.as_str()];
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    /// The rows of `results.json`: means over seeds.
    #[must_use]
    pub fn results(&self) -> Vec<Value> {
        let row = |row: &Row| {
            let mut given = vec![("fleet".to_owned(), json!(row.fleet))];
            for name in row.values.keys() {
                // A mean over the seeds that have a value would be of the better ones only.
                let is_whole = !row.seeds(name).contains(&None);
                let mean = stats::mean(&row.known(name)).filter(|_| is_whole);
                given.push((name.clone(), json!(mean.map(|m| m.mean))));
                given.push((format!("intervals.{name}"), json!(mean.map(|m| [m.low, m.high]))));
            }
            let given: Vec<(&str, Value)> =
                given.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            results::bare(&row.system, &row.workload, &given)
        };
        self.rows.iter().map(row).collect()
    }
}
