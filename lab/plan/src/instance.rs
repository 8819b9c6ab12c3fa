//! Instances: one engine on some GPUs, for prefill or for decode, and its capacity.
//!
//! An instance is a pipeline of stages, each a group that splits every layer (tensor parallel), or
//! one stage whose ranks share the experts and replicate the rest (expert parallel). Its step times
//! are the engine model's calibrated terms; only the collectives are the topology's own.

mod decode;
mod parts;
mod prefill;
mod step;

use crate::collective::Choice;
use crate::loads::Loads;
use crate::queue::Queue;
use crate::spread::{Spread, Waits};
use crate::task::Task;
use crate::topology::GpuId;

pub(crate) use decode::{kept, seats};
pub use parts::{Parts, StageParts};
pub(crate) use step::{Hop, Pipeline};

/// The phase of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Computes prompts.
    Prefill,
    /// Generates replies.
    Decode,
}

impl Phase {
    /// The short name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Prefill => "prefill",
            Phase::Decode => "decode",
        }
    }
}

/// How an instance is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parallel {
    /// GPUs of a stage.
    pub tp: u32,
    /// Stages.
    pub pp: u32,
    /// Whether the GPUs of the one stage share experts instead of splitting every layer.
    pub ep: bool,
}

impl Parallel {
    /// Total number of GPUs.
    #[must_use]
    pub const fn gpus(self) -> u32 {
        self.tp * self.pp
    }
}

/// One engine on some GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Its phase.
    pub phase: Phase,
    /// How it is split.
    pub parallel: Parallel,
    /// GPUs of each stage, by rank.
    pub stages: Vec<Vec<GpuId>>,
}

impl Instance {
    /// All of its GPUs, stage by stage.
    pub fn gpus(&self) -> impl Iterator<Item = GpuId> + '_ {
        self.stages.iter().flatten().copied()
    }
}

/// Why an instance cannot serve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unfit {
    /// The weights leave no memory for KV; bytes that each GPU lacks.
    Memory(f64),
    /// GPUs that do not reach each other.
    Disconnected,
}

/// An instance with its capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Rated {
    /// The instance.
    pub instance: Instance,
    /// The all-reduce algorithms of each stage.
    pub groups: Vec<Vec<Choice>>,
    /// The hops between stages.
    pub(crate) hops: Vec<Hop>,
    /// Requests a second within the objective; for prefill without the KV handover.
    pub rate: f64,
    /// Prefill: seconds of a mean prompt. Decode: seconds of a step at that rate.
    pub service: f64,
    /// Of that, collectives and hops.
    pub communication: f64,
    /// The best value without load: TTFT or TPOT, in seconds.
    pub least: f64,
    /// Decode: requests in the batch at that rate; prefill: 1.
    pub batch: f64,
    /// Bytes of all-reduces, for which algorithms are chosen.
    pub message: f64,
    /// Bytes that a request puts on each link.
    pub loads: Loads,
    /// Prefill: seconds of prompts over their lengths.
    pub times: Spread,
    /// Prefill: the additional squared interval that each length meets in a pipeline.
    pub(crate) behind: Spread,
    /// Prefill: its queue of prompts.
    pub queue: Queue,
}

impl Rated {
    /// Computes an instance's capacity.
    ///
    /// # Errors
    ///
    /// If it can't run.
    pub fn new(task: &Task<'_>, instance: Instance) -> Result<Rated, Unfit> {
        let pipeline = Pipeline::new(task, &instance)?;
        Rated::of(task, instance, pipeline)
    }

    fn of(task: &Task<'_>, instance: Instance, pipeline: Pipeline) -> Result<Rated, Unfit> {
        match instance.phase {
            Phase::Prefill => prefill::rated(task, instance, pipeline),
            Phase::Decode => decode::rated(task, instance, pipeline),
        }
    }

    /// The rate within the TTFT objective if the handover takes `handoff` seconds more.
    #[must_use]
    pub fn rate_with(&self, task: &Task<'_>, handoff: f64) -> f64 {
        match self.instance.phase {
            Phase::Prefill => prefill::rate(task, self, handoff),
            Phase::Decode => self.rate,
        }
    }

    /// The waiting times of prompts of each length in a queue of several instances, at a total
    /// rate; `own` of that is its own, and a share of `met` of its prompts finds no instance empty.
    pub(crate) fn waits(&self, queue: &Queue, rate: f64, (own, met): (f64, f64)) -> Waits {
        prefill::waits(self, &prefill::turn(self, queue, rate), own, met)
    }

    /// Additional waits for the current step of ranks: probabilities and seconds.
    pub(crate) fn under_way(&self, stepping: f64) -> Vec<(f64, f64)> {
        prefill::under_way(self, stepping).collect()
    }

    /// The share of the time that it is busy, at its own rate.
    pub(crate) fn busy(&self, rate: f64) -> f64 {
        prefill::busy(self, rate)
    }

    /// Seconds of a token at `rate` requests a second.
    #[must_use]
    pub fn tpot(&self, task: &Task<'_>, rate: f64) -> f64 {
        match Pipeline::new(task, &self.instance) {
            Ok(pipeline) => decode::tpot_at(task, &pipeline, rate, self.batch),
            Err(_) => f64::INFINITY,
        }
    }

    /// Seconds of a step at `rate` requests a second in which KV from another instance gives a first
    /// token.
    pub(crate) fn first_step(&self, task: &Task<'_>, rate: f64) -> f64 {
        match Pipeline::new(task, &self.instance) {
            Ok(pipeline) => decode::first_at(task, &pipeline, rate, self.batch),
            Err(_) => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests;
