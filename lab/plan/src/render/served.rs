//! The model as its engines serve it: weights, name and context.

use crate::task::{Lengths, Task};

/// Normal quantile of 999 in 1,000.
const QUANTILE: f64 = 3.09;
/// The context is rounded up to a multiple of this, in tokens.
const STEP: f64 = 1024.0;

/// What every launch line says about the model.
pub(super) struct Served {
    /// The id or path of its weights.
    pub(super) id: String,
    /// Its name in the API.
    pub(super) name: String,
    /// Most tokens of a prompt and its reply.
    pub(super) context: u32,
}

impl Served {
    pub(super) fn new(task: &Task<'_>, id: &str) -> Served {
        Served { id: id.to_owned(), name: task.subject.name.clone(), context: context(task) }
    }

    /// Whether the weights are in a folder of each server.
    pub(super) fn is_path(&self) -> bool {
        self.id.starts_with('/')
    }
}

/// The lengths that 999 of 1,000 prompts and replies do not exceed, together, in steps of 1,024
/// tokens, and at most the model's context. An engine refuses to start if its KV cache is smaller
/// than one request of this length.
pub(crate) fn context(task: &Task<'_>) -> u32 {
    let both = longest(task.prompt) + longest(task.output);
    let steps = libm::ceil(both / STEP).max(1.0) * STEP;
    steps.min(f64::from(task.subject.shape.context)) as u32
}

fn longest(lengths: Lengths) -> f64 {
    let sigma = lengths.sigma();
    lengths.mean * libm::exp(QUANTILE * sigma - sigma * sigma / 2.0)
}

#[cfg(test)]
mod tests {
    use crate::import::TopologySpec;
    use crate::model::Subject;
    use crate::task::Slo;

    use super::*;

    // Equal lengths need their sum; varied ones more, but never more than the model has.
    #[test]
    fn the_context_follows_the_lengths() {
        let yaml = include_str!("../../topologies/heroserve-testbed.yaml");
        let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
        let slo = Slo { ttft: 1.0, tpot: 0.1, attainment: 0.9 };
        for (model, prompt, cv, tokens) in [
            ("llama-3.1-8b", 2000.0, 0.0, 4096),
            ("llama-3.1-8b", 1000.0, 1.0, 19_456),
            ("mistral-7b", 4000.0, 2.0, 32_768),
            ("opt-66b", 300.0, 0.0, 1024),
        ] {
            let subject = Subject::named(model).unwrap();
            let lengths = Lengths { mean: prompt, cv };
            let task = Task::new(&topology, &subject, (lengths, lengths), slo);
            assert_eq!(context(&task), tokens, "{model} {prompt} {cv}");
        }
    }
}
