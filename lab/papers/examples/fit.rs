//! Fits the engine model's coefficients and prints them as rows of its tables.
//!
//! ```text
//! cargo run --release -p meridian-papers --example fit -- points [GROUP]
//! cargo run --release -p meridian-papers --example fit -- gpus
//! cargo run --release -p meridian-papers --example fit -- disaggregated
//! ```
//! `points` fits each group of measured points (GPU, engine, model, format) on its odd rows, for
//! lab/engine/src/tuned/table.rs; GROUP is a part of its name. It takes about ten minutes on one
//! core. `gpus` fits the share of the flops of the A100 and the L4, and the share of the bandwidth
//! and the host's factor of the RTX PRO 6000, for lab/engine/src/gpu.rs. `disaggregated` fits the
//! factor on decode steps of each GPU's disaggregated points, for
//! lab/papers/src/calibration/disaggregated.rs.
//!
//! A group's seven coefficients are found by steps in log space, one coefficient at a time, halved
//! when none helps. The loss is the mean absolute log ratio of TTFT and TPOT, each bounded by 1, so
//! that a few outliers, caused by a client or a full cache, do not distort the fit; a weak prior
//! fixes coefficients that a small group does not determine. The token budget and the KV's format
//! are unknown too: they are set to the best of a few common settings on a dozen points. Points
//! with 256 requests in flight or more are not fitted, for their cost, but judged like the others.
#![allow(clippy::unwrap_used, reason = "a tool for developers may panic")]

use std::collections::BTreeMap;

use meridian_engine::{Efficiency, Precision, Tuned};
use meridian_papers::calibration::campaign::Latency;
use meridian_papers::calibration::disaggregated::deployment::deployments;
use meridian_papers::calibration::disaggregated::procedure;
use meridian_papers::calibration::points::{Point, Side, points};
use meridian_papers::calibration::procedure::measure;
use meridian_papers::calibration::silicon::tuned;
use meridian_papers::calibration::{measured, prefill};

const N: usize = 7;
const BOUNDS: [(f64, f64); N] =
    [(0.2, 0.95), (0.1, 0.9), (2e-4, 4e-2), (1e-6, 4e-4), (2e-6, 1e-4), (1e-5, 4e-3), (1e-3, 3e-1)];
/// Shares of bandwidth and flops; step, sequence, reduce, launch, front in seconds.
const START: [f64; N] = [0.7, 0.5, 3e-3, 3e-5, 1e-5, 1e-3, 1e-2];

/// Attention reaches this part of the matrices' share of the flops, and an all-reduce this share of
/// the link: the points do not determine either.
const ATTENTION: f64 = 0.9;
const LINK: f64 = 0.6;

/// A group with fewer fitted points gets no row: it uses the other GPU's.
const FEWEST: usize = 5;

#[derive(Clone, Copy)]
struct Candidate {
    values: [f64; N],
    budget: u32,
    fp8_kv: bool,
}

impl Candidate {
    fn tuned(&self, point: &Point) -> Tuned {
        let [memory, compute, step, sequence, reduce, launch, front] = self.values;
        let attention = ATTENTION * compute;
        let link = LINK;
        Tuned {
            gpu: point.gpu,
            software: point.software,
            model: point.model.name,
            precision: point.model.precision,
            efficiency: Efficiency {
                memory,
                compute,
                attention,
                link,
                step,
                sequence,
                reduce,
                launch,
            },
            front,
            max_num_batched_tokens: self.budget,
            fp8_kv: self.fp8_kv,
        }
    }

    fn loss(&self, points: &[Point]) -> f64 {
        let one = |point: &Point| match measure(point, &self.tuned(point)) {
            Ok(ours) => off(ours, point),
            Err(_) => 2.0,
        };
        let prior: f64 = self.values.iter().zip(START).map(|(v, s)| (v / s).ln().powi(2)).sum();
        points.iter().map(one).sum::<f64>() / points.len() as f64 + 0.002 * prior
    }

    /// The best neighbour found from here, from steps of `step` down to `end`, and its loss.
    fn search(self, points: &[Point], mut step: f64, end: f64) -> (f64, Candidate) {
        let (mut best, mut here) = (self.loss(points), self);
        while step > end {
            let before = best;
            for (at, (low, high)) in BOUNDS.into_iter().enumerate() {
                for factor in [step.exp(), (-step).exp()] {
                    let mut next = here;
                    next.values[at] = (here.values[at] * factor).clamp(low, high);
                    let loss = next.loss(points);
                    if loss < best - 1e-4 {
                        (best, here) = (loss, next);
                        break;
                    }
                }
            }
            if best == before {
                step /= 2.0;
            }
        }
        (best, here)
    }
}

/// How far a point is off, at most 2.
fn off(ours: Latency, point: &Point) -> f64 {
    let off = |ours: f64, theirs: f64| (ours / theirs).ln().abs().min(1.0);
    off(ours.ttft, point.ttft) + off(ours.tpot, point.tpot)
}

