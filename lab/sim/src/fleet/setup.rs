//! All inputs of a run.

use meridian_base::{PortId, Time};
use meridian_engine::Terms;

/// A way of sending data, with its cost per byte without contention.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Seconds of each operation, regardless of size.
    pub latency: f64,
    /// Seconds a byte.
    pub per_byte: f64,
    /// The load of a byte on each shared port. Ports that only this sender uses are in `per_byte`.
    pub loads: Vec<(PortId, f64)>,
}

/// A stage of a pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// Computing.
    pub terms: Terms,
    /// All-reduces of a step.
    pub reductions: f64,
    /// Its communicator, counted through all instances.
    pub group: usize,
    /// Ways of its all-reduce; none for one GPU.
    pub ways: Vec<Way>,
    /// The way of the hidden state to the next stage.
    pub pass: Option<Way>,
}

/// An instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// Its stages.
    pub stages: Vec<Stage>,
    /// Bytes of a token's hidden state.
    pub token_bytes: f64,
    /// Prompts computed at once: the number of ranks that share experts, otherwise 1.
    pub together: usize,
    /// Most requests in its batches.
    pub seats: usize,
    /// Tokens of KV that fit.
    pub kv_tokens: f64,
    /// Its share of the requests, in any unit.
    pub weight: f64,
}

/// An engine that prefills and decodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregated {
    /// The engine; `together` is its number of ranks that share experts, otherwise 1.
    pub engine: Instance,
    /// Most tokens of a step, for each rank.
    pub budget: u32,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// When it arrives.
    pub at: Time,
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Tokens of its reply, 1 or more.
    pub output: u32,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// Bytes a second of each port.
    pub ports: Vec<f64>,
    /// Prefill instances.
    pub prefill: Vec<Instance>,
    /// Decode instances.
    pub decode: Vec<Instance>,
    /// Aggregated instances, which then get all requests.
    pub aggregated: Vec<Aggregated>,
    /// The way of a token's KV from each prefill instance to each decode instance; a token counts
    /// as a byte.
    pub handoff: Vec<Vec<Way>>,
    /// Layers: KV is sent as they are computed, so that only the last layer's follows the prompt; 1
    /// sends all of it afterwards.
    pub layers: u32,
    /// The requests, ordered by time.
    pub requests: Vec<Request>,
    /// When the run ends, with or without unfinished requests.
    pub until: Time,
}

/// Chooses ways for collectives.
pub trait Choose {
    /// The way for `count` consecutive operations of `bytes` each that `group` starts now.
    fn choose(&mut self, now: Time, group: usize, bytes: f64, count: f64) -> usize;

    /// Reports bytes on ports that do not belong to collectives.
    fn carried(&mut self, now: Time, loads: &[(PortId, f64)], bytes: f64) {
        let _ = (now, loads, bytes);
    }
}
