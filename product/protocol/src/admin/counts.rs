//! Counts on the status page: how requests ended, times, and tokens in caches.

use serde::{Deserialize, Serialize};

/// Every fully read request is in exactly one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Read in full, understood, and for a model that is known here.
    pub accepted: u64,
    /// Answered in full.
    pub done: u64,
    /// Refused by the engine as the client's mistake.
    pub client_error: u64,
    /// Refused by the gateway: no capacity, no replica.
    pub rejected: u64,
    /// Lost to a replica's failure after retries, or after bytes had gone out.
    pub failed: u64,
    /// Ended by the client.
    pub cancelled: u64,
    /// Not ended yet.
    pub in_flight: u64,
}

/// Quantiles over a recent window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Samples since the start.
    pub count: u64,
}

/// Prefix matches in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// Prompt tokens dispatched, as estimated here.
    pub prompt_tokens: u64,
    /// Of those, expected in the picked replica's cache.
    pub matched_tokens: u64,
    /// Prompt tokens of answers whose engine reported its cached tokens.
    pub known_prompt_tokens: u64,
    /// Of those, cached.
    pub cached_tokens: u64,
}

/// Sessions, as the queue's turns count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionCounts {
    /// How many.
    pub known: u32,
    /// The largest one's share of the tokens that all of them were served, 0 to 1.
    pub largest_share: f64,
}
