//! Decode: the batch size and the step time determine each other.
//!
//! At a rate R with replies of O tokens, n = R O TPOT(n) requests are in the batch. Arrivals vary:
//! for the share of the time that the objective's attainment requires, TPOT, memory and seats must
//! suffice for the Poisson quantile of the batch. In a pipeline of p stages each step carries n /
//! p.

use meridian_engine::Work;

use super::step::{Pipeline, Time};
use super::{Instance, Rated, Unfit};
use crate::queue::{Queue, largest, normal_quantile};
use crate::spread::Spread;
use crate::task::{Lengths, Task};
use crate::topology::GpuId;

pub(super) fn rated(
    task: &Task<'_>,
    instance: Instance,
    pipeline: Pipeline,
) -> Result<Rated, Unfit> {
    let kept = kept(task);
    let seats: f64 = seats(task, &instance);
    let most = (pipeline.kv_tokens() / kept).min(seats);
    let z = normal_quantile(task.slo.attainment);
    let crowded = |n: f64| n + z * libm::sqrt(n);
    let good = |n: f64| {
        let crowd = crowded(n);
        crowd <= most && step(task, &pipeline, crowd).whole <= task.slo.tpot
    };
    let least = step(task, &pipeline, 1.0).whole;
    let batch = if good(0.0) { largest(most, good) } else { 0.0 };
    let time = step(task, &pipeline, batch.max(1.0));
    // A batch of less than one request on average is a step of one.
    let rate = batch / (task.output.mean * time.whole);
    let message = pipeline.bytes(batch.max(1.0) / pipeline.stages.len() as f64);
    let loads = pipeline.loads(task.output.mean, message);
    let (groups, hops) = pipeline.into_parts();
    Ok(Rated {
        instance,
        groups,
        hops,
        rate,
        service: time.whole,
        communication: time.communication,
        least,
        batch,
        message,
        loads,
        times: Spread::default(),
        behind: Spread::default(),
        queue: Queue::alone(0.0, 0.0),
    })
}

/// vLLM's default maximum: 1,024 sequences on GPUs with high memory bandwidth.
pub(crate) fn seats(task: &Task<'_>, instance: &Instance) -> f64 {
    let large = |gpu: &GpuId| matches!(task.topology.kind(*gpu).name, "h100" | "h200");
    let each = if instance.gpus().all(|gpu| large(&gpu)) { 1024.0 } else { 256.0 };
    if instance.parallel.ep { each * f64::from(instance.parallel.tp) } else { each }
}

/// A step of `n` requests: a pipeline's stages work on equal parts of them concurrently.
fn step(task: &Task<'_>, pipeline: &Pipeline, n: f64) -> Time {
    let part = n / pipeline.stages.len() as f64;
    let tokens = part.max(1.0);
    let mut time = pipeline.step(&Work {
        tokens,
        sequences: tokens,
        context: tokens * kept(task),
        pairs: 0.0,
        prompts: 0.0,
    });
    time.whole = time.whole.max(pipeline.stages.len() as f64 * time.slowest);
    time
}

/// KV tokens of a request in the batch: its prompt's, and half of its reply's. Longer replies stay
/// longer, so the replies in a batch are longer than the mean.
pub(crate) fn kept(task: &Task<'_>) -> f64 {
    let Lengths { mean, cv } = task.output;
    task.prompt.mean + mean * (1.0 + cv * cv) / 2.0
}

/// TPOT at the fixed point of the batch at a rate, up to a batch of `most`. A request meets the
/// average number of others, plus itself.
pub(super) fn tpot_at(task: &Task<'_>, pipeline: &Pipeline, rate: f64, most: f64) -> f64 {
    step(task, pipeline, met(task, pipeline, rate, most) + 1.0).whole
}

/// The step in which a request gets its first token from KV that another instance computed, in the batch
/// of [`tpot_at`]: it computes the last token of a prompt, so its kernels are launched one by one.
pub(super) fn first_at(task: &Task<'_>, pipeline: &Pipeline, rate: f64, most: f64) -> f64 {
    let part = met(task, pipeline, rate, most) / pipeline.stages.len() as f64;
    let time = pipeline.step(&Work {
        tokens: part + 1.0,
        sequences: part + 1.0,
        context: part * kept(task),
        pairs: task.prompt.mean,
        prompts: 1.0,
    });
    time.whole
}

/// The others in the batch, on average.
fn met(task: &Task<'_>, pipeline: &Pipeline, rate: f64, most: f64) -> f64 {
    let seconds = |n: f64| step(task, pipeline, n + 1.0).whole;
    largest(most.max(1.0), |n: f64| n <= rate * task.output.mean * seconds(n))
}
