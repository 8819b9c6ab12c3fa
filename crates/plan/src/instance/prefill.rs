//! Prefill: prompts one after the other, each a step of its own.
//!
//! TTFT is the wait, the prompt's own time and what handing its KV over takes beyond that. What a
//! prompt takes and how long it waits do not depend on each other, so the share that meets the
//! objective is summed over the lengths.

use meridian_engine::Work;

use super::step::{Pipeline, Time};
use super::{Instance, Rated, Unfit};
use crate::queue::{Queue, Wait, largest};
use crate::spread::{Spread, Waits};
use crate::task::Task;

/// Parts of a step that is under way, from its beginning to its end.
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

/// What prompts wait in a queue at a rate of all; those for ranks that step together without the step
/// under way.
pub(super) fn turn(rated: &Rated, queue: &Queue, rate: f64) -> Wait {
    if together(&rated.instance) > 1.0 { queue.wait_behind(rate) } else { queue.wait(rate) }
}

/// What prompts of each length wait who wait `base` for their turn: in a pipeline at `rate` longer for
/// those in front of them, stage by stage, a share of `met` of what they would with it alone.
///
/// Exact for few prompts. How it grows with the load is fitted to simulated pipelines of 2 to 8 stages;
/// what comes of it is judged in bench's `tests/judged.rs`.
pub(super) fn waits(rated: &Rated, base: &Wait, rate: f64, met: f64) -> Waits {
    let stages = f64::from(rated.instance.parallel.pp);
    let load = rate * rated.queue.interval;
    let passing = libm::pow((1.0 - load).max(0.0), 1.0 - 1.0 / stages);
    let alone = if stages > 1.0 { met * passing * rated.queue.wait(rate).mean } else { 0.0 };
    Waits::new(|nth| base.longer(base.mean + alone * rated.behind.at(nth)))
}

/// What prompts wait, among ranks that step together, for a step that is under way, which a share of
/// `stepping` meets: chances and seconds. It is as likely to be near its end as its beginning.
pub(super) fn under_way(rated: &Rated, stepping: f64) -> impl Iterator<Item = (f64, f64)> {
    let each = together(&rated.instance);
    let residual = rated.queue.interval * each * (1.0 + rated.queue.cv2) / 2.0;
    let met = if each > 1.0 { stepping } else { 0.0 };
    let part =
        move |nth: u32| (met / f64::from(PARTS), (2.0 * f64::from(nth) + 1.0) / f64::from(PARTS));
    let parts = (0..PARTS).map(part).map(move |(chance, of)| (chance, of * residual));
    core::iter::once((1.0 - met, 0.0)).chain(parts).filter(|(chance, _)| *chance > 0.0)
}

/// The share of the time that an instance has something to do, at a rate of its own.
///
/// Ranks that step together take all prompts that came during the last step, up to one each, and one
/// where nobody came: so many steps there are for the prompts. Exact for one rank, and for very many. A
/// pipeline is empty where its first stage is idle and nothing came for as long as the others are busy
/// with a prompt, which is exact for equal ones.
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

/// The largest rate within the objective, for an instance that has a queue of its own.
pub(super) fn rate(task: &Task<'_>, rated: &Rated, handoff: f64) -> f64 {
    let late = 1.0 - task.slo.attainment;
    let time = task.slo.ttft - handoff;
    let good = |rate: f64| {
        let waits = waits(rated, &turn(rated, &rated.queue, rate), rate, 1.0);
        let steps = under_way(rated, busy(rated, rate));
        steps.map(|(chance, step)| chance * rated.times.later(&waits, time - step)).sum::<f64>()
            <= late
    };
    if rated.times.beyond(time) > late {
        return 0.0;
    }
    largest(1.0 / rated.queue.interval, good)
}

/// Prompts that are computed at once: ranks that share experts step together, each with a prompt of
/// its own.
fn together(instance: &Instance) -> f64 {
    if instance.parallel.ep { f64::from(instance.parallel.tp) } else { 1.0 }
}
