//! Figures over the seeds: the 95 % interval beside a figure, and whether one fleet is surely faster.
//!
//! All fleets see the same requests under one seed, so two of them are compared seed by seed. One is
//! faster only if the whole interval of the quotient says so, and by more than a twentieth. Otherwise
//! the two are level.

use meridian_tools::load::Quantiles;
use meridian_tools::stats::{self, Mean};

use super::measured::Measured;
use super::rows::Row;

/// Fewer seeds say nothing about an order: two agree by chance half of the time.
pub(super) const SEEDS: usize = 4;
/// Times above this share of others are level with them, as in experiments.
const LEVEL: f64 = 0.95;

/// A figure of a run; `None` for a run without an answer.
pub(super) type FigureOf = fn(&Measured) -> Option<f64>;

pub(super) const MET: FigureOf = |run| Some(run.met);
pub(super) const GOODPUT: FigureOf = |run| Some(run.goodput_rps);
pub(super) const TTFT_MEAN: FigureOf = |run| run.ttft_ms.map(|ttft| ttft.mean);
pub(super) const TTFT_P50: FigureOf = |run| run.ttft_ms.map(|ttft| ttft.p50);
pub(super) const TTFT_P90: FigureOf = |run| run.ttft_ms.map(|ttft| ttft.p90);
pub(super) const TTFT_P99: FigureOf = |run| run.ttft_ms.map(|ttft| ttft.p99);
pub(super) const TPOT_MEAN: FigureOf = |run| run.tpot_ms.map(|tpot| tpot.mean);
pub(super) const TPOT_P90: FigureOf = |run| run.tpot_ms.map(|tpot| tpot.p90);

/// A figure with its interval, whose ends are the figure itself under one seed; `None` without one.
pub(super) fn mean(row: &Row, figure: FigureOf) -> Option<Mean> {
    stats::mean(&row.runs.iter().filter_map(figure).collect::<Vec<_>>())
}

/// The ends of the interval; `None` under one seed.
pub(super) fn ends(row: &Row, figure: FigureOf) -> Option<[f64; 2]> {
    let interval = mean(row, figure).filter(|_| row.runs.len() > 1)?;
    Some([interval.low, interval.high])
}

/// The ends for each quantile; `None` under one seed.
pub(super) fn quantiles(
    row: &Row,
    of: fn(&Measured) -> Option<Quantiles>,
) -> Option<[Quantiles; 2]> {
    let runs: Vec<Quantiles> = row.runs.iter().filter_map(of).collect();
    let end = |pick: fn(Mean) -> f64| {
        Quantiles::each(&runs, |all| stats::mean(all).map_or(f64::NAN, pick))
    };
    Some([end(|m| m.low)?, end(|m| m.high)?]).filter(|_| row.runs.len() > 1)
}

/// A figure as a cell: the mean over the seeds, and how far the farther end of its interval is.
pub(super) fn cell(row: &Row, figure: FigureOf, [times, digits]: [usize; 2]) -> String {
    let Some(Mean { mean, low, high }) = mean(row, figure) else { return String::new() };
    let show = |value: f64| format!("{:.digits$}", value * times as f64);
    match row.runs.len() {
        1 => show(mean),
        _ => format!("{} ±{}", show(mean), show((mean - low).max(high - mean))),
    }
}

/// Whether this figure, a time, of `a` is surely shorter than that of `b`.
pub(super) fn is_shorter(a: &Row, b: &Row, figure: FigureOf) -> bool {
    let pairs = a.runs.iter().zip(&b.runs);
    let both = pairs.filter_map(|(a, b)| Some((figure(a)?, figure(b)?)));
    let (ours, theirs): (Vec<f64>, Vec<f64>) = both.unzip();
    ours.len() >= SEEDS
        && stats::ratio_of_means(&ours, &theirs).is_some_and(|quotient| quotient.high < LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(p90: &[f64]) -> Row {
        let run =
            |p90: &f64| Measured { ttft_ms: Quantiles::of(vec![*p90]), ..Measured::default() };
        Row { runs: p90.iter().map(run).collect(), ..Row::default() }
    }

    // A faster fleet is faster under almost every seed, by more than a twentieth. Seeds that disagree,
    // a small difference and too few seeds leave two fleets level.
    #[test]
    fn an_order_is_sure_or_none() {
        let shorter = |a: &[f64], b: &[f64]| is_shorter(&row(a), &row(b), TTFT_P90);
        let slow = [100.0, 200.0, 300.0, 400.0, 500.0];
        assert!(shorter(&slow.map(|ms| 0.8 * ms), &slow), "seeds are paired");
        assert!(!shorter(&slow.map(|ms| 0.97 * ms), &slow), "a difference of 3 % does not count");
        assert!(!shorter(&[50.0, 90.0, 330.0, 300.0, 520.0], &slow), "the seeds disagree");
        assert!(!shorter(&[50.0; 3], &[100.0; 3]), "three seeds are too few");
    }

    // A cell has the farther end of the interval; one seed has none, and no answer no figure.
    #[test]
    fn cells_have_intervals() {
        let shown = |p90: &[f64]| cell(&row(p90), TTFT_P90, [1, 0]);
        assert_eq!(shown(&[100.0, 100.0]), "100 ±0");
        assert_eq!(shown(&[100.0, 120.0]), "110 ±10");
        assert_eq!((shown(&[100.0]), shown(&[])), ("100".to_owned(), String::new()));
        assert_eq!(ends(&row(&[100.0, 120.0]), TTFT_P90), Some([100.0, 120.0]));
        assert_eq!(
            (ends(&row(&[100.0]), TTFT_P90), quantiles(&row(&[1.0]), |r| r.ttft_ms)),
            (None, None)
        );
    }
}
