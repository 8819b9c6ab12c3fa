//! MFS's figures: clusters under flow policies, over a sweep of rates.
//!
//! Every system sees the same requests with the same objectives under one seed, and figures are
//! means over seeds. Ratios are ratios of means, separately for each case.

mod in_time;

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, ensure};
use meridian_sim::cluster;
use serde_json::Value;

use super::claim::Claim;
use super::plot::{self, Figure, Line, Point};
use super::runner::parallel;
use super::spec::{Case, Compared, FlowClaim, FlowSweep, FlowSystem};
use super::stats::{self, Mean};
use super::table::Table;
use super::{Context, Findings, params, results};
use crate::cluster::{File, Score, setup};

/// The share of requests in time down to which a rate counts as sustained.
const SUSTAINED: f64 = 0.9;

/// A cell: indices into the sweep's lists.
#[derive(Clone, Copy, Debug)]
struct Cell {
    case: usize,
    rate: usize,
    system: usize,
}

/// Every run of a sweep, by cell and seed.
struct Sweep<'a> {
    spec: &'a FlowSweep,
    cells: Vec<Cell>,
    /// By cell: a score for each seed and each model.
    scores: Vec<Vec<Score>>,
}

/// Runs the file's sweep.
///
/// # Errors
/// If the file is invalid.
pub(super) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let spec = context.spec.flow.as_ref().context("flow: missing; say what is compared")?;
    let mut small = spec.clone();
    if context.quick {
        small.cluster.requests = spec.quick_requests;
        small.cases.truncate(1);
        // The rate with the most contention.
        let last = |rates: &mut Vec<f64>| drop(rates.drain(..rates.len().saturating_sub(1)));
        small.cases.iter_mut().for_each(|case| last(&mut case.rates));
    }
    let sweep = Sweep::run(&small, context)?;
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

impl<'a> Sweep<'a> {
    fn run(spec: &'a FlowSweep, context: &Context<'_>) -> anyhow::Result<Sweep<'a>> {
        ensure!(!spec.systems.is_empty(), "flow.systems is empty: name what is compared");
        let mut cells = Vec::new();
        for (case, of) in spec.cases.iter().enumerate() {
            for rate in 0..of.rates.len() {
                cells.extend((0..spec.systems.len()).map(|system| Cell { case, rate, system }));
            }
        }
        let seeds = context.seeds as usize;
        let done = AtomicUsize::new(0);
        let count = cells.len() * seeds;
        let runs = parallel(count, |nth| {
            let (cell, seed) = (cells[nth / seeds], context.spec.first_seed + (nth % seeds) as u64);
            let scores = one(spec, cell, seed);
            let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
            (context.progress)(so_far, count, &name(spec, cell));
            scores
        });
        let mut runs = runs.into_iter();
        let scores = cells.iter().map(|cell| {
            let of: anyhow::Result<Vec<Vec<Score>>> = runs.by_ref().take(seeds).collect();
            of.map(|of| of.concat()).with_context(|| name(spec, *cell))
        });
        let scores = scores.collect::<anyhow::Result<_>>()?;
        Ok(Sweep { spec, cells, scores })
    }

    fn cell(&self, case: usize, rate: usize, system: usize) -> &[Score] {
        let is = |cell: &Cell| (cell.case, cell.rate, cell.system) == (case, rate, system);
        let nth = self.cells.iter().position(is).expect("every cell was run");
        &self.scores[nth]
    }

    fn mean(&self, at: (usize, usize, usize), of: impl Fn(&Score) -> Option<f64>) -> Option<Mean> {
        let values: Vec<f64> = self.cell(at.0, at.1, at.2).iter().filter_map(of).collect();
        stats::mean(&values)
    }

    fn rows(&self) -> Vec<Value> {
        let row = |(cell, scores): (&Cell, &Vec<Score>)| {
            let case = &self.spec.cases[cell.case];
            let workload = format!("{} at {}", case.name, case.rates[cell.rate]);
            let mean = |of: fn(&Score) -> Option<f64>| {
                let values: Vec<f64> = scores.iter().filter_map(of).collect();
                serde_json::json!(stats::mean(&values).map(|mean| mean.mean))
            };
            let given = [
                ("slo_attainment", mean(|score| Some(score.attainment))),
                ("ttft_ms.mean", mean(|score| Some(score.ttft.mean))),
                ("ttft_ms.p50", mean(|score| Some(score.ttft.p(50)))),
                ("ttft_ms.p90", mean(|score| Some(score.ttft.p(90)))),
                ("ttft_ms.p95", mean(|score| Some(score.ttft.p(95)))),
                ("ttft_ms.p99", mean(|score| Some(score.ttft.p(99)))),
                ("prefix_hit_ratio", mean(|score| Some(score.matched))),
                ("cct_ms", mean(|score| score.cct)),
                ("earliness_ms", mean(|score| score.earliness)),
            ];
            results::bare(&self.spec.systems[cell.system].name, &workload, &given)
        };
        self.cells.iter().zip(&self.scores).map(row).collect()
    }

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
        let place = |name: &String| self.spec.systems.iter().position(|one| one.name == *name);
        let of = place(&claim.of)?;
        let over: Vec<usize> = claim.over.iter().filter_map(place).collect();
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

fn name(spec: &FlowSweep, cell: Cell) -> String {
    let case = &spec.cases[cell.case];
    format!("{} at {}, {}", case.name, case.rates[cell.rate], spec.systems[cell.system].name)
}

/// One run: a score for each model.
fn one(spec: &FlowSweep, cell: Cell, seed: u64) -> anyhow::Result<Vec<Score>> {
    let (case, system) = (&spec.cases[cell.case], &spec.systems[cell.system]);
    let mut file = File { models: case.models.clone(), ..spec.cluster.clone() };
    file.models.iter_mut().for_each(|served| served.load.rate = Some(case.rates[cell.rate]));
    file.network = case.network.unwrap_or(file.network);
    file.card = case.card.unwrap_or(file.card);
    (file.flow, file.shared) = (system.flow.clone(), !system.apart);
    let report = cluster::run(&setup(&file, system.policy(), seed)?)?;
    Ok((0..file.models.len()).filter_map(|nth| Score::of(&report, nth)).collect())
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
