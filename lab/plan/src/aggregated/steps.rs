//! Steps of an engine that prefills and decodes: decodes first, and the rest of the token budget
//! for prompts (chunked prefill, as vLLM does).
//!
//! A step's time is that of the engine model's terms with both in it, so a prompt that shares the
//! reading of the weights with decodes costs less than one in a step of its own, and delays all of
//! them. A pipeline runs one batch in each stage; each batch has its own part of the requests.

use meridian_engine::Work;

use crate::instance::{Instance, Pipeline, Unfit, kept, seats};
use crate::spread::Spread;
use crate::task::Task;

/// vLLM's default token budgets of a step: on GPUs with high memory bandwidth, and on others.
const BUDGET: [f64; 2] = [8192.0, 2048.0];

/// The step times of one instance.
pub(super) struct Steps {
    pub(super) pipeline: Pipeline,
    /// Batches at once: one for each stage.
    pub(super) lanes: f64,
    /// Ranks that share experts, each with a token budget of its own; otherwise 1.
    pub(super) ranks: f64,
    /// Tokens of a step, of each rank.
    pub(super) budget: f64,
    /// Most requests in all batches together: seats, and KV that fits.
    pub(super) seats: f64,
    pub(super) kv_seats: f64,
    /// Mean prompt and mean reply after its first token, in tokens.
    pub(super) prompt: f64,
    pub(super) further: f64,
    /// Pairs of a prompt's token, on average.
    pairs: f64,
    /// KV tokens of a request in a batch.
    kept: f64,
}

impl Steps {
    /// The steps of an instance, whatever its phase.
    pub(super) fn new(task: &Task<'_>, instance: &Instance) -> Result<Steps, Unfit> {
        let pipeline = Pipeline::new(task, instance)?;
        let longest = f64::from(task.subject.shape.context) - task.output.mean;
        let lengths = Spread::new(task.prompt, longest, |tokens| tokens);
        let prompt = lengths.mean();
        let large = seats(task, instance) >= 1024.0;
        Ok(Steps {
            lanes: pipeline.stages.len() as f64,
            ranks: if instance.parallel.ep { f64::from(instance.parallel.tp) } else { 1.0 },
            budget: BUDGET[usize::from(!large)],
            seats: seats(task, instance),
            kv_seats: pipeline.kv_tokens() / kept(task),
            prompt,
            further: (task.output.mean - 1.0).max(0.0),
            pairs: lengths.mean_of(|tokens| tokens * (tokens + 1.0) / 2.0) / prompt,
            kept: kept(task),
            pipeline,
        })
    }

    /// Prompt tokens that fit into a step with `decodes`.
    pub(super) fn room(&self, decodes: f64) -> f64 {
        (self.budget * self.ranks - decodes).max(1.0)
    }

    /// Prompt tokens of a step when this many wait: ranks take a prompt each.
    pub(super) fn taken_of(&self, waiting: f64, decodes: f64) -> f64 {
        let ranks = (waiting / self.prompt).clamp(1.0, self.ranks);
        waiting.min((self.budget * ranks - decodes * ranks / self.ranks).max(1.0))
    }

    /// Prompts that a step with these prompt tokens has, if this many arrive in one on average. With
    /// few, a long one is alone.
    pub(super) fn prompts(&self, tokens: f64, each: f64) -> f64 {
        if tokens > 0.0 { (tokens / self.prompt).min(1.0 + each).max(1.0) } else { 0.0 }
    }

    /// Seconds of a step of one batch with `decodes`, and `prompts` of `tokens` together.
    pub(super) fn time(&self, decodes: f64, tokens: f64, prompts: f64) -> f64 {
        let work = Work {
            tokens: decodes + tokens,
            sequences: decodes + prompts,
            context: decodes * self.kept,
            pairs: tokens * self.pairs,
            prompts,
        };
        self.pipeline.step(&work).whole
    }

    /// Requests that each batch has if `others` run and one more does.
    pub(super) fn lane(&self, others: f64) -> f64 {
        ((others + 1.0) / self.lanes).max(1.0)
    }
}
