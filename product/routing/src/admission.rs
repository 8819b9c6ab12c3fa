//! Admission modes: when a replica may receive another request. Independent of the policy.
//!
//! SkyWalker section 3.3 compares the first three, `Saturation` is llm-d's, and `PendingKv` ours. A
//! paged engine with no pending requests may still be full, and one with pending requests may only
//! have used up its step's token budget. But a request that stays pending shows that the engine is
//! full, and memory is also kept for the growth of replies (`growth.rs`) and for cached prefixes
//! (`reuse.rs`).

use crate::row::Row;

/// Pending requests from which a replica is saturated (llm-d, `DefaultQueueDepthThreshold`).
const SATURATED_PENDING: u32 = 5;
/// Share of KV in use from which it is (llm-d, `DefaultKVCacheUtilThreshold`).
const SATURATED_KV: f32 = 0.8;

/// An admission mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Always dispatch on arrival.
    Blind,
    /// SP-O: fewer than `max` outstanding requests, as this gateway counts them.
    Outstanding {
        /// The bound.
        max: u32,
    },
    /// SP-P: the engine reported nothing pending.
    Pending,
    /// llm-d's saturation detector with its defaults: the engine reported fewer than 5 pending
    /// requests and less than 80 % of its KV in use. While all replicas are saturated, requests
    /// wait.
    Saturation,
    /// KV fit: the prompt's unmatched tokens and the reply fit into the KV cache next to the tokens
    /// in use, those dispatched since the last report, and those kept for the growth of replies and
    /// for cached prefixes. No request of ours is pending for longer than prefill explains.
    PendingKv,
}

impl Admission {
    /// Its name in config and results.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Admission::Blind => "blind",
            Admission::Outstanding { .. } => "outstanding",
            Admission::Pending => "pending",
            Admission::Saturation => "saturation",
            Admission::PendingKv => "pending_kv",
        }
    }

    /// The most unmatched prompt tokens that a replica with this row has capacity for; negative
    /// when it has none.
    ///
    /// Under [`Admission::PendingKv`] an empty replica always has capacity; the engine itself
    /// refuses a prompt larger than its KV cache. An engine that reports slots instead of KV use
    /// (llama.cpp) has capacity while a slot is free. One that reports neither has capacity while
    /// none of our dispatches is overdue.
    #[must_use]
    pub fn room(&self, row: &Row) -> f32 {
        let all_or_none = |all: bool| if all { f32::INFINITY } else { -1.0 };
        // Failed attempts make a replica less attractive, but take no capacity.
        let there = row.outstanding.saturating_sub(row.failed);
        match self {
            Admission::Blind => f32::INFINITY,
            Admission::Outstanding { max } => all_or_none(there < *max),
            Admission::Pending => all_or_none(row.reported_pending == 0),
            Admission::Saturation => {
                all_or_none(row.reported_pending < SATURATED_PENDING && row.kv_used < SATURATED_KV)
            }
            Admission::PendingKv if there == 0 => f32::INFINITY,
            Admission::PendingKv if row.free_slots == 0 => -1.0,
            Admission::PendingKv if row.kv_free <= 0.0 => -1.0,
            Admission::PendingKv if row.kv_free.is_finite() => row.kv_free,
            Admission::PendingKv => all_or_none(row.reported_pending == 0),
        }
    }
}
