//! `results.json`: the results of an experiment, for programs.

use serde_json::{Map, Value, json};

use super::build;
use super::flat::{self, Flat};
use super::grid::Grid;
use super::metric;

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

/// A dot in the name is a nesting level.
fn nest(into: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            into.insert(name.to_owned(), value);
        }
        Some((outer, inner)) => {
            let level = into.entry(outer).or_insert_with(|| json!({}));
            if let Value::Object(level) = level {
                nest(level, inner, value);
            }
        }
    }
}

/// A row of an experiment with custom code: the same fields, `null` except those in `given`.
#[must_use]
pub fn bare(system: &str, workload: &str, given: &[(&str, Value)]) -> Value {
    let mut row = Map::new();
    row.insert("system".into(), json!(system));
    row.insert("workload".into(), json!(workload));
    row.insert("topology".into(), Value::Null);
    row.insert("admission".into(), Value::Null);
    metric::all().for_each(|m| nest(&mut row, m.name, Value::Null));
    for (name, value) in given {
        nest(&mut row, name, value.clone());
    }
    Value::Object(row)
}

/// The rows as a table with a column for each field.
#[must_use]
pub fn flat(rows: &[Value]) -> Flat {
    let objects = rows.iter().filter_map(Value::as_object).cloned();
    let first = ["system", "policy", "workload", "fleet", "topology", "admission"];
    Flat::new(objects.map(|row| flat::fields(row, &first)))
}

/// The whole file.
#[must_use]
pub fn file(experiment: &str, commit: &str, seeds: u32, rows: Vec<Value>, params: &str) -> Value {
    json!({
        "experiment": experiment, "commit": commit, "seeds": seeds, "rows": rows, "params": params,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every field of the published form is present, also without a measurement.
    #[test]
    fn a_bare_row_has_every_field() {
        let row = bare("ours", "chat", &[("ttft_ms.mean", json!(5.0)), ("slope_ms", json!(0.09))]);
        for field in [
            "system",
            "workload",
            "topology",
            "admission",
            "throughput_rps",
            "output_tps",
            "goodput_rps",
            "e2e_ms",
            "tpot_ms",
            "prefix_hit_ratio",
            "outstanding_spread",
            "forwarded_ratio",
            "forwarded_worse_ratio",
            "slo_attainment",
            "cct_ms",
            "earliness_ms",
            "usd_per_hour",
            "lost",
            "violations",
        ] {
            assert!(row.get(field).is_some(), "{field} is missing");
        }
        for quantile in ["mean", "p50", "p90", "p95", "p99"] {
            assert!(row["ttft_ms"].get(quantile).is_some(), "{quantile} is missing");
        }
        assert_eq!((&row["ttft_ms"]["mean"], &row["slope_ms"]), (&json!(5.0), &json!(0.09)));
    }
}
