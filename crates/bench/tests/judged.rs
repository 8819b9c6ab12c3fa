//! The planner's predictions beside a simulation of the same plans: instances, queues, batches and
//! links of `meridian_sim::fleet`, which shares with the planner the engine's step times alone.

#[path = "../../plan/tests/suite/mod.rs"]
mod suite;

use meridian_base::Rng;
use meridian_bench::fleet::{Asked, Deployed, Mode, Placed, Score, System, score};
use meridian_plan::{Lengths, Ranked, Task, plan};

const PLANS: usize = 100;
/// Share of a plan's goodput at which it is run.
const LOAD: f64 = 0.6;

/// Lengths as the task has them.
fn pairs(task: &Task<'_>, seed: u64) -> Vec<(u32, u32)> {
    let mut rng = Rng::new(seed).fork(100);
    let context = task.subject.shape.context;
    let mut draw = |of: Lengths| rng.lognormal(of.mean, of.cv).clamp(1.0, 1e6) as u32;
    let pair = |_| {
        let (prompt, output) = (draw(task.prompt), draw(task.output));
        let output = output.clamp(2, context / 2);
        (prompt.clamp(1, context - output), output)
    };
    (0..4000).map(pair).collect()
}

/// Mean TTFT and TPOT that the plan predicts at a rate.
fn predicted(task: &Task<'_>, ranked: &Ranked, rate: f64) -> (f64, f64) {
    let Ranked { fleet, verdict } = ranked;
    let tpot = |one: &meridian_plan::Rated| {
        let share = one.rate / verdict.decode;
        share * one.tpot(task, rate * share)
    };
    let tpot = fleet.decode.iter().map(|one| tpot(one)).sum();
    (fleet.times(task, verdict, rate).ttft, tpot)
}

fn simulated(task: &Task<'_>, ranked: &Ranked, rate: f64, seed: u64) -> Score {
    let list = |all: &[std::rc::Rc<meridian_plan::Rated>]| {
        all.iter().map(|one| (one.instance.clone(), one.rate)).collect()
    };
    let placed =
        Placed { prefill: list(&ranked.fleet.prefill), decode: list(&ranked.fleet.decode) };
    let deployed = Deployed::new(task, System::Heroserve, Mode::Corrected, &placed)
        .expect("a plan can be laid out");
    let pairs = pairs(task, seed);
    let window = (1500.0 / rate).max(60.0);
    let asked = Asked { pairs: &pairs, slo: task.slo, window, seeds: 1 };
    score(&deployed, &asked, rate)
}

// Of 100 plans drawn from generated topologies, what was predicted for TTFT and TPOT is near what the
// simulation has.
#[test]
fn predictions_hold_in_simulation() {
    let mut errors: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    let mut seed = 0;
    while errors[0].len() < PLANS {
        seed += 1;
        assert!(seed < 1000, "the suite has enough cases with plans");
        let case = suite::case(seed);
        let task = case.task();
        let Ok(plans) = plan(&task) else { continue };
        let ranked = &plans[Rng::new(seed).below(plans.len())].cells[0];
        let rate = LOAD * ranked.verdict.goodput;
        let (ttft, tpot) = predicted(&task, ranked, rate);
        let score = simulated(&task, ranked, rate, seed);
        eprintln!(
            "{seed} ttft {ttft:.4} {:.4} tpot {tpot:.4} {:.4} in time {:.3} p{} d{}",
            score.ttft,
            score.tpot,
            score.attainment,
            ranked.fleet.prefill.len(),
            ranked.fleet.decode.len()
        );
        errors[0].push((ttft / score.ttft - 1.0).abs());
        errors[1].push((tpot / score.tpot - 1.0).abs());
    }
    for of in &mut errors {
        of.sort_by(f64::total_cmp);
        eprintln!("p50 {:.3} p75 {:.3} p90 {:.3} max {:.3}", of[49], of[74], of[89], of[99]);
    }
}
