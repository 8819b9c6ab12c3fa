//! An instance taken apart: what somebody needs who runs it and does not rate it.

use meridian_engine::Terms;

use super::step::Pipeline;
use super::{Instance, Unfit, decode};
use crate::collective::Choice;
use crate::loads::Loads;
use crate::task::Task;

/// An instance in parts.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its stages.
    pub stages: Vec<StageParts>,
    /// Bytes of a token's hidden state.
    pub token_bytes: f64,
    /// Most requests in its batches.
    pub seats: f64,
    /// Tokens of KV that its fullest stage holds.
    pub kv_tokens: f64,
}

/// A stage.
#[derive(Clone, Debug)]
pub struct StageParts {
    /// Computing.
    pub terms: Terms,
    /// All-reduces of a step.
    pub reductions: f64,
    /// Their ways; none for one GPU.
    pub choices: Vec<Choice>,
    /// How the hidden state gets to the next stage: seconds, seconds a byte, and what a byte puts on
    /// links.
    pub pass: Option<(f64, f64, Loads)>,
}

impl Parts {
    /// The parts of an instance.
    ///
    /// # Errors
    /// Where it can't run at all.
    pub fn of(task: &Task<'_>, instance: &Instance) -> Result<Parts, Unfit> {
        let pipeline = Pipeline::new(task, instance)?;
        let (token_bytes, kv_tokens) = (pipeline.bytes(1.0), pipeline.kv_tokens());
        let mut passes = pipeline.hops.iter().map(super::Hop::cost);
        let stages = pipeline.stages.iter().map(|stage| StageParts {
            terms: stage.terms,
            reductions: stage.reductions,
            choices: stage.choices.clone(),
            pass: passes.next(),
        });
        let stages = stages.collect();
        Ok(Parts { stages, token_bytes, seats: decode::seats(task, instance), kv_tokens })
    }
}
