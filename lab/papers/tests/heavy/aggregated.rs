//! Compares the planner's predictions for aggregated serving with a simulation of the same
//! instances: steps with chunks of prompts, batches, memory and links of `meridian_sim::fleet`, which
//! shares only the engine's step times with the planner.

use meridian_base::Rng;
use meridian_papers::fleet::Deployed;
use meridian_plan::{Aggregated, Task, aggregated};

use crate::judged::{Seen, error, seen, suite};

/// Cases, of which lab/docs/planner.md has the results of the first hundred.
const CASES: u64 = 15;
/// Share of the goodput at which a deployment is simulated.
const LOAD: f64 = 0.6;
/// A smaller error counts as none.
const NEAR: f64 = 0.15;

/// The simulation of one instance with its share of the requests, as the prediction assumes.
fn simulated(task: &Task<'_>, one: &meridian_plan::Whole, rate: f64, seed: u64) -> Seen {
    let placed = [(one.instance(), 1.0, one.budget as u32)];
    let deployed = Deployed::aggregated(task, &placed).expect("an instance can be laid out");
    seen(task, &deployed, rate, seed)
}

// An instance of each of some deployments on generated topologies runs at 60 % of its goodput. The
// prediction is within 15 % in nearly all. `MERIDIAN_CASES` sets their number.
#[test]
fn aggregated_predictions_hold_in_simulation() {
    let cases = suite::cases(CASES) as usize;
    let (mut seed, mut count, mut near) = (0, 0, [0_usize; 3]);
    let mut far = Vec::new();
    while count < cases {
        seed += 1;
        assert!(seed < 1000, "the suite has enough cases");
        let case = suite::case(seed);
        let task = case.task();
        let gpus: Vec<_> = task.topology.all_gpus().collect();
        let Some(found) = aggregated(&task, &gpus) else { continue };
        count += 1;
        let nth = Rng::new(seed).below(found.instances.len());
        let one = found.instances[nth].clone();
        let rate = LOAD * one.rate;
        let alone = Aggregated { goodput: one.rate, instances: vec![one.clone()], bound: None };
        let times = alone.times(&task, rate);
        let theirs = simulated(&task, &one, rate, seed);
        let errors = [
            error(times.ttft, theirs.ttft[0]),
            error(times.ttft_within, theirs.ttft[1]),
            error(times.tpot, theirs.tpot),
        ];
        near.iter_mut()
            .zip(errors)
            .for_each(|(near, error)| *near += usize::from(error.abs() < NEAR));
        if errors.iter().any(|error| error.abs() >= NEAR) {
            let split = one.parallel;
            let name = &task.subject.name;
            far.push(format!(
                "{seed}: {errors:.2?} {name} {split:?} {:?} {rate:.3}/s, batch {:.1}, {times:.4?}, {theirs:.4?}",
                one.bound, one.batch
            ));
        }
    }
    let text = format!("mean TTFT, TTFT of 90 %, TPOT: {near:?} within 15 %\n{}", far.join("\n"));
    println!("{text}");
    let least = |share: f64| (share * cases as f64) as usize;
    assert!(near[0] >= least(0.95) && near[1] >= least(0.92) && near[2] >= least(0.99), "{text}");
}
