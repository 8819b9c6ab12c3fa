//! The harness of the project's measurements of itself: figures with targets, their table and file.
//!
//! A measurement adds figures to [`Results`], which prints and writes them at the end: a line for each
//! figure, a column for each case. A missed target shows in the table and is not an error: the machine
//! may be busy.

mod clock;

use std::iter;
use std::path::{Path, PathBuf};

use meridian_tools::table::Table;
use meridian_tools::{commit, outputs};
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::clock::{Quantiles, apart, cpu_time, memory, sample, tell};

/// The last columns of the table.
const LAST: [&str; 3] = ["target", "unit", "met"];

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    #[serde(skip_serializing_if = "String::is_empty")]
    case: String,
    name: String,
    unit: &'static str,
    /// `None` if it could not be measured.
    value: Option<f64>,
    target: Option<f64>,
    met: Option<bool>,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip)]
    sign: &'static str,
}

impl Figure {
    /// Sets the highest value that meets the target.
    pub(crate) fn at_most(&mut self, target: f64) {
        self.limit("<=", target, |value| value <= target);
    }

    /// Sets the lowest value that meets the target.
    pub(crate) fn at_least(&mut self, target: f64) {
        self.limit(">=", target, |value| value >= target);
    }

    fn limit(&mut self, sign: &'static str, target: f64, is_met: impl Fn(f64) -> bool) {
        (self.sign, self.target, self.met) = (sign, Some(target), self.value.map(is_met));
    }

    /// `<= 3`; empty without a target.
    fn limit_text(&self) -> String {
        self.target.map_or_else(String::new, |target| format!("{} {target}", self.sign))
    }

    fn value_text(&self) -> String {
        match self.value {
            None => "-".to_owned(),
            Some(value) if value.fract() == 0.0 || value.abs() >= 1e3 => format!("{value:.0}"),
            Some(value) => format!("{value:.2}"),
        }
    }
}

/// The figures of a measurement, with the settings that they depend on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Results {
    bench: &'static str,
    commit: String,
    #[serde(flatten)]
    settings: Value,
    rows: Vec<Figure>,
    #[serde(skip)]
    case: String,
    #[serde(skip)]
    file: PathBuf,
}

impl Results {
    /// Results without figures. `settings` is a JSON object, which the table and the file begin with.
    ///
    /// # Errors
    /// When `file` can't be written: better before a long measurement than after it.
    pub(crate) fn new(
        bench: &'static str,
        settings: Value,
        file: &Path,
    ) -> anyhow::Result<Results> {
        outputs::prepare("--json", file)?;
        let (file, case) = (file.to_owned(), String::new());
        Ok(Results { bench, commit: commit(), settings, rows: Vec::new(), case, file })
    }

    /// Begins a case, to which the next figures belong.
    pub(crate) fn case(&mut self, name: impl Into<String>) {
        self.case = name.into();
    }

    /// Takes the targets off: the cases so far are an earlier build's, to compare with.
    pub(crate) fn no_targets(&mut self) {
        self.rows.iter_mut().for_each(|figure| (figure.target, figure.met) = (None, None));
    }

