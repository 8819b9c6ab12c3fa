//! Prefill and decode replicas in the admin API: pools, links, and the price of a pair.

use serde::{Deserialize, Serialize};

/// The replicas of a model with one role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// The first model of its replicas.
    pub model: String,
    /// `both`, `prefill` or `decode`.
    pub role: String,
    /// Its replicas, without draining ones.
    pub replicas: u32,
    /// Of those, the ones that are up.
    pub up: u32,
    /// Accepted by its engines, not in a batch yet.
    pub pending: u32,
    /// Prompt tokens that its engines have to compute before a new request's.
    pub front_tokens: f32,
    /// In its engines' batches.
    pub running: u32,
    /// Tokens of KV prefilled there that the decode replicas have not fetched.
    pub held_tokens: f32,
    /// Tokens of KV under way to or from there.
    pub moving_tokens: f32,
    /// Mean share of KV in use.
    pub kv_used: f32,
    /// Its load as a number of fully used replicas.
    pub work: f64,
    /// Replicas that this load requires at 70 % utilisation.
    pub needed: u32,
}

/// How fast KV moves between prefill and decode replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// Whether transfers have been seen. Without one, the two figures are guesses.
    pub learned: bool,
    /// Mean fixed time of a transfer, ms.
    pub fixed_ms: f32,
    /// Mean time of each further token, ms.
    pub ms_per_token: f32,
    /// Pairs whose transfers fail, and that get no request for a while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<CutPair>,
}

/// A pair whose transfers fail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CutPair {
    /// The name of the prefill replica.
    pub prefill: String,
    /// The name of the decode replica.
    pub decode: String,
    /// Seconds until it may get a request.
    pub left_s: f64,
}

/// The price of a prefill and a decode replica together, for a decision that picked both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Its score, in the policy's unit; none if the policy does not price pairs.
    pub score: Option<f64>,
    /// The lowest score of a single replica; none if there was no candidate alone.
    pub alone: Option<f64>,
    /// The fixed time of a transfer between the two, ms.
    pub fixed_ms: f32,
    /// The time of each further token, ms.
    pub ms_per_token: f32,
}
