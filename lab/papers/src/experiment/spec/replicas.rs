//! Fleets: groups of equal replicas, and replicas that are slow for a while.

use meridian_protocol::units::Span;
use serde::{Deserialize, Serialize};

use super::Pool;

/// The replicas of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// Its name.
    pub name: String,
    /// Groups of equal replicas.
    pub groups: Vec<Group>,
    /// Replicas that are slow for a part of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<Degraded>,
    /// Rates of the uplinks of racks in each direction, in 10^9 bits per second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub racks: Vec<f64>,
}

/// Equal replicas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// GPU, by the engine model's short name.
    pub gpu: String,
    /// Model, by its short name.
    pub model: String,
    /// Tensor parallel degree.
    #[serde(default = "super::one")]
    pub tp: u32,
    /// Number in each region.
    pub count: Vec<u32>,
    /// KV tokens, if different from the profile's.
    pub kv_tokens: Option<u32>,
    /// Most tokens computed in a step, if different from the engine's default.
    pub max_num_batched_tokens: Option<u32>,
    /// Most sequences in a batch, if different from the engine's default.
    pub max_num_seqs: Option<u32>,
    /// Coefficient of variation of a step's time.
    #[serde(default)]
    pub jitter: f64,
    /// Step times in place of the GPU's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    /// On real processes, a llama.cpp server with `max_num_seqs` slots of this many tokens in place
    /// of the model engine. `speed` is then measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llamacpp_context: Option<u32>,
    /// Their part of requests; without it they serve whole ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
}

/// Step times of an engine that is neither a GPU's nor calibrated, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// A step.
    pub step_ms: f64,
    /// Each sequence in it.
    pub sequence_ms: f64,
    /// Each prompt token in it; a token has four bytes.
    pub token_ms: f64,
}

/// A replica whose steps take longer for a part of the run, as with a GPU that is throttled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Degraded {
    /// Its number, from 0: by region, and within a region by group.
    pub replica: usize,
    /// Its steps take this many times as long; at least 1.
    pub factor: f64,
    /// Since the start of the run, warm-up included.
    pub at: Span,
    /// The end of it, since the start of the run.
    pub until: Span,
}

impl Fleet {
    /// Number of replicas in all regions.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.groups.iter().flat_map(|group| &group.count).map(|count| *count as usize).sum()
    }
}
