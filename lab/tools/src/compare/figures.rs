//! The metrics of a sample.

use super::draw::{Request, Sample};
use crate::stats::sorted_quantile;

/// A metric.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// Whether more is better.
    pub(super) more: bool,
}

const fn more(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit, more: true }
}

const fn less(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit, more: false }
}

/// Number of metrics.
pub(super) const COUNT: usize = 17;

/// The metrics, in the order of [`figures`].
pub(super) static METRICS: [Metric; COUNT] = [
    more("throughput", "requests/s"),
    more("output", "tokens/s"),
    more("goodput", "requests/s"),
    less("TTFT, mean", "ms"),
    less("TTFT, p50", "ms"),
    less("TTFT, p90", "ms"),
    less("TTFT, p99", "ms"),
    less("TPOT, mean", "ms"),
    less("TPOT, p50", "ms"),
    less("TPOT, p90", "ms"),
    less("TPOT, p99", "ms"),
    less("E2E, mean", "ms"),
    less("E2E, p50", "ms"),
    less("E2E, p90", "ms"),
    less("E2E, p99", "ms"),
    less("failed", "%"),
    more("cached", "% of tokens"),
];

/// A value for each metric; `None` where the sample has none.
pub(super) type Figures = [Option<f64>; COUNT];

/// The metrics of a sample.
pub(super) fn figures(sample: &Sample) -> Figures {
    let Sample { requests, slices } = sample;
    let mean = |values: Vec<f64>| {
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let [ttft, tpot, e2e] = [
        times(requests.iter().filter_map(|r| r.ttft)),
        times(requests.iter().filter_map(|r| r.tpot)),
        times(requests.iter().filter_map(|r| r.e2e)),
    ];
    let failed = requests.iter().filter(|r| r.failed).count() as f64;
    [
        mean(slices.iter().map(|s| s.answers).collect()),
        mean(slices.iter().map(|s| s.tokens).collect()),
        mean(slices.iter().filter_map(|s| s.good).collect()),
        ttft[0],
        ttft[1],
        ttft[2],
        ttft[3],
        tpot[0],
        tpot[1],
        tpot[2],
        tpot[3],
        e2e[0],
        e2e[1],
        e2e[2],
        e2e[3],
        (!requests.is_empty()).then(|| 100.0 * failed / requests.len() as f64),
        cached(requests),
    ]
}

/// Mean, p50, p90 and p99.
fn times(values: impl Iterator<Item = f64>) -> [Option<f64>; 4] {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let at = |share| sorted_quantile(&values, share);
    [Some(mean).filter(|mean| mean.is_finite()), at(0.5), at(0.9), at(0.99)]
}

/// Cached share of the prompt tokens in percent.
fn cached(requests: &[Request]) -> Option<f64> {
    let known = requests.iter().filter_map(|request| request.cached);
    let (prompt, cached) = known.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (prompt > 0.0).then(|| 100.0 * cached / prompt)
}
