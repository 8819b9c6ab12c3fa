//! One request inside the engine.

use crate::kv::Table;
use crate::leg::Leg;
use crate::output::{StopReason, Timings, Usage};
use alloc::vec::Vec;
use meridian_base::{RequestId, Time};

/// The state of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePlace {
    /// No schedule has seen it.
    Arrived,
    /// A schedule could not admit it, or it was preempted.
    Pending,
    /// It has KV for its prompt, and waits for the missing blocks.
    Deferred,
    /// They have arrived.
    Fetched,
    /// In the batch.
    Running,
}

/// A sequence: the prompt plus the tokens generated so far.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) id: RequestId,
    pub(crate) place: QueuePlace,
    pub(crate) leg: Leg,
    pub(crate) prompt: u32,
    /// Tokens to generate in all.
    pub(crate) limit: u32,
    /// How it ends at the limit.
    pub(crate) ending: StopReason,
    pub(crate) generated: u32,
    /// Tokens whose keys and values are in `table`, as of the last step that ended.
    pub(crate) computed: u32,
    /// Further tokens in steps that have not ended.
    pub(crate) flying: u32,
    /// Chained hashes of its blocks, as far as the driver knows them.
    pub(crate) hashes: Vec<u64>,
    /// Its KV blocks.
    pub(crate) table: Table,
    pub(crate) arrived: Time,
    /// Since when it is pending.
    pub(crate) pending_since: Time,
    pub(crate) admitted: Option<Time>,
    pub(crate) first_token: Option<Time>,
    pub(crate) cached: u32,
    pub(crate) preemptions: u32,
}

impl Sequence {
    /// Prompt and reply so far.
    pub(crate) fn tokens(&self) -> u32 {
        self.prompt + self.generated
    }

    /// Tokens that no step has computed or computes now.
    pub(crate) fn left(&self) -> u32 {
        self.tokens() - self.computed - self.flying
    }

    /// Whether only the last generated token is left to compute.
    pub(crate) fn is_decoding(&self) -> bool {
        self.generated > 0 && self.computed + 1 == self.tokens()
    }

    /// Hashes that a cached prefix may use: whole blocks, and never the last token, which must be
    /// computed to get the next one (vLLM's rule).
    pub(crate) fn reusable_blocks(&self) -> usize {
        let blocks = (self.tokens().saturating_sub(1) / crate::BLOCK_TOKENS) as usize;
        blocks.min(self.hashes.len())
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt,
            cached_tokens: self.cached,
            reply_tokens: self.generated,
            preemptions: self.preemptions,
        }
    }

    pub(crate) fn timings(&self, end: Time) -> Timings {
        let since = |from: Option<Time>| from.map(|t| end.since(t)).unwrap_or_default();
        let (admitted, first) = (since(self.admitted), since(self.first_token));
        let e2e = end.since(self.arrived);
        Timings { queued: e2e - admitted, prefill: admitted - first, decode: first, e2e }
    }
}
