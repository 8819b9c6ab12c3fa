//! Common parts of comparisons: costs, ratios of costs over seeds, and the competing systems.
//!
//! A cost is a metric for which less is better: a rate counts as its inverse. Systems are compared
//! seed by seed, since all of them see the same requests under one seed; intervals are bootstraps
//! over the seeds.

use meridian_tools::metric;
use meridian_tools::stats::{self, Mean};

use super::grid::Grid;

/// Compared metrics: for the first more is better, for the others less.
pub const METRICS: [&str; 9] = [
    "throughput_rps",
    "ttft_ms.mean",
    "ttft_ms.p50",
    "ttft_ms.p90",
    "ttft_ms.p99",
    "e2e_ms.mean",
    "e2e_ms.p50",
    "e2e_ms.p90",
    "e2e_ms.p99",
];
/// Metrics of a score: one number for a system, the geometric mean of these costs.
pub const SCORE: [&str; 4] = ["throughput_rps", "ttft_ms.mean", "ttft_ms.p90", "e2e_ms.mean"];
/// A system that answers less than this share of its requests does not compete: the unanswered ones
/// are missing from its latencies.
const ANSWERED: f64 = 0.995;

/// Whether the cell's system answers its requests.
#[must_use]
pub fn answers(grid: &Grid<'_>, cell: usize) -> bool {
    let sum = |name| grid.named(cell, name).map_or(0.0, |m| m.mean);
    let sent = sum("requests") * grid.observed[cell].len() as f64;
    sum("lost") + sum("rejected") <= (1.0 - ANSWERED) * sent
}

/// A value of a metric as a cost; `None` if it is not a valid divisor.
#[must_use]
pub fn cost(metric: &str, value: f64) -> Option<f64> {
    let more_is_better = metric == METRICS[0];
    (value > 0.0).then(|| if more_is_better { 1.0 / value } else { value })
}

/// The cost of a cell, by its mean over the seeds.
#[must_use]
pub fn mean_cost(grid: &Grid<'_>, cell: usize, metric: &str) -> Option<f64> {
    cost(metric, grid.named(cell, metric)?.mean)
}

/// The cell of least cost and its cost.
#[must_use]
pub fn best(grid: &Grid<'_>, cells: &[usize], metric: &str) -> Option<(f64, usize)> {
    let costs = cells.iter().filter_map(|cell| Some((mean_cost(grid, *cell, metric)?, *cell)));
    costs.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// The cost of a cell over that of another, by their means over the seeds.
#[must_use]
pub fn times(grid: &Grid<'_>, cell: usize, other: usize, metric: &str) -> Option<f64> {
    Some(mean_cost(grid, cell, metric)? / mean_cost(grid, other, metric)?)
}

/// The cost of a cell over that of another, of their means over the seeds, with the interval over
/// the seeds.
#[must_use]
pub fn over(grid: &Grid<'_>, cell: usize, other: usize, metric: &str) -> Option<Mean> {
    let (place, _) = metric::find(metric)?;
    let pairs = grid.by_seed(cell, place).into_iter().zip(grid.by_seed(other, place));
    let (ours, theirs): (Vec<f64>, Vec<f64>) =
        pairs.filter_map(|(a, b)| Some((a?, b?))).filter(|(a, b)| *a > 0.0 && *b > 0.0).unzip();
    if metric == METRICS[0] {
        return stats::ratio_of_means(&theirs, &ours);
    }
    stats::ratio_of_means(&ours, &theirs)
}

/// By seed, the mean logarithm of the costs of `cells` over those of their `others`, over all pairs
/// and `metrics`. A seed in which a pair lacks a value leaves that pair out.
#[must_use]
pub fn logs(grid: &Grid<'_>, pairs: &[(usize, usize)], metrics: &[&str]) -> Vec<f64> {
    let places: Vec<(usize, &str)> =
        metrics.iter().filter_map(|name| Some((metric::find(name)?.0, *name))).collect();
    let of = |seed: usize| {
        let at = |cell: usize, place: usize, name: &str| {
            cost(name, grid.observed[cell].get(seed)?.values[place]?)
        };
        let ratio = |(cell, other): (usize, usize), (place, name): (usize, &str)| {
            Some(libm::log(at(cell, place, name)? / at(other, place, name)?))
        };
        let all: Vec<f64> = pairs
            .iter()
            .flat_map(|pair| places.iter().filter_map(|metric| ratio(*pair, *metric)))
            .collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    (0..grid.seeds.len()).filter_map(of).collect()
}

/// The geometric mean over the seeds of the ratios whose [`logs`] are given, with its interval.
#[must_use]
pub fn geometric(logs: &[f64]) -> Option<Mean> {
    let Mean { mean, low, high } = stats::mean(logs)?;
    Some(Mean { mean: libm::exp(mean), low: libm::exp(low), high: libm::exp(high) })
}

/// A ratio as a difference in percent, with its interval where there are several seeds.
#[must_use]
pub fn percent(ratio: Mean, seeds: usize) -> String {
    let show = |v: f64| format!("{:+.1}", (v - 1.0) * 100.0);
    let Mean { mean, low, high } = ratio;
    if seeds > 1 {
        return format!("{} ({} to {})", show(mean), show(low), show(high));
    }
    show(mean)
}
