//! Compares the planner's predictions with a simulation of the same plans: instances, queues,
//! batches and links of `meridian_sim::fleet`, which shares only the engine's step times with the
//! planner.

#[path = "../../../plan/tests/heavy/suite/mod.rs"]
#[allow(dead_code, reason = "the planner's own tests ask for more of a case")]
pub(crate) mod suite;

use meridian_base::{Rng, Time};
use meridian_papers::fleet::lengths::requests;
use meridian_papers::fleet::{Deployed, Mode, Placed, System};
use meridian_plan::{Lengths, Ranked, Task, plan};

const PLANS: usize = 100;
/// Share of a plan's goodput at which it is simulated.
const LOAD: f64 = 0.6;
/// Requests of each run, of which the second half counts. With less than half of these a mean TTFT
/// varies by up to a tenth between seeds.
const REQUESTS: usize = 20_000;
/// A smaller error counts as none.
const NEAR: f64 = 0.15;

/// Lengths of the task's distribution.
pub(crate) fn pairs(task: &Task<'_>, seed: u64) -> Vec<(u32, u32)> {
    let mut rng = Rng::new(seed).fork(100);
    let context = task.subject.shape.context;
    let mut draw = |of: Lengths| rng.lognormal(of.mean, of.cv).clamp(1.0, 1e6) as u32;
    let pair = |_| {
        let (prompt, output) = (draw(task.prompt), draw(task.output));
        let output = output.clamp(2, context / 2);
        (prompt.clamp(1, context - output), output)
    };
    (0..REQUESTS).map(pair).collect()
}

/// The times that requests see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// TTFT: the mean, and the value that the attained share stays below.
    pub(crate) ttft: [f64; 2],
    /// Mean TPOT.
    pub(crate) tpot: f64,
}

/// The plan's prediction at a rate.
fn predicted(task: &Task<'_>, ranked: &Ranked, rate: f64) -> Seen {
    let Ranked { fleet, verdict } = ranked;
    let tpot = |one: &meridian_plan::Rated| {
        let share = one.rate / verdict.decode;
        share * one.tpot(task, rate * share)
    };
    let tpot = fleet.decode.iter().map(|one| tpot(one)).sum();
    let times = fleet.times(task, verdict, rate);
    Seen { ttft: [times.ttft, times.ttft_within], tpot }
}

fn simulated(task: &Task<'_>, ranked: &Ranked, rate: f64, seed: u64) -> Seen {
    // Each gets prompts in proportion to its capacity, and replies by its current batch size.
    let prefill = ranked.fleet.prefill.iter().map(|one| (one.instance.clone(), one.rate));
    let decode = ranked.fleet.decode.iter().map(|one| (one.instance.clone(), one.batch));
    let placed = Placed { prefill: prefill.collect(), decode: decode.collect() };
    let deployed = Deployed::new(task, System::Heroserve, Mode::Corrected.assumptions(), &placed)
        .expect("a plan can be laid out");
    seen(task, &deployed, rate, seed)
}

/// Runs a deployment at a rate, and measures the later half of its requests.
pub(crate) fn seen(task: &Task<'_>, deployed: &Deployed<'_>, rate: f64, seed: u64) -> Seen {
    let window = (REQUESTS as f64 / rate).max(60.0);
    let requests = requests(&pairs(task, seed), rate, window, 1);
    let counted = requests.len() / 2;
    let (report, _) = deployed.run(requests, Time::from_nanos((2.0 * window * 1e9) as u64));
    let records = &report.records[counted..];
    let mut ttft: Vec<f64> = records.iter().filter_map(|one| one.ttft).collect();
    let tpot: Vec<f64> = records.iter().filter_map(|one| one.tpot).collect();
    ttft.sort_by(f64::total_cmp);
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let within = ttft[(ttft.len() as f64 * task.slo.attainment) as usize];
    Seen { ttft: [mean(&ttft), within], tpot: mean(&tpot) }
}

/// Share of a prediction that is beyond the simulation's figure.
pub(crate) fn error(ours: f64, theirs: f64) -> f64 {
    ours / theirs - 1.0
}

// 100 plans from generated topologies run at 60 % of their goodput. The prediction is within 15 %
// for the mean TTFT of at least 99 plans, the P90 TTFT of at least 98, and the mean TPOT of all.
#[test]
fn predictions_hold_in_simulation() {
    let (mut seed, mut count, mut near) = (0, 0, [0; 3]);
    let mut far = Vec::new();
    while count < PLANS {
        seed += 1;
        assert!(seed < 1000, "the suite has enough cases with plans");
        let case = suite::case(seed);
        let task = case.task();
        let Ok(plans) = plan(&task) else { continue };
        count += 1;
        let ranked = &plans[Rng::new(seed).below(plans.len())].cells[0];
        let rate = LOAD * ranked.verdict.goodput;
        let (ours, theirs) = (predicted(&task, ranked, rate), simulated(&task, ranked, rate, seed));
        let errors = [
            error(ours.ttft[0], theirs.ttft[0]),
            error(ours.ttft[1], theirs.ttft[1]),
            error(ours.tpot, theirs.tpot),
        ];
        near.iter_mut()
            .zip(errors)
            .for_each(|(near, error)| *near += u32::from(error.abs() < NEAR));
        if errors.iter().any(|error| error.abs() >= NEAR) {
            far.push(format!("{seed}: {errors:.2?}, limited by {:?}", ranked.verdict.limit));
        }
    }
    let text = format!("mean TTFT, TTFT of 90 %, TPOT: {near:?} within 15 %\n{}", far.join("\n"));
    println!("{text}");
    assert!(near[0] >= 99 && near[1] >= 98 && near[2] as usize == PLANS, "{text}");
}
