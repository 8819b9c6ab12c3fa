//! What a run is given.

use meridian_base::{PortId, Time};
use meridian_engine::Terms;

/// A way of sending something: what a byte costs where nobody else sends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Seconds of each operation, however small.
    pub latency: f64,
    /// Seconds a byte.
    pub per_byte: f64,
    /// What a byte puts on each port that others use too. Ports that are this sender's alone are in
    /// `per_byte`.
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
    /// How the hidden state gets to the next stage.
    pub pass: Option<Way>,
}

/// An instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// Its stages.
    pub stages: Vec<Stage>,
    /// Bytes of a token's hidden state.
    pub token_bytes: f64,
    /// Prompts that are computed at once: the ranks that share experts, otherwise 1.
    pub together: usize,
    /// Most requests in its batches.
    pub seats: usize,
    /// Tokens of KV that fit.
    pub kv_tokens: f64,
    /// Its share of the requests, in any unit.
    pub weight: f64,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// When it comes.
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
    /// Instances that compute prompts.
    pub prefill: Vec<Instance>,
    /// Instances that write replies.
    pub decode: Vec<Instance>,
    /// How a token's KV gets from each prefill instance to each decode instance; a token counts as a
    /// byte.
    pub handoff: Vec<Vec<Way>>,
    /// Layers: KV is sent as they are computed, so that only the last one's comes after the prompt;
    /// 1 sends all of it afterwards.
    pub layers: u32,
    /// What comes, in the order of time.
    pub requests: Vec<Request>,
    /// When the run ends, whatever is under way.
    pub until: Time,
}

/// Chooses ways.
pub trait Choose {
    /// The way of `count` operations of `bytes` each that `group` begins now, one after the other.
    fn choose(&mut self, now: Time, group: usize, bytes: f64, count: f64) -> usize;

    /// Told of bytes on ports that are no collective's.
    fn carried(&mut self, now: Time, loads: &[(PortId, f64)], bytes: f64) {
        let _ = (now, loads, bytes);
    }
}
