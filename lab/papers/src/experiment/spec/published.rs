//! Published figures, and the tables that show ours beside them.
//!
//! A figure compares values of named quantities: the metrics of a run, values that an experiment's own
//! code computes, and quantities that are derived from these. Published tables are rows of the same
//! quantities, so a figure without a value of its own is computed from them as ours is.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A published figure: a value of `of`, or its comparison with `over`, `minus` or `saves_over`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Its statement. With `each`, `{workload}` and `{fleet}` stand for their names.
    pub what: String,
    /// Its source: section, figure, table.
    pub source: String,
    /// The quantity.
    pub metric: String,
    /// The systems it is about.
    pub of: Vec<String>,
    /// The figure is a ratio to each of these.
    #[serde(default)]
    pub over: Vec<String>,
    /// The figure is a difference from each of these.
    #[serde(default)]
    pub minus: Vec<String>,
    /// The figure is the share that is saved in comparison with each of these.
    #[serde(default)]
    pub saves_over: Vec<String>,
    /// Workloads it is about; all when empty.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Fleets it is about; all when empty.
    #[serde(default)]
    pub fleets: Vec<String>,
    /// The others run on this fleet instead of the same one.
    pub on: Option<String>,
    /// The others run this workload instead of the same one.
    pub against: Option<String>,
    /// A claim for each workload and fleet, in place of one over all of them.
    #[serde(default)]
    pub each: bool,
    /// The value, the ends of a range, a bound, or the word of a statement without a figure.
    /// Without one, the same comparison of the published tables.
    pub value: Option<Value>,
    /// Ours agrees if it differs from the value by at most this share of it, in place of the usual
    /// rules.
    pub within: Option<f64>,
}

/// A number, two that bound a range, one that bounds ours, or a word.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// What is published has no figure.
    Word(Word),
    /// A number.
    One(f64),
    /// From, to.
    Range([f64; 2]),
    /// A bound.
    Bound(Bound),
}

impl Value {
    /// The ends, equal for a single number; `None` if it has no figure.
    #[must_use]
    pub fn ends(self) -> Option<[f64; 2]> {
        match self {
            Value::Word(_) | Value::Bound(_) => None,
            Value::One(v) => Some([v, v]),
            Value::Range(ends) => Some(ends),
        }
    }
}

/// A comparison without a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Larger.
    More,
    /// Smaller.
    Less,
}

/// A bound of ours.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Ours is this or more.
    AtLeast(f64),
    /// Ours is this or less.
    AtMost(f64),
}

/// How a quantity is written, and how it is derived if it is not measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Its name.
    pub name: String,
    /// Digits after the point.
    #[serde(default)]
    pub digits: usize,
    /// Whether it is a share that is shown in percent.
    #[serde(default)]
    pub percent: bool,
    /// The quantity it is derived from: of the same system on the same fleet, under `at` compared
    /// with under the workload named by `minus` or `over`. It then belongs to the workload `at`.
    pub of: Option<String>,
    /// The workload of the quantity it is derived from.
    pub at: Option<String>,
    /// The difference from this workload.
    pub minus: Option<String>,
    /// The ratio to this workload.
    pub over: Option<String>,
}

/// A published table: values of quantities by workload and system.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedTable {
    /// The fleet, or an empty name if there is none.
    #[serde(default)]
    pub fleet: String,
    /// The quantities.
    pub columns: Vec<String>,
    /// By workload, then by system: a number for each column, or nothing.
    pub rows: BTreeMap<String, BTreeMap<String, Vec<Option<f64>>>>,
}

/// A table of quantities: a row for each system under each workload on each fleet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// Its title. With `each_fleet`, `{fleet}` stands for its name.
    pub title: String,
    /// Systems; all when empty.
    #[serde(default)]
    pub systems: Vec<String>,
    /// Workloads; all when empty.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Fleets; all when empty.
    #[serde(default)]
    pub fleets: Vec<String>,
    /// A table for each fleet, the last one first.
    #[serde(default)]
    pub each_fleet: bool,
    /// A row for each seed, numbered in the last label, in place of one for all.
    #[serde(default)]
    pub each_seed: bool,
    /// The first columns: names of the row, with their headers.
    #[serde(default)]
    pub labels: Vec<Label>,
    /// The other columns.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// In place of these, a row for each figure that states a value of one system, with the range of
    /// single runs. There is none with a single seed.
    #[serde(default)]
    pub stated: bool,
}

/// A column with names.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// What it says.
    pub name: RowName,
    /// Its head; `name` if empty.
    #[serde(default)]
    pub head: String,
}

/// What names a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowName {
    /// The system.
    System,
    /// The workload.
    Workload,
    /// The fleet.
    Fleet,
}

/// A column with values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The quantity.
    pub metric: String,
    /// Its head; the quantity's name if empty.
    #[serde(default)]
    pub head: String,
    /// The ratio to this system in the same row.
    pub over: Option<String>,
    /// The share saved in comparison with this system in the same row.
    pub saves_over: Option<String>,
    /// The share saved in comparison with the same system and workload on this fleet.
    pub saves_on: Option<String>,
    /// What is shown.
    #[serde(default)]
    pub show: Show,
    /// Whether its values are drawn as bars, too.
    #[serde(default)]
    pub bars: bool,
}

/// What a column shows of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Show {
    /// The mean over seeds if all have a value, with its interval if they differ.
    #[default]
    Interval,
    /// The mean over seeds.
    Mean,
    /// The least and the largest of the seeds.
    Range,
    /// The published value.
    Published,
    /// Whether the published value lies within the least and the largest of the seeds.
    Within,
}
