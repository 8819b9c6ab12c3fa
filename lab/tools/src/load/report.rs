//! The report of a run, in the form of all experiments' results, plus the fields of live runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Check, ErrorKind, Options, Record};
use crate::stats::sorted_quantile;

/// Quantiles in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Quantiles {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
}

impl Quantiles {
    /// The quantiles of `values`; `None` without values.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Quantiles> {
        values.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let at = |share| sorted_quantile(&values, share);
        Some(Quantiles { mean, p50: at(0.5)?, p90: at(0.9)?, p95: at(0.95)?, p99: at(0.99)? })
    }

    /// Each figure of several runs as one: `one` gets that figure of every run. `None` without runs.
    #[must_use]
    pub fn each(runs: &[Quantiles], one: impl Fn(&[f64]) -> f64) -> Option<Quantiles> {
        let of = |figure: fn(&Quantiles) -> f64| one(&runs.iter().map(figure).collect::<Vec<_>>());
        (!runs.is_empty()).then(|| Quantiles {
            mean: of(|q| q.mean),
            p50: of(|q| q.p50),
            p90: of(|q| q.p90),
            p95: of(|q| q.p95),
            p99: of(|q| q.p99),
        })
    }

    /// The mean of each figure of several runs; `None` without runs.
    #[must_use]
    pub fn mean_of(runs: &[Quantiles]) -> Option<Quantiles> {
        Quantiles::each(runs, |all| all.iter().sum::<f64>() / all.len() as f64)
    }
}

/// TTFT of the same requests elsewhere: as recorded, or in the simulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Where.
    pub name: String,
    /// TTFT there; of several runs, the mean of each figure.
    pub ttft_ms: Quantiles,
    /// The least and the most of each figure, if there were several runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_ms: Option<[Quantiles; 2]>,
}

impl Beside {
    /// TTFT of `runs` at `name`; `None` without any.
    #[must_use]
    pub fn of(name: &str, runs: &[Quantiles]) -> Option<Beside> {
        let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |all: &[f64]| all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = [Quantiles::each(runs, least)?, Quantiles::each(runs, most)?];
        Some(Beside {
            name: name.to_owned(),
            ttft_ms: Quantiles::mean_of(runs)?,
            range_ms: (runs.len() > 1).then_some(range),
        })
    }
}

/// The client's counts over the whole run, including the warm-up. `sent == ok + aborted + errors`,
/// once the run has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests started.
    pub sent: u64,
    /// Complete answers.
    pub ok: u64,
    /// Requests whose client disconnected on purpose.
    pub aborted: u64,
    /// All others.
    pub errors: u64,
    /// Of those, without any piece of an answer.
    #[serde(default)]
    pub bare: u64,
    /// Most requests in flight at a time.
    #[serde(default)]
    pub most_in_flight: u64,
    /// Attempts without a byte of an answer, after which the request was retried elsewhere.
    #[serde(default)]
    pub moved: u64,
    /// Programs started.
    pub programs: u64,
    /// Requests never sent because an earlier one in their program failed.
    pub lost_below: u64,
    /// Programs that an open loop did not start because the limit was reached.
    pub shed: u64,
    /// Tokens of the replies.
    pub output_tokens: u64,
    /// Tokens of the prompts, by the engines' count.
    pub prompt_tokens: u64,
    /// Of those, tokens of prompts whose engine reported cached tokens.
    pub known_prompt_tokens: u64,
    /// Cached tokens.
    pub cached_tokens: u64,
}

impl Counts {
    /// Requests that have ended, with any outcome.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ok + self.aborted + self.errors
    }

    /// Cached share of the prompt tokens; `None` if no engine reported it.
    #[must_use]
    pub fn cached_share(&self) -> Option<f64> {
        let known = self.known_prompt_tokens;
        (known > 0).then(|| self.cached_tokens as f64 / known as f64)
    }
}

