//! Statistics of an engine: the numbers behind its metrics page.

use meridian_base::Duration;

/// A snapshot. Gauges first, then counters since the start.
///
/// **Pending requests.** `pending` counts the requests that the last schedule left out of the
/// batch, plus those preempted since. A request that arrives during a step is in `arrived`, not in
/// `pending`, until the next schedule has considered it. So pending above 0 means that a schedule
/// could not admit a request, for lack of KV, sequence slots or token budget (vLLM's count, taken
/// after its scheduler ran; SkyWalker, section 3.3, reads it as "the batch is full"). If arrivals
/// counted, every busy replica would look full for up to a step. The sum of `running`, `pending`
/// and `arrived` is outstanding, together with `deferred`: decode legs whose KV is still on its way.
/// Prefill legs whose blocks are held have ended. They show only in `held` and in the KV.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Requests in the batch.
    pub running: u32,
    /// Requests that the last schedule could not admit.
    pub pending: u32,
    /// Requests that no schedule has seen yet.
    pub arrived: u32,
    /// Decode legs that wait for KV from another engine.
    pub deferred: u32,
    /// Prefill legs that have ended and whose blocks are held.
    pub held: u32,
    /// KV blocks in all.
    pub kv_blocks: u32,
    /// KV blocks that requests reference: in the batch, deferred or held.
    pub kv_referenced: u32,
    /// KV blocks found by hash, referenced or not.
    pub kv_indexed: u32,
    /// Prompt tokens of requests admitted.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub reply_tokens: u64,
    /// Prompt tokens looked up in the prefix cache: each request once, at its first admission.
    pub prefix_queries: u64,
    /// Those found.
    pub prefix_hits: u64,
    /// Prompt tokens whose KV came from another engine.
    pub fetched_tokens: u64,
    /// Requests that ended on their own.
    pub finished_stop: u64,
    /// Requests that ended at a cap.
    pub finished_length: u64,
    /// Requests aborted.
    pub finished_abort: u64,
    /// Decode legs whose KV did not arrive.
    pub finished_error: u64,
    /// Held blocks of a request whose lease expired.
    pub leases_expired: u64,
    /// Releases under an id that held no blocks.
    pub late_releases: u64,
    /// Requests not accepted.
    pub refused: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Prefix blocks evicted.
    pub evictions: u64,
    /// Steps taken.
    pub steps: u64,
    /// Time spent in steps.
    pub step_time: Duration,
    /// The part of it that prefill added: step time less the time of the same decodes alone.
    pub prefill_time: Duration,
}

impl Stats {
    /// Requests in the engine.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.running + self.pending + self.arrived + self.deferred
    }

    /// Share of KV blocks referenced, 0 to 1.
    #[must_use]
    pub fn kv_used(&self) -> f64 {
        f64::from(self.kv_referenced) / f64::from(self.kv_blocks.max(1))
    }

    /// Requests that ended, for whatever reason, after they were accepted.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.finished_stop + self.finished_length + self.finished_abort + self.finished_error
    }
}
