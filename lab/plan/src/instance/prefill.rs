//! Prefill: prompts one after the other, each in a separate step.
//!
//! TTFT is the wait, plus the prompt's own time, plus the time by which its KV handover outlasts
//! it. A prompt's time and its wait are independent, so the share that meets the objective is a sum
//! over the lengths.

use meridian_engine::Work;

use super::step::{Pipeline, Time};
use super::{Instance, Rated, Unfit};
use crate::queue::{Queue, Wait, largest};
use crate::spread::{Spread, Waits};
use crate::task::Task;

/// Parts of the current step, from its beginning to its end.
const PARTS: u32 = 4;

pub(super) fn rated(
    task: &Task<'_>,
    instance: Instance,
    pipeline: Pipeline,
) -> Result<Rated, Unfit> {
    let together = together(&instance);
    let tokens = task.prompt.mean;
    let mean = prompt(&pipeline, tokens, together);
    let longest = f64::from(task.subject.shape.context) - task.output.mean;
    let spread = |of: fn(&Time) -> f64| {
        Spread::new(task.prompt, longest, |tokens| of(&prompt(&pipeline, tokens, together)))
    };
    let (times, intervals) = (spread(|time| time.whole), spread(|time| time.slowest));
    let behind = intervals.behind(instance.parallel.pp);
    let message = pipeline.bytes(tokens * together);
    let loads = pipeline.loads(tokens, message);
    let (groups, hops) = pipeline.into_parts();
    let mut rated = Rated {
        instance,
        groups,
        hops,
        rate: 0.0,
        service: mean.whole,
        communication: mean.communication,
        least: times.within(task.slo.attainment),
        batch: 1.0,
        message,
        loads,
        times,
        behind,
        queue: Queue::alone(intervals.mean() / together, intervals.cv2()),
    };
    rated.rate = rate(task, &rated, 0.0);
    Ok(rated)
}

fn prompt(pipeline: &Pipeline, tokens: f64, together: f64) -> Time {
    let pairs = tokens * (tokens + 1.0) / 2.0;
    pipeline.step(&Work {
        tokens: tokens * together,
        sequences: together,
        context: 0.0,
        pairs: pairs * together,
        prompts: together,
    })
}

/// The waits of prompts in a queue at a total rate; for ranks that step together, without the
/// current step.
pub(super) fn turn(rated: &Rated, queue: &Queue, rate: f64) -> Wait {
    if together(&rated.instance) > 1.0 { queue.wait_behind(rate) } else { queue.wait(rate) }
}

/// The waits of prompts of each length, given the wait `base` for their turn. In a pipeline at
/// `rate` they also wait for prompts ahead, stage by stage, for a share of `met` of the wait in a
/// single pipeline.
///
/// Exact for few prompts. Its growth with the load is fitted to simulated pipelines of 2 to 8
/// stages; bench's `tests/judged.rs` judges the result.
pub(super) fn waits(rated: &Rated, base: &Wait, rate: f64, met: f64) -> Waits {
    let stages = f64::from(rated.instance.parallel.pp);
    let load = rate * rated.queue.interval;
    let passing = libm::pow((1.0 - load).max(0.0), 1.0 - 1.0 / stages);
    let alone = if stages > 1.0 { met * passing * rated.queue.wait(rate).mean } else { 0.0 };
    Waits::new(|nth| base.longer(base.mean + alone * rated.behind.at(nth)))
}

/// The waits of prompts, among ranks that step together, for the current step, which a share of
/// `stepping` meets: probabilities and seconds. Any point of the step is equally likely.
pub(super) fn under_way(rated: &Rated, stepping: f64) -> impl Iterator<Item = (f64, f64)> {
    let each = together(&rated.instance);
    let residual = rated.queue.interval * each * (1.0 + rated.queue.cv2) / 2.0;
    let met = if each > 1.0 { stepping } else { 0.0 };
    let part =
        move |nth: u32| (met / f64::from(PARTS), (2.0 * f64::from(nth) + 1.0) / f64::from(PARTS));
    let parts = (0..PARTS).map(part).map(move |(chance, of)| (chance, of * residual));
    core::iter::once((1.0 - met, 0.0)).chain(parts).filter(|(chance, _)| *chance > 0.0)
}

/// The share of the time that an instance is busy, at its own rate.
///
/// Ranks that step together take all prompts that arrived during the last step, up to one each, or
/// one if none arrived; this gives the number of steps. Exact for one rank, and for very many. A
/// pipeline is empty if its first stage is idle and no prompt arrived for as long as the other
/// stages take, which is exact for equal prompts.
pub(super) fn busy(rated: &Rated, rate: f64) -> f64 {
    let ranks = together(&rated.instance);
    let arrived = rate * rated.queue.interval * ranks;
    let mut chance = libm::exp(-arrived);
    let mut taken = ranks + chance;
    for nth in 0..ranks as u32 {
        taken -= (ranks - f64::from(nth)) * chance;
        chance *= arrived / f64::from(nth + 1);
    }
    let further = f64::from(rated.instance.parallel.pp - 1) * arrived;
    1.0 - (1.0 - arrived / taken).max(0.0) * libm::exp(-further)
}

/// The largest rate within the objective, for an instance with a separate queue.
pub(super) fn rate(task: &Task<'_>, rated: &Rated, handoff: f64) -> f64 {
    let late = 1.0 - task.slo.attainment;
    let time = task.slo.ttft - handoff;
    let good = |rate: f64| {
        let waits = waits(rated, &turn(rated, &rated.queue, rate), rate, 1.0);
        let steps = under_way(rated, busy(rated, rate));
        steps.map(|(chance, step)| chance * rated.times.later(&waits, time - step)).sum::<f64>()
            <= late
    };
    if rated.times.share_above(time) > late {
        return 0.0;
    }
    largest(1.0 / rated.queue.interval, good)
}

/// Prompts computed at once: ranks that share experts step together, each with a separate prompt.
fn together(instance: &Instance) -> f64 {
    if instance.parallel.ep { f64::from(instance.parallel.tp) } else { 1.0 }
}
