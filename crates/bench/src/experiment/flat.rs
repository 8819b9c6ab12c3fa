//! Rows of nested values as one table, for spreadsheets and data frames.

use serde_json::{Map, Value};

use super::table::Table;

/// A table with a column for each field of the rows, in the order in which they are met. A field in
/// another one has a dot in its name, and an interval has `.low` and `.high`. `null` is empty.
#[must_use]
pub fn table(rows: impl IntoIterator<Item = Vec<(String, Value)>>) -> Table {
    let rows: Vec<Vec<(String, String)>> = rows
        .into_iter()
        .map(|fields| {
            let mut cells = Vec::new();
            fields.into_iter().for_each(|(name, value)| flatten(name, value, &mut cells));
            cells
        })
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    // A nested field that is `null` in one row has no column of its own.
    let all = names.clone();
    let is_nested = |name: &str| {
        let inner =
            |other: &&str| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        all.iter().any(inner)
    };
    names.retain(|name| !is_nested(name));
    let mut table = Table::new("", &names);
    for row in &rows {
        let cell = |name: &&str| {
            let found = row.iter().find(|(other, _)| other == name);
            found.map_or(String::new(), |(_, cell)| cell.clone())
        };
        table.row(names.iter().map(cell));
    }
    table
}

/// The fields of an object: those named first, then the others.
#[must_use]
pub fn fields(mut object: Map<String, Value>, first: &[&str]) -> Vec<(String, Value)> {
    let first = first.iter().filter_map(|name| object.remove_entry(*name)).collect::<Vec<_>>();
    first.into_iter().chain(object).collect()
}

fn flatten(name: String, value: Value, cells: &mut Vec<(String, String)>) {
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
        Value::Null => cells.push((name, String::new())),
        Value::String(text) => cells.push((name, text)),
        other => cells.push((name, other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let csv = table(rows.map(row)).csv();
        let wanted = "system,cct_ms,lost,ci.mean.low,ci.mean.high,ttft_ms.mean\na,,0,,,\n\
                      \"b, c\",,2,1,2.5,1.5\n";
        assert_eq!(csv, wanted);
    }
}
