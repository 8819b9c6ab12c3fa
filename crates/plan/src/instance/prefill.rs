//! Prefill: prompts one after the other, each a step of its own.
//!
//! TTFT is the wait, the prompt's own time and what handing its KV over takes beyond that. The share
//! that meets the objective is taken from whichever is worse: a long wait of a mean prompt, or a
//! mean wait of a long one.

use meridian_engine::Work;

use super::step::{Pipeline, Time};
use super::{Instance, Rated, Unfit};
use crate::queue::{Queue, largest};
use crate::task::Task;

pub(super) fn rated(
    task: &Task<'_>,
    instance: Instance,
    pipeline: Pipeline,
) -> Result<Rated, Unfit> {
    // Ranks that share experts step together, each with a prompt of its own.
    let together = if instance.parallel.ep { f64::from(instance.parallel.tp) } else { 1.0 };
    let mean = prompt(&pipeline, task.prompt.mean, together);
    let long = prompt(&pipeline, task.prompt.within(task.slo.attainment), together);
    let tokens = task.prompt.mean;
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
        least: long.whole,
        batch: 1.0,
        message,
        loads,
        interval: mean.slowest / together,
        long: long.whole,
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

pub(super) fn ttft(task: &Task<'_>, rated: &Rated, rate: f64, handoff: f64) -> (f64, f64) {
    let queue = Queue { interval: rated.interval, cv2: task.prompt.cv * task.prompt.cv };
    let wait = queue.wait(rate);
    let late = queue.wait_within(rate, task.slo.attainment);
    let mean = wait + rated.service + handoff;
    (mean, (late + rated.service).max(wait + rated.long) + handoff)
}

/// The largest rate within the objective.
pub(super) fn rate(task: &Task<'_>, rated: &Rated, handoff: f64) -> f64 {
    let good = |rate: f64| ttft(task, rated, rate, handoff).1 <= task.slo.ttft;
    if !good(0.0) {
        return 0.0;
    }
    largest(1.0 / rated.interval, good)
}
