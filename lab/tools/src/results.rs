//! `results.json`: results of an experiment or a simulation, for programs.

use serde_json::{Map, Value, json};

use crate::flat::{self, Flat};
use crate::metric;

/// Puts a value where its name says: a dot in the name is a nesting level.
pub fn nest(into: &mut Map<String, Value>, name: &str, value: Value) {
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
