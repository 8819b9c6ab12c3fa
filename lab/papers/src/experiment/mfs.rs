//! MFS's figures: clusters under flow policies, over a sweep of rates.
//!
//! Every system sees the same requests with the same objectives under one seed, and figures are
//! means over seeds. Ratios are ratios of means, separately for each case.

mod in_time;
mod load;
mod sweep;
mod testbed;

use anyhow::Context as _;
use meridian_tools::cluster::Score;
use meridian_tools::plot::{self, Figure, Line, Point};
use meridian_tools::stats::{self, Mean};
use meridian_tools::table::Table;

use super::claim::Claim;
use super::spec::{Case, Compared, FlowClaim, FlowSystem};
use super::{Context, Findings, params};
use sweep::Sweep;

pub(super) use load::run as load;
pub(super) use testbed::{live as testbed_live, run as testbed};

/// The share of requests in time down to which a rate counts as sustained.
const SUSTAINED: f64 = 0.9;

/// Runs the file's sweep.
///
/// # Errors
/// If the file is invalid.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let spec = context.spec.flow.as_ref().context("flow: missing; say what is compared")?;
    let mut small = spec.clone();
    if context.quick {
        small.cluster.requests = spec.quick_requests;
        small.cases.truncate(1);
        // The rate with the most contention.
        let last = |rates: &mut Vec<f64>| drop(rates.drain(..rates.len().saturating_sub(1)));
        small.cases.iter_mut().for_each(|case| last(&mut case.rates));
    }
    let sweep = Sweep::run(&small, context).context("flow")?;
    let mut found = Findings { rows: sweep.rows(), ..Findings::default() };
    for (nth, case) in small.cases.iter().enumerate() {
        found.tables.push(sweep.table(nth, case));
        if case.rates.len() > 1 {
            found.figures.push(sweep.figure(nth, case)?);
        }
    }
    let (ours, published): (Vec<&FlowClaim>, Vec<_>) =
        small.published.iter().partition(|claim| claim.published.is_empty());
    found.claims = published.into_iter().map(|claim| sweep.hold(claim)).collect();
    if !ours.is_empty() {
        let mut table =
            Table::new("Beside what the paper does not compare with", &["figure", "ours"]);
        for claim in ours.into_iter().map(|claim| sweep.hold(claim)) {
            table.row([claim.what, claim.ours]);
        }
        found.tables.insert(0, table);
    }
    if let Some(table) = sweep.in_time_table() {
        found.tables.push(table);
    }
    found.params = params::of_text(&serde_json::to_string(&small)?);
    Ok(found)
}

