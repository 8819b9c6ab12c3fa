//! The figures of a run, their targets, the table and the file.

use serde_json::{Value, json};

use meridian_tools::commit;
use meridian_tools::table::Table;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) value: f64,
    /// The most that it should be.
    pub(super) target: Option<f64>,
}

/// The figures of one build.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures(Vec<Figure>);

impl Figures {
    pub(super) fn add(&mut self, name: &'static str, unit: &'static str, value: f64) {
        self.0.push(Figure { name, unit, value, target: None });
    }

    pub(super) fn at_most(
        &mut self,
        name: &'static str,
        unit: &'static str,
        value: f64,
        target: f64,
    ) {
        self.0.push(Figure { name, unit, value, target: Some(target) });
    }
}

/// KB of each of `count` by which memory grew, in bytes.
pub(super) fn kb_each(before: u64, after: u64, count: usize) -> f64 {
    (after as f64 - before as f64) / 1e3 / count.max(1) as f64
}

/// A row for each figure, a column for each build.
pub(super) fn table(builds: &[(&'static str, Figures)]) -> Table {
    let mut header = vec!["figure"];
    header.extend(builds.iter().map(|(name, _)| *name));
    header.extend(["target", "result"]);
    let mut table = Table::new("Many connections", &header);
    let Some((_, first)) = builds.first() else { return table };
    for (row, figure) in first.0.iter().enumerate() {
        let of = |figures: &Figures| figures.0.get(row).map_or(0.0, |figure| figure.value);
        let digits = usize::from(!figure.unit.is_empty());
        let mut cells = vec![match figure.unit {
            "" => figure.name.to_owned(),
            unit => format!("{}, {unit}", figure.name),
        }];
        cells.extend(builds.iter().map(|(_, figures)| format!("{:.digits$}", of(figures))));
        let newest = builds.last().map_or(0.0, |(_, figures)| of(figures));
        let target = figure.target;
        cells.push(target.map_or_else(String::new, |target| format!("<= {target}")));
        cells.push(match target {
            Some(target) if newest <= target => "met".to_owned(),
            Some(_) => "MISSED".to_owned(),
            None => String::new(),
        });
        table.row(cells);
    }
    table
}

/// The file of results.
pub(super) fn json(builds: &[(&'static str, Figures)]) -> Value {
    let rows = builds.iter().flat_map(|(build, figures)| {
        figures.0.iter().map(move |figure| {
            let mut row = json!({
                "name": format!("{}.{build}", figure.name), "unit": figure.unit,
                "value": figure.value,
            });
            if let Some(target) = figure.target {
                row["target"] = target.into();
                row["met"] = (figure.value <= target).into();
            }
            row
        })
    });
    json!({"bench": "streams", "commit": commit(), "rows": rows.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    // Memory is shared out, and may have shrunk.
    #[test]
    fn memory_of_each() {
        assert_eq!(kb_each(1_000_000, 3_000_000, 100), 20.0);
        assert_eq!(kb_each(2000, 1000, 1), -1.0);
        assert_eq!(kb_each(0, 1000, 0), 1.0);
    }

    // The newest build is held against the targets; every figure is a row of the file.
    #[test]
    fn targets_are_the_newest_builds() {
        let figures = |kb: f64| {
            let mut figures = Figures::default();
            figures.add("streams", "", 10.0);
            figures.at_most("memory", "KB", kb, 16.0);
            figures
        };
        let builds = [("before", figures(20.0)), ("meridian", figures(12.0))];
        let text = table(&builds).text();
        assert!(text.contains("memory, KB") && text.contains("20.0"), "{text}");
        assert!(text.contains("met") && !text.contains("MISSED"), "{text}");
        let reversed = [builds[1].clone(), builds[0].clone()];
        assert!(table(&reversed).text().contains("MISSED"));
        let rows = json(&builds)["rows"].clone();
        assert_eq!(rows.as_array().map(Vec::len), Some(4));
        assert_eq!(rows[1]["name"], "memory.before");
        assert_eq!(rows[1]["met"], false);
    }
}
