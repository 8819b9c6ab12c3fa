//! An instance in parts, for running it instead of rating it.

use meridian_engine::Terms;

use super::step::{Hop, Pipeline, Stage};
use super::{Instance, Parallel, Rated, Unfit, decode};
use crate::collective::Choice;
use crate::loads::Loads;
use crate::task::Task;
use crate::topology::GpuId;

/// An instance in parts.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its stages.
    pub stages: Vec<StageParts>,
    /// Bytes of a token's hidden state.
    pub token_bytes: f64,
    /// Most requests in its batches.
    pub seats: f64,
    /// KV tokens that fit in its fullest stage.
    pub kv_tokens: f64,
}

/// A stage.
#[derive(Clone, Debug)]
pub struct StageParts {
    /// Computation.
    pub terms: Terms,
    /// All-reduces of a step.
    pub reductions: f64,
    /// Their algorithms; none for one GPU.
    pub choices: Vec<Choice>,
    /// The hop to the next stage: seconds, seconds a byte, and a byte's load on links.
    pub pass: Option<(f64, f64, Loads)>,
    /// Tokens of KV that fit.
    pub kv_tokens: f64,
}

impl Parts {
    /// The parts of an instance.
    ///
    /// # Errors
    ///
    /// If it can't run.
    pub fn of(task: &Task<'_>, instance: &Instance) -> Result<Parts, Unfit> {
        let pipeline = Pipeline::new(task, instance)?;
        let (token_bytes, kv_tokens) = (pipeline.bytes(1.0), pipeline.kv_tokens());
        let mut passes = pipeline.hops.iter().map(super::Hop::cost);
        let stages = pipeline.stages.iter().map(|stage| StageParts {
            terms: stage.terms,
            reductions: stage.reductions,
            choices: stage.choices.clone(),
            pass: passes.next(),
            kv_tokens: stage.kv_tokens,
        });
        let stages = stages.collect();
        Ok(Parts { stages, token_bytes, seats: decode::seats(task, instance), kv_tokens })
    }
}

impl StageParts {
    /// The `at`-th stage of a split on these GPUs, before it has a next one.
    ///
    /// # Errors
    ///
    /// If it can't run.
    pub fn of(
        task: &Task<'_>,
        parallel: Parallel,
        at: u32,
        gpus: &[GpuId],
    ) -> Result<StageParts, Unfit> {
        let Stage { terms, reductions, choices, kv_tokens } = Stage::nth(task, parallel, at, gpus)?;
        Ok(StageParts { terms, reductions, choices, pass: None, kv_tokens })
    }
}

impl Rated {
    /// The capacity of an instance with these stages.
    ///
    /// # Errors
    ///
    /// If it can't run.
    pub fn of_parts(
        task: &Task<'_>,
        instance: Instance,
        parts: Vec<StageParts>,
    ) -> Result<Rated, Unfit> {
        let hops = parts.iter().filter_map(|part| part.pass.clone()).map(Hop::costing).collect();
        let stage = |StageParts { terms, reductions, choices, kv_tokens, .. }| Stage {
            terms,
            reductions,
            choices,
            kv_tokens,
        };
        let stages = parts.into_iter().map(stage).collect();
        Rated::of(task, instance, Pipeline::of(task, stages, hops))
    }
}
