//! Fits the efficiencies of each group of measured points on its odd rows.
#![allow(clippy::unwrap_used, reason = "a tool for developers may panic")]

use meridian_bench::calibration::points::{Point, Side, points};
use meridian_bench::calibration::procedure::{Latency, config, measure};
use meridian_engine::{Efficiency, Gpu};
use std::collections::BTreeMap;

const N: usize = 6;
const NAMES: [&str; N] = ["memory", "compute", "step", "sequence", "reduce", "launch"];
const BOUNDS: [(f64, f64); N] =
    [(0.2, 0.95), (0.1, 0.9), (2e-4, 4e-2), (1e-6, 4e-4), (2e-6, 1e-4), (1e-5, 4e-3)];
const START: [f64; N] = [0.7, 0.5, 3e-3, 3e-5, 1e-5, 2e-4];

fn efficiency(p: &[f64; N]) -> Efficiency {
    let [memory, compute, step, sequence, reduce, launch] = *p;
    let attention = 0.9 * compute;
    Efficiency { memory, compute, attention, link: 0.6, step, sequence, reduce, launch }
}

fn run(point: &Point, p: &[f64; N]) -> Option<Latency> {
    Some(measure(point, config(point, efficiency(p)).ok()?))
}

fn loss(points: &[Point], p: &[f64; N]) -> f64 {
    let mut sum = 0.0;
    for point in points {
        let Some(ours) = run(point, p) else { continue };
        sum += (ours.ttft / point.ttft).ln().abs().min(1.0)
            + (ours.tpot / point.tpot).ln().abs().min(1.0);
    }
    let prior: f64 = p.iter().zip(START).map(|(v, s)| (v / s).ln().powi(2)).sum();
    sum / points.len() as f64 + 0.002 * prior
}

fn fit(points: &[Point]) -> [f64; N] {
    let mut p = START;
    let mut best = loss(points, &p);
    let mut step = 0.5_f64;
    while step > 0.04 {
        let mut improved = false;
        for i in 0..N {
            for factor in [step.exp(), (-step).exp()] {
                let mut candidate = p;
                candidate[i] = (p[i] * factor).clamp(BOUNDS[i].0, BOUNDS[i].1);
                let score = loss(points, &candidate);
                if score < best - 1e-5 {
                    (p, best, improved) = (candidate, score, true);
                    break;
                }
            }
        }
        if !improved {
            step /= 2.0;
        }
    }
    p
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    if values.is_empty() { f64::NAN } else { values[values.len() / 2] }
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let verbose = std::env::args().nth(2).is_some();
    let mut groups: BTreeMap<_, Vec<Point>> = BTreeMap::new();
    let mut reasons: BTreeMap<_, u32> = BTreeMap::new();
    for point in points() {
        match point {
            Ok(point) => groups.entry(point.group()).or_default().push(point),
            Err(why) => *reasons.entry(why).or_default() += 1,
        }
    }
    println!("{reasons:?}");
    let mut all: [Vec<f64>; 2] = Default::default();
    for (group, points) in groups {
        if !format!("{group:?}").contains(&filter) {
            continue;
        }
        let _ = Gpu::named(group.0);
        let started = std::time::Instant::now();
        let odd: Vec<Point> = points.iter().copied().filter(|p| p.side == Side::Fitted).collect();
        let p = fit(&odd);
        print!("{group:?} {} ", points.len());
        for (name, value) in NAMES.iter().zip(p) {
            print!("{name} {value:.3e} ");
        }
        println!("{:.1}s", started.elapsed().as_secs_f64());
        for side in [Side::Fitted, Side::Judged] {
            let mut e: [Vec<f64>; 3] = Default::default();
            for point in points.iter().filter(|p| p.side == side) {
                let Some(ours) = run(point, &p) else {
                    println!("does not fit");
                    continue;
                };
                e[0].push((ours.ttft / point.ttft - 1.0).abs());
                e[1].push((ours.tpot / point.tpot - 1.0).abs());
                e[2].push(ours.ttft / point.ttft - 1.0);
                if verbose {
                    println!(
                        "   {side:?} tp{} {}x{} c{} ttft {:.0} ours {:.0} ({:+.0}%) tpot {:.2} ours {:.2} ({:+.0}%)",
                        point.tp,
                        point.isl,
                        point.osl,
                        point.clients,
                        point.ttft,
                        ours.ttft,
                        100.0 * (ours.ttft / point.ttft - 1.0),
                        point.tpot,
                        ours.tpot,
                        100.0 * (ours.tpot / point.tpot - 1.0)
                    );
                }
            }
            if side == Side::Judged {
                all[0].extend(&e[0]);
                all[1].extend(&e[1]);
            }
            println!(
                "  {side:?} {}: ttft {:.1}% (bias {:+.1}%) tpot {:.1}%",
                e[0].len(),
                100.0 * median(e[0].clone()),
                100.0 * median(e[2].clone()),
                100.0 * median(e[1].clone())
            );
        }
    }
    println!(
        "ALL judged {}: ttft {:.1}% tpot {:.1}%",
        all[0].len(),
        100.0 * median(all[0].clone()),
        100.0 * median(all[1].clone())
    );
}
