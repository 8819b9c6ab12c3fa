//! Rows of nested values as one table, for spreadsheets and data frames.
//!
//! One table is written as CSV and, with the feature `parquet`, as Parquet. Both have the same columns.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::table::Table;

/// Rows with a column for each field, in the order in which the fields are met. A field in another one
/// has a dot in its name, and an interval has `.low` and `.high`.
#[derive(Clone, Debug, PartialEq)]
pub struct Flat {
    /// The names of the columns.
    pub(super) names: Vec<String>,
    /// The rows, each as long as the names; `null` where a row has no value.
    pub(super) rows: Vec<Vec<Value>>,
}

impl Flat {
    /// The table of these rows.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = Vec<(String, Value)>>) -> Flat {
        let rows: Vec<Vec<(String, Value)>> = rows
            .into_iter()
            .map(|fields| {
                let mut cells = Vec::new();
                fields.into_iter().for_each(|(name, value)| flatten(name, value, &mut cells));
                cells
            })
            .collect();
        let names = names(&rows);
        let cells = |row: Vec<(String, Value)>| {
            let cell = |name: &String| row.iter().find(|(other, _)| other == name);
            names.iter().map(|name| cell(name).map_or(Value::Null, |(_, v)| v.clone())).collect()
        };
        let rows = rows.into_iter().map(cells).collect();
        Flat { names, rows }
    }

    /// As CSV (RFC 4180). `null` is empty.
    #[must_use]
    pub fn csv(&self) -> String {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let mut table = Table::new("", &names);
        self.rows.iter().for_each(|row| table.row(row.iter().map(text)));
        table.csv()
    }

    /// Writes `NAME.csv` and, with the feature `parquet`, `NAME.parquet` into `dir`.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn write(&self, dir: &Path, name: &str) -> anyhow::Result<()> {
        let put = |ending: &str, bytes: &[u8]| {
            let path = dir.join(format!("{name}.{ending}"));
            std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
        };
        put("csv", self.csv().as_bytes())?;
        #[cfg(feature = "parquet")]
        put("parquet", &super::parquet::bytes(self)?)?;
        Ok(())
    }
}

/// The fields of an object: those named first, then the others.
#[must_use]
pub fn fields(mut object: Map<String, Value>, first: &[&str]) -> Vec<(String, Value)> {
    let first = first.iter().filter_map(|name| object.remove_entry(*name)).collect::<Vec<_>>();
    first.into_iter().chain(object).collect()
}

/// A value as the text of a cell.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn names(rows: &[Vec<(String, Value)>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    // A nested field that is `null` in one row has no column of its own.
    let all = names.clone();
    let is_nested = |name: &str| {
        let inner =
            |other: &String| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        all.iter().any(inner)
    };
    names.retain(|name| !is_nested(name));
    names
}

fn flatten(name: String, value: Value, cells: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(object) => {
            object.into_iter().for_each(|(inner, value)| {
                flatten(format!("{name}.{inner}"), value, cells);
            });
        }
        Value::Array(ends) if ends.len() == 2 && ends.iter().all(Value::is_number) => {
            let named = ["low", "high"].iter().zip(ends);
            named.for_each(|(end, value)| flatten(format!("{name}.{end}"), value, cells));
        }
        other => cells.push((name, other)),
    }
}

#[cfg(test)]
mod tests {
    use crate::flat::*;
    use serde_json::json;

    // Nested fields and intervals have columns, also if the first row lacks them.
    #[test]
    fn nested_fields_have_columns() {
        let row = |value: Value| match value {
            Value::Object(object) => fields(object, &["system"]),
            _ => unreachable!("an object"),
        };
        let rows = [
            json!({"lost": 0, "system": "a", "ttft_ms": null, "cct_ms": null}),
            json!({"lost": 2, "system": "b, c", "ttft_ms": {"mean": 1.5}, "ci": {"mean": [1, 2.5]}}),
        ];
        let csv = Flat::new(rows.map(row)).csv();
        let wanted = "system,cct_ms,lost,ci.mean.low,ci.mean.high,ttft_ms.mean\na,,0,,,\n\
                      \"b, c\",,2,1,2.5,1.5\n";
        assert_eq!(csv, wanted);
    }
}
