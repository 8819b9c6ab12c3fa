//! `results.json`: the results of an experiment, for programs.

use meridian_tools::metric;
use meridian_tools::results::nest;
use serde_json::{Map, Value, json};

use super::build;
use super::grid::Grid;

/// The rows of a grid, one per cell: metrics as means over seeds (sums for counts of failures),
/// `null` if they do not apply, with the 95 % intervals and the share of collapsed seeds.
#[must_use]
pub fn rows(grid: &Grid<'_>) -> Vec<Value> {
    (0..grid.cells.len()).map(|i| row(grid, i)).collect()
}

fn row(grid: &Grid<'_>, i: usize) -> Value {
    let cell = grid.cells[i];
    let (system, policy, _) = &grid.plan.systems[cell.system];
    let mut row = Map::new();
    row.insert("system".into(), json!(system.name));
    row.insert("workload".into(), json!(grid.plan.workload(cell)));
    row.insert("fleet".into(), json!(grid.plan.fleet(cell)));
    row.insert("topology".into(), json!(build::topology_name(&system.topology)));
    row.insert("admission".into(), json!(build::admission(system, policy).name()));
    row.insert("policy".into(), json!(policy.name));
    let mut intervals = Map::new();
    for (place, metric) in metric::all().enumerate() {
        let mean = grid.mean(i, place, metric);
        let value = match mean {
            Some(m) if metric.sum => json!(m.mean as u64),
            mean => json!(mean.map(|m| m.mean)),
        };
        nest(&mut row, metric.name, value);
        if let Some(m) = mean.filter(|_| !metric.sum) {
            nest(&mut intervals, metric.name, json!([m.low, m.high]));
        }
    }
    row.insert("intervals".into(), Value::Object(intervals));
    let outages = grid.plan.workloads[cell.workload].0.faults.len();
    if outages > 0 {
        row.insert("outages".into(), json!(outages));
    }
    row.insert("collapsed".into(), json!(grid.collapsed(i)));
    Value::Object(row)
}