/// The prefixes that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warmed {
    /// Prefixes.
    pub prefixes: u64,
    /// Prompts sent: one for each prefix and endpoint.
    pub prompts: u64,
    /// Those without a complete answer.
    pub failed: u64,
    /// Tokens of the others, by the engines' count.
    pub prompt_tokens: u64,
}

/// Counts of one replica, by the response header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaCounts {
    /// Answers of any kind.
    pub requests: u64,
    /// Whole ones.
    pub ok: u64,
    /// Tokens of prompts whose cached share is known.
    pub prompt_tokens: u64,
    /// Cached ones among them.
    pub cached_tokens: u64,
    /// Tokens of replies.
    pub output_tokens: u64,
}

/// One row of results; fields that do not apply to a live run are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Row {
    pub system: String,
    pub workload: String,
    pub topology: Option<String>,
    pub admission: Option<String>,
    /// Whole answers a second, between the warm-up and the last start.
    pub throughput_rps: Option<f64>,
    /// Their tokens a second.
    pub output_tps: Option<f64>,
    /// Those of them within the objective, a second; null without an objective.
    pub goodput_rps: Option<f64>,
    pub ttft_ms: Option<Quantiles>,
    pub e2e_ms: Option<Quantiles>,
    pub tpot_ms: Option<Quantiles>,
    /// Cached share of the prompt tokens, by the engines' count.
    pub prefix_hit_ratio: Option<f64>,
    pub outstanding_spread: Option<f64>,
    pub forwarded_ratio: Option<f64>,
    pub forwarded_worse_ratio: Option<f64>,
    /// Share of the measured requests that were answered within the objective. Failed requests
    /// are not; those that their client cancelled do not count.
    pub slo_attainment: Option<f64>,
    pub cct_ms: Option<f64>,
    pub earliness_ms: Option<f64>,
    pub usd_per_hour: Option<f64>,
    /// Requests without an end: 0 unless the generator has a bug.
    pub lost: Option<u64>,
    pub violations: Option<u64>,
}

/// The report of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Always `bench`.
    pub experiment: String,
    /// Commit that was built, or the version.
    pub commit: String,
    /// The seed.
    pub seeds: Vec<u64>,
    /// One row.
    pub rows: Vec<Row>,
    /// Hash of the options.
    pub params: String,
    /// The options themselves.
    pub options: Options,
    /// Model asked for.
    pub model: String,
    /// Seconds between the end of the warm-up and the last start.
    pub window_s: f64,
    /// Counts of the whole run.
    pub counts: Counts,
    /// Errors by kind, with every kind listed.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Counts by replica.
    pub replicas: BTreeMap<String, ReplicaCounts>,
    /// How late the generator itself started programs; null in a closed loop.
    pub lateness_ms: Option<Quantiles>,
    /// The prefixes sent before the run, if requested.
    #[serde(default)]
    pub warmed: Option<Warmed>,
    /// Comparison with the gateway's counts, if requested.
    pub gateway: Option<Check>,
    /// TTFT of the same requests elsewhere, if this is a replay.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// The measured requests, or a random sample of them, by the time they were sent. Only
    /// [`json`](super::json) writes them.
    #[serde(default, skip_serializing)]
    pub requests: Vec<Record>,
}

impl Report {
    /// A report of nothing, for tests.
    #[cfg(test)]
    pub(crate) fn blank() -> Report {
        Report {
            experiment: "bench".to_owned(),
            commit: String::new(),
            seeds: vec![1],
            rows: vec![Row::default()],
            params: String::new(),
            options: Options::default(),
            model: "m".to_owned(),
            window_s: 1.0,
            counts: Counts::default(),
            errors: BTreeMap::new(),
            replicas: BTreeMap::new(),
            lateness_ms: None,
            warmed: None,
            gateway: None,
            beside: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// Errors of one kind.
    #[must_use]
    pub fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.errors.get(&kind).copied().unwrap_or(0)
    }

    /// Whether every request that the client did not abort got a complete answer.
    #[must_use]
    pub fn all_well(&self) -> bool {
        self.counts.errors == 0
    }
}
