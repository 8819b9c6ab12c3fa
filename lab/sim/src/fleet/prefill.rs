//! Prefill instances: which instance takes a request, and which prompts it computes next.

use std::collections::VecDeque;

use meridian_engine::Work;

use super::setup::{Instance, Request};
use super::stage::Stages;

/// A prefill instance while it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefill {
    pub(super) queue: VecDeque<usize>,
    /// Tokens that are queued or being computed.
    pub(super) tokens: f64,
    pub(super) stages: Stages,
}

impl Prefill {
    pub(super) fn new(setup: &Instance) -> Prefill {
        Prefill { stages: Stages::new(setup.stages.len()), ..Prefill::default() }
    }
}

/// The least loaded instance for its weight.
pub(super) fn least(all: &[Prefill], instances: &[Instance]) -> usize {
    let load = |at: &usize| (all[*at].tokens + 1.0) / instances[*at].weight;
    (0..all.len()).min_by(|a, b| load(a).total_cmp(&load(b))).expect("a fleet has a prefill")
}

/// The step of several prompts. Ranks that share experts step together, so a seat without a prompt
/// costs as much as one with a prompt.
pub(super) fn work(prompts: &[usize], requests: &[Request], together: usize) -> Work {
    let mut work = Work::default();
    for prompt in prompts {
        work.prefill(0, requests[*prompt].prompt);
    }
    let scale = together as f64 / prompts.len() as f64;
    work.tokens *= scale;
    work.sequences *= scale;
    work.pairs *= scale;
    work.prompts *= scale;
    work
}
