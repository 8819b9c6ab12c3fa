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

/// What prompts of each length wait where equal servers make them wait `base`: in a pipeline longer for
/// those in front of them, stage by stage.
///
/// Exact for few prompts. How it grows with the load is fitted to simulated pipelines of 2 to 8 stages;
/// what comes of it is judged in bench's `tests/judged.rs`.
pub(super) fn waits(rated: &Rated, base: &Wait, load: f64) -> Waits {
    let stages = f64::from(rated.instance.parallel.pp);
    let passing = libm::pow((1.0 - load).max(0.0), 1.0 - 1.0 / stages);
    Waits::new(|nth| base.longer(base.mean * (1.0 + rated.behind.at(nth) * passing)))
}

/// What prompts wait, among ranks that step together, for a step that is under way, which a share of
/// `stepping` meets: chances and seconds. It is as likely to be near its end as its beginning.
///
/// Fitted, as above, to steps of 2 to 8 ranks.
pub(super) fn under_way(rated: &Rated, stepping: f64) -> impl Iterator<Item = (f64, f64)> {
    let each = together(&rated.instance);
    let step = rated.queue.interval * each;
    let residual = step * (1.0 + rated.queue.cv2) / 2.0 * (1.0 - 1.0 / (each * each));
    let met = if residual > 0.0 { stepping } else { 0.0 };
    let part =
        move |nth: u32| (met / f64::from(PARTS), (2.0 * f64::from(nth) + 1.0) / f64::from(PARTS));
    let parts = (0..PARTS).map(part).map(move |(chance, of)| (chance, of * residual));
    core::iter::once((1.0 - met, 0.0)).chain(parts).filter(|(chance, _)| *chance > 0.0)
}

/// The share of prompts that meet a step under way, at a rate of an instance's own.
pub(super) fn stepping(rated: &Rated, rate: f64) -> f64 {
    let arrived = rate * rated.queue.interval * together(&rated.instance);
    let going_on = arrived * libm::exp(arrived.min(700.0));
    going_on / (1.0 + going_on)
}

/// The largest rate within the objective, for an instance that has a queue of its own.
pub(super) fn rate(task: &Task<'_>, rated: &Rated, handoff: f64) -> f64 {
    let late = 1.0 - task.slo.attainment;
    let time = task.slo.ttft - handoff;
    let good = |rate: f64| {
        let load = rate * rated.queue.interval;
        let waits = waits(rated, &rated.queue.wait(rate), load);
        let steps = under_way(rated, stepping(rated, rate));
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
