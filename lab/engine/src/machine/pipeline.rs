//! An engine whose layers are divided into stages, each on GPUs of its own.
//!
//! A step goes through the stages one after the other, and the next step enters a stage when the one
//! before has left it. As in vLLM, as many steps as there are stages are under way at most, a sequence
//! that decodes is in one of them at a time, and the chunks of a prompt follow each other. Which steps
//! the sequences are in is left to their arrivals, and not evened out.
//!
//! A stage has its own terms, and its all-reduce takes the cheapest of some ways, each a time and a
//! time for each token: so an engine can take its times from a topology instead of a calibrated server.
//!
//! Each stage takes the whole batch of a step. It has no strides ([`Config::decode_stride`] counts as
//! 1), and only vLLM's usual schedule.

use super::{Engine, Step};
use crate::config::{Config, ConfigError, Schedule};
use crate::cost::{Terms, Work, duration};
use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{Duration, Time};

/// The time of a transfer between GPUs in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// Seconds, whatever the size of the step.
    pub fixed: f64,
    /// Seconds for each token of the step.
    pub token: f64,
}

/// A stage of a pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// Its computation, without reductions.
    pub terms: Terms,
    /// All its all-reduces of a step, in each of the possible ways; none for one GPU.
    pub reduce: Vec<Way>,
    /// The hidden state's way to the next stage.
    pub pass: Way,
}

/// The stages, and when each is free.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    stages: Vec<Stage>,
    free: Vec<Time>,
}

impl Way {
    fn seconds(&self, tokens: f64) -> f64 {
        self.fixed + self.token * tokens
    }
}

impl Stage {
    /// The time of a step's part, in seconds.
    fn seconds(&self, work: &Work) -> f64 {
        let ways = self.reduce.iter().map(|way| way.seconds(work.tokens));
        self.terms.seconds(work) + ways.min_by(f64::total_cmp).unwrap_or(0.0)
    }
}

impl Engine {
    /// An idle engine with these stages in place of the profile's terms; with none, as
    /// [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// When the settings are not consistent.
    pub fn staged(config: Config, stages: Vec<Stage>, seed: u64) -> Result<Engine, ConfigError> {
        if stages.is_empty() {
            return Engine::new(config, seed);
        }
        let config = Config { schedule: Schedule::Mixed, decode_stride: 1, ..config };
        let free = vec![Time::ZERO; stages.len()];
        let pipeline = Some(Pipeline { stages, free });
        Ok(Engine { pipeline, ..Engine::new(config, seed)? })
    }

    /// Whether one more step may be under way.
    pub(super) fn has_room(&self) -> bool {
        let steps = self.later.len() + usize::from(self.step.is_some());
        steps < self.pipeline.as_ref().map_or(1, |pipeline| pipeline.stages.len())
    }

    /// Sends a step into the pipeline; `None` without one.
    pub(super) fn piped(&mut self, now: Time, work: &Work, decodes: &Work) -> Option<Step> {
        let factor = self.factor();
        let pipeline = self.pipeline.as_mut()?;
        let last = pipeline.stages.len() - 1;
        let (mut at, mut leaves, mut own, mut alone) = (now, now, 0.0, 0.0);
        for (nth, (stage, free)) in pipeline.stages.iter().zip(&mut pipeline.free).enumerate() {
            let seconds = stage.seconds(work);
            own += seconds;
            alone += if decodes.sequences > 0.0 { stage.seconds(decodes) } else { 0.0 };
            *free = at.max(*free) + duration(seconds * factor);
            at = *free;
            if nth == 0 {
                leaves = at;
            }
            if nth < last {
                at = at + duration(stage.pass.seconds(work.tokens) * factor);
            }
        }
        let one = at.since(now);
        let share = if work.prompts > 0.0 { 1.0 - alone / own } else { 0.0 };
        let prefill = Duration::from_nanos((one.as_nanos() as f64 * share) as u64);
        Some(Step { started: now, one, repeats: 1, prefill, leaves, ends: at })
    }
}

#[cfg(test)]
mod tests;