    /// Adds a figure, which can then get a target.
    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        value: f64,
    ) -> &mut Figure {
        let (case, name, value) = (self.case.clone(), name.into(), Some(value));
        let (target, met, why, sign) = (None, None, None, "");
        self.rows.push_mut(Figure { case, name, unit, value, target, met, why, sign })
    }

    /// Adds a figure that could not be measured, with the reason.
    pub(crate) fn missing(&mut self, name: impl Into<String>, unit: &'static str, why: String) {
        let figure = self.add(name, unit, 0.0);
        (figure.value, figure.why) = (None, Some(why));
    }

    /// Adds the median and the 99th percentile, each with its highest value if it has a target.
    pub(crate) fn times(&mut self, name: &str, times: &Quantiles, most: [Option<f64>; 2]) {
        for (part, value, most) in [("p50", times.p50, most[0]), ("p99", times.p99, most[1])] {
            let figure = self.add(format!("{name}, {part}"), "us", value);
            most.into_iter().for_each(|most| figure.at_most(most));
        }
    }

    /// Prints the table and writes the file.
    ///
    /// # Errors
    /// When the file can't be written.
    pub(crate) fn finish(&self) -> anyhow::Result<()> {
        println!("{self}");
        outputs::write_json(self, &self.file)
    }

    fn table(&self) -> Table {
        let settings = self.settings.as_object().into_iter().flatten();
        let settings: Vec<String> = settings.map(|(key, value)| format!("{key} {value}")).collect();
        let title = [self.bench, &settings.join(", ")].join(" ").trim_end().to_owned();
        let (mut cases, mut lines) = (Vec::new(), Vec::new());
        for figure in &self.rows {
            if !cases.contains(&&*figure.case) {
                cases.push(&*figure.case);
            }
            if !lines.contains(&(&*figure.name, figure.unit)) {
                lines.push((&*figure.name, figure.unit));
            }
        }
        let measured = cases.iter().map(|case| if case.is_empty() { "measured" } else { case });
        let header: Vec<&str> = iter::once("").chain(measured).chain(LAST).collect();
        let mut table = Table::new(title, &header);
        for (name, unit) in lines {
            let is_here = |figure: &&Figure| figure.name == name && figure.unit == unit;
            let here: Vec<&Figure> = self.rows.iter().filter(is_here).collect();
            let value = |case: &&str| {
                let found = here.iter().find(|figure| figure.case == **case);
                found.map_or_else(|| "-".to_owned(), |figure| figure.value_text())
            };
            let limit = here.iter().map(|figure| figure.limit_text()).find(|text| !text.is_empty());
            let mut verdicts = here.iter().filter_map(|figure| figure.met);
            let met = verdicts.next().map(|first| first && verdicts.all(|met| met));
            let met = met.map_or("", |met| if met { "yes" } else { "NO" });
            let last = [limit.unwrap_or_default(), unit.to_owned(), met.to_owned()];
            table.row(iter::once(name.to_owned()).chain(cases.iter().map(value)).chain(last));
        }
        table
    }
}

impl std::fmt::Display for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.table().text().trim_end())?;
        let mut reasons = self.rows.iter().filter_map(|row| Some((&row.name, row.why.as_ref()?)));
        reasons.try_for_each(|(name, why)| write!(f, "\n{name}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn results() -> Results {
        let file = std::env::temp_dir().join("meridian-harness.json");
        Results::new("test", json!({"peers": 3}), &file).expect("the folder is there")
    }

    // A list shows each figure with its target and the verdict, and why one is missing. The file has
    // the settings and the figures.
    #[test]
    fn lists_have_targets() {
        let mut results = results();
        results.add("decision", "us", 3.456).at_most(3.0);
        results.add("hashing", "GB/s", 24.0).at_least(8.0);
        results.times("matching", &Quantiles { p50: 1.0, p99: 2500.4 }, [Some(1.5), None]);
        results.missing("Vidur", "requests/s", "no Python".to_owned());
        let text = results.to_string();
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for line in [
            "decision 3.46 <= 3 us NO",
            "hashing 24 >= 8 GB/s yes",
            "matching, p50 1 <= 1.5 us yes",
            "matching, p99 2500 us",
            "Vidur - requests/s",
            "Vidur: no Python",
        ] {
            assert!(lines.iter().any(|shown| shown == line), "{line} in\n{text}");
        }
        let json = serde_json::to_value(&results).unwrap();
        assert_eq!((&json["bench"], &json["peers"]), (&json!("test"), &json!(3)));
        assert_eq!(
            json["rows"][0],
            json!({"name": "decision", "unit": "us", "value": 3.456, "target": 3.0, "met": false})
        );
    }

    // Cases are columns; a figure that a case lacks is a dash. A target is met if all cases meet it,
    // but those of an earlier build.
    #[test]
    fn cases_are_columns() {
        let mut results = results();
        let line = |results: &Results, name: &str| {
            let text = results.to_string();
            let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        results.case("file");
        results.add("sum", "%", 2.25).at_most(2.0);
        results.case("etcd");
        results.add("sum", "%", 1.5).at_most(2.0);
        results.add("etcd", "%", 12.5);
        assert!(results.to_string().starts_with("test peers 3\n"), "{results}");
        assert_eq!(line(&results, "sum"), "sum 2.25 1.50 <= 2 % NO");
        assert_eq!(line(&results, "etcd"), "etcd - 12.50 %");
        results.no_targets();
        results.case("new");
        results.add("sum", "%", 1.25).at_most(2.0);
        assert_eq!(line(&results, "sum"), "sum 2.25 1.50 1.25 <= 2 % yes");
    }
}
