//! One system against the others, cell by cell: the pairs and the columns of a table.

use serde::Deserialize;

use super::Half;

/// Comparisons of one system with every other in its cell: a workload on a fleet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Duels {
    /// The name of the system that is compared.
    pub ours: String,
    /// The pairs in which a system leaves requests unanswered, so that its latencies lack the worst.
    #[serde(default)]
    pub unanswered: Unanswered,
    /// Tables.
    pub tables: Vec<DuelTable>,
    /// What is to hold in every pair.
    #[serde(default)]
    pub targets: Vec<DuelTarget>,
}

/// What becomes of a pair in which a system leaves requests unanswered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// It is left out.
    #[default]
    LeftOut,
    /// It is left out if the other does so. Ours is behind where it does so.
    OursBehind,
    /// It is compared like the others.
    Compared,
}

/// A table of pairs, or of groups of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DuelTable {
    /// Its title. `{count}` stands for the number of its pairs, `{all}` for that before `that`,
    /// `{alone}` for a remark about the cells without a pair.
    pub title: String,
    /// Its pairs.
    #[serde(default)]
    pub of: Pairs,
    /// What names a row.
    pub by: Vec<DuelKey>,
    /// A row for each set of names, over all its pairs, in place of one for each pair.
    #[serde(default)]
    pub grouped: bool,
    /// The score of each cell in a column of its own, in place of `columns`.
    #[serde(default)]
    pub across: bool,
    /// A row for each metric of the score of each pair, in place of `columns`.
    #[serde(default)]
    pub metrics: bool,
    /// Further columns: a metric is the cost of the other over ours.
    #[serde(default)]
    pub columns: Vec<DuelColumn>,
    /// Ratios as differences in percent.
    #[serde(default)]
    pub percent: bool,
    /// Digits of ratios.
    #[serde(default = "two")]
    pub digits: usize,
    /// The worst score for ours first.
    #[serde(default)]
    pub worst_first: bool,
    /// Most rows.
    pub most: Option<usize>,
}

/// A target for all pairs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DuelTarget {
    /// Its statement.
    pub what: String,
    /// Its pairs.
    #[serde(default)]
    pub of: Pairs,
    /// A pair with this result misses it.
    pub never: Option<Judged>,
    /// The terms, by system over all its pairs, without which the score is worse: each is to be one.
    #[serde(default)]
    pub pays: bool,
}

/// A choice of pairs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pairs {
    /// With systems whose replicas serve whole requests, or with the others.
    pub whole: Option<bool>,
    /// On workloads of this half.
    pub half: Option<Half>,
    /// One of several.
    pub pick: Option<Pick>,
    /// With this result.
    pub that: Option<Judged>,
}

/// Which of several pairs counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The system of the best score in a cell.
    BestRival,
    /// The fleet of the best score for ours, of those with the same last word in their name.
    BestFleet,
}

/// A result of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// Surely the better score.
    Best,
    /// Not surely the better score.
    NotBest,
    /// Surely the worse score by more than 1 %, or requests that are not answered.
    Behind,
    /// Another system is better by more than 1 % on every metric of the score.
    Dominated,
}

/// What names a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DuelKey {
    /// The workload.
    Workload,
    /// The workload without its level.
    Base,
    /// The level of the load.
    Load,
    /// The half of the workload.
    Half,
    /// The fleet.
    Fleet,
    /// The first word of the fleet's name.
    Shape,
    /// The other system.
    System,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum DuelColumn {
    /// A result.
    Of(Fact),
    /// A metric.
    Metric(String),
}

/// A column about the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The number of pairs.
    Cells,
    /// Pairs in which a system dominates ours.
    Dominated,
    /// Pairs in which ours is surely the best.
    Best,
    /// Pairs in which neither is surely better.
    Level,
    /// Pairs in which ours is behind.
    Behind,
    /// The score of the other over ours: above 1, ours is better.
    Score,
    /// Its interval.
    Interval,
    /// The result in a word.
    Result,
    /// Whether the term that the other system lacks pays.
    Term,
    /// The system that dominates ours.
    DominatedBy,
    /// The share of requests that ours splits over two replicas.
    Split,
}

fn two() -> usize {
    2
}