fn fit(points: &[Point]) -> Candidate {
    let mut sample = points.to_vec();
    sample.sort_by_key(|p| p.clients * p.clients * p.osl.min(2048));
    let cheap = sample.len().div_ceil(2).max(8).min(sample.len());
    let sample: Vec<Point> = sample[..cheap].iter().copied().step_by(cheap.div_ceil(12)).collect();
    let formats: &[bool] =
        if points[0].model.precision == Precision::Bf16 { &[false] } else { &[false, true] };
    let mut best: Option<(f64, Candidate)> = None;
    for &fp8_kv in formats {
        for budget in [2048, 8192, 16384] {
            let start = Candidate { values: START, budget, fp8_kv };
            let found = start.search(&sample, 0.6, 0.14);
            if best.is_none_or(|best| found.0 < best.0) {
                best = Some(found);
            }
        }
    }
    best.unwrap().1.search(points, 0.2, 0.04).1
}

fn fit_points(filter: &str) {
    let mut groups: BTreeMap<_, Vec<Point>> = BTreeMap::new();
    for point in points().into_iter().flatten() {
        if point.side == Side::Fitted && point.clients < 256 {
            groups.entry(point.group()).or_default().push(point);
        }
    }
    for (group, points) in groups {
        if points.len() < FEWEST || !format!("{group:?}").contains(filter) {
            continue;
        }
        let found = fit(&points);
        let values = found.values.map(|v| format!("{v:.3e}")).join(", ");
        let (software, precision) = (points[0].software, points[0].model.precision);
        println!(
            "    row({:?}, Software::{software:?}, {:?}, Precision::{precision:?}, [{values}], {}, {}),",
            group.0, group.2, found.budget, found.fp8_kv
        );
    }
}

/// The compute share at which `measure`, which is decreasing, equals `target`.
fn bisect(measure: impl Fn(f64) -> f64, target: f64) -> f64 {
    let (mut low, mut high) = (0.05, 0.95);
    for _ in 0..30 {
        let middle = (low + high) / 2.0;
        (low, high) = if measure(middle) > target { (middle, high) } else { (low, middle) };
    }
    low
}

fn fit_gpus() {
    let a100 = bisect(|share| prefill::gorgo(Some(share)).1, prefill::GORGO_SLOPE);
    println!("a100: compute {a100:.3} (GORGO, Table 1)");
    let l4 = |ms: f64| bisect(|share| prefill::ttft("llama-3.1-8b", "l4", Some(share), 512), ms);
    println!("l4: compute {:.3} (SkyWalker: 300 ms)", l4(prefill::SKYWALKER_512));
    let grid = |most: u32, step: f64| (1..most).map(move |at| f64::from(at) * step);
    for (name, run) in [("rtx-pro-6000", measured::dense()), ("rtx-4090", measured::scarce())] {
        let pairs = grid(34, 0.03).flat_map(|m| grid(60, 0.1).map(move |h| [m, h]));
        let best =
            nearest(&run, pairs, |[memory, host]| run.replay(Efficiency::vllm(memory, host)));
        println!("{name}: memory and host {best:.3?}");
    }
    let run = measured::split();
    let pairs = grid(20, 0.05).flat_map(|l| grid(40, 4e-6).map(move |r| [l, r]));
    let best = nearest(&run, pairs, |[link, reduce]| {
        run.replay(Efficiency { link, reduce, ..run.efficiency() })
    });
    println!("rtx-pro-6000: link {:.2} and reduce {:.0} us", best[0], best[1] * 1e6);
    let run = measured::experts();
    let factors = grid(50, 0.1).map(|more| [1.0 + more]);
    let best =
        nearest(&run, factors, |[mixed]| measured::experts_with(mixed).replay(run.efficiency()));
    println!("rtx-pro-6000, experts: mixed {:.1}", best[0]);
}

fn fit_disaggregated() {
    let fitted = |gpu| {
        let all = deployments().into_iter().flatten();
        all.filter(move |it| it.point.side == Side::Fitted && it.point.gpu == gpu)
    };
    for gpu in ["h100", "h200"] {
        let loss = |pace: f64| -> f64 {
            let one = |it| {
                let ours = procedure::measure(&it, &tuned(&it.point).unwrap(), pace).unwrap();
                off(ours, &it.point)
            };
            fitted(gpu).map(one).sum()
        };
        let paces = (0..40).map(|at| 1.0 + 0.02 * f64::from(at));
        let best = paces.map(|pace| (loss(pace), pace)).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        let count = fitted(gpu).count();
        println!("{gpu}: pace {:.2}, loss {:.3} ({count} points)", best.1, best.0 / count as f64);
    }
}

/// The coefficients for which a run's first requests are closest to the measurements.
fn nearest<const M: usize>(
    run: &measured::Run,
    candidates: impl Iterator<Item = [f64; M]>,
    replay: impl Fn([f64; M]) -> Vec<measured::Timing>,
) -> [f64; M] {
    let off = |a: f64, b: f64| (a / b).ln().abs();
    let loss = |candidate| {
        let ours = replay(candidate);
        let both = ours.iter().zip(&run.measured).take(measured::FITTED);
        both.map(|(a, b)| off(a.ttft, b.ttft) + off(a.tpot, b.tpot)).sum::<f64>()
    };
    let losses = candidates.map(|candidate| (loss(candidate), candidate));
    losses.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("points") => fit_points(arguments.get(1).map_or("", String::as_str)),
        Some("gpus") => fit_gpus(),
        Some("disaggregated") => fit_disaggregated(),
        _ => eprintln!("usage: fit points [GROUP] | fit gpus | fit disaggregated"),
    }
}