impl Sweep<'_> {
    fn table(&self, nth: usize, case: &Case) -> Table {
        let header = [
            "requests/s a GPU",
            "system",
            "in time, %",
            "TTFT mean, ms",
            "P99",
            "over low load",
            "exchange, ms",
            "fetch wait, ms",
            "early by, ms",
            "late by, ms",
        ];
        let mut table = Table::new(format!("{} (simulated)", case.name), &header);
        for (rate, value) in case.rates.iter().enumerate() {
            for (system, of) in self.spec.systems.iter().enumerate() {
                let show = |digits: usize, get: fn(&Score) -> Option<f64>| {
                    let mean = self.mean((nth, rate, system), get);
                    mean.map_or_else(|| "-".to_owned(), |m| format!("{:.digits$}", m.mean))
                };
                let in_time = self.mean((nth, rate, system), |s| Some(100.0 * s.attainment));
                let in_time = in_time.map_or_else(String::new, |m| {
                    format!("{:.1} ({:.1}-{:.1})", m.mean, m.low, m.high)
                });
                table.row([
                    value.to_string(),
                    of.name.clone(),
                    in_time,
                    show(1, |score| Some(score.ttft.mean)),
                    show(1, |score| Some(score.ttft.p(99))),
                    show(2, |score| Some(score.slowdown)),
                    show(3, |score| score.cct),
                    show(3, |score| score.stall),
                    show(1, |score| score.earliness),
                    show(1, |score| score.lateness),
                ]);
            }
        }
        table
    }

    fn figure(&self, nth: usize, case: &Case) -> anyhow::Result<Figure> {
        let line = |(system, of): (usize, &FlowSystem)| -> Line {
            let point = |(rate, x): (usize, &f64)| {
                let Mean { mean, low, high } =
                    self.mean((nth, rate, system), |score| Some(score.attainment))?;
                Some(Point { x: *x, mean, low, high })
            };
            (of.name.clone(), case.rates.iter().enumerate().filter_map(point).collect())
        };
        let lines: Vec<Line> = self.spec.systems.iter().enumerate().map(line).collect();
        let title = format!("Share of requests in time ({})", case.name);
        let svg = plot::lines(&title, ["requests/s a GPU", "share in time"], &lines, false)?;
        Ok(Figure::new(&["attainment", &case.name], title, svg))
    }

    /// The cases of a published figure.
    fn about(&self, claim: &FlowClaim) -> impl Iterator<Item = (usize, &Case)> {
        let cases = self.spec.cases.iter().enumerate();
        cases.filter(|(_, c)| claim.cases.is_empty() || claim.cases.contains(&c.name))
    }

    /// Ours compared with a published ratio: a value for each of its cases.
    fn hold(&self, claim: &FlowClaim) -> Claim {
        if claim.metric == Compared::Attainment {
            return self.hold_in_time(claim);
        }
        let about = self.about(claim);
        let ours: Vec<f64> = about.filter_map(|(nth, case)| self.ratio(claim, nth, case)).collect();
        Claim::ratios(&claim.what, &claim.source, &claim.published, &ours)
    }

    fn ratio(&self, claim: &FlowClaim, nth: usize, case: &Case) -> Option<f64> {
        let of = self.place(&claim.of)?;
        let over: Vec<usize> = claim.over.iter().filter_map(|name| self.place(name)).collect();
        let value = |rate: usize, system: usize| {
            let get: fn(&Score) -> Option<f64> = match claim.metric {
                Compared::Attainment | Compared::Rate => |score| Some(score.attainment),
                Compared::Ttft => |score| Some(score.ttft.mean),
                Compared::Cct => |score| score.cct,
                Compared::Earliness => |score| score.earliness,
            };
            self.mean((nth, rate, system), get).map(|mean| mean.mean)
        };
        let rates = 0..case.rates.len();
        let least =
            |rate: usize| over.iter().filter_map(|system| value(rate, *system)).reduce(f64::min);
        match claim.metric {
            Compared::Attainment => None,
            Compared::Rate => {
                let sustained = |system: usize| {
                    let points = rates
                        .clone()
                        .filter_map(|rate| Some((case.rates[rate], value(rate, system)?)));
                    sustained(&points.collect::<Vec<_>>())
                };
                let others = over.iter().filter_map(|system| sustained(*system)).reduce(f64::max);
                Some(sustained(of)? / others?)
            }
            Compared::Ttft | Compared::Cct | Compared::Earliness => {
                let at = |rate: usize| Some(value(rate, of)? / least(rate)?);
                let all: Vec<f64> = rates.filter_map(at).collect();
                stats::mean(&all).map(|mean| mean.mean)
            }
        }
    }
}

/// The rate at which the share in time falls to [`SUSTAINED`], interpolated between two points;
/// `None` if no two points enclose it.
fn sustained(points: &[(f64, f64)]) -> Option<f64> {
    points.windows(2).find_map(|pair| {
        let [(x, a), (y, b)] = [pair[0], pair[1]];
        let crosses = a >= SUSTAINED && b < SUSTAINED;
        crosses.then(|| x + (y - x) * (a - SUSTAINED) / (a - b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // The sustained rate is where the line between two points crosses nine of ten; a sweep that
    // stays on one side has none.
    #[test]
    fn the_sustained_rate_is_interpolated() {
        let points = [(0.2, 1.0), (0.4, 0.95), (0.6, 0.85), (0.8, 0.3)];
        assert!((sustained(&points).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(sustained(&points[..2]), None);
        assert_eq!(sustained(&points[2..]), None);
    }
}
