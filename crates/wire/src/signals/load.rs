//! The load of one replica in the words of the routing machine.
//!
//! Counts that an engine does not tell stay `None`; a zero is a statement. Totals are counters
//! since the engine's start: only their differences mean something, and one that goes down means
//! that the engine was restarted.

/// What one or more pages told about a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests that the replica has accepted and not yet put into its batch.
    pub pending: Option<u32>,
    /// Requests in the batch, or past prefill and handing over their KV.
    pub running: Option<u32>,
    /// Requests that can run at the same time, where the engine has a fixed number.
    pub slots: Option<u32>,
    /// Used share of the KV cache, 0 to 1, without what only caches a prefix and could be evicted.
    pub kv_used: Option<f32>,
    /// Used KV cache in tokens, where the engine says it in tokens.
    pub kv_used_tokens: Option<u64>,
    /// Capacity of the KV cache in tokens, over all ranks.
    pub kv_tokens: Option<u64>,
    /// Prompt tokens since the engine's start, those found in the prefix cache included.
    pub prompt_tokens_total: Option<u64>,
    /// Prompt tokens found in the prefix cache since the engine's start.
    pub cached_tokens_total: Option<u64>,
    /// Requests ended since the engine's start, however they ended, as far as the engine counts.
    pub finished_total: Option<u64>,
}

impl Load {
    /// Pending and running together, to hold against the gateway's own count of requests in flight.
    pub fn outstanding(&self) -> Option<u32> {
        Some(self.pending?.saturating_add(self.running?))
    }

    /// Adds what does not change while the engine runs (slots, KV capacity) from an older reading,
    /// and the KV share where used tokens and capacity came from different pages.
    pub fn with_capacity(mut self, capacity: &Load) -> Self {
        self.slots = self.slots.or(capacity.slots);
        self.kv_tokens = self.kv_tokens.or(capacity.kv_tokens);
        self.derive();
        self
    }

    /// Fills what this reading lacks from another one of the same moment.
    pub fn or(mut self, other: &Load) -> Self {
        self.pending = self.pending.or(other.pending);
        self.running = self.running.or(other.running);
        self.slots = self.slots.or(other.slots);
        self.kv_used = self.kv_used.or(other.kv_used);
        self.kv_used_tokens = self.kv_used_tokens.or(other.kv_used_tokens);
        self.kv_tokens = self.kv_tokens.or(other.kv_tokens);
        self.prompt_tokens_total = self.prompt_tokens_total.or(other.prompt_tokens_total);
        self.cached_tokens_total = self.cached_tokens_total.or(other.cached_tokens_total);
        self.finished_total = self.finished_total.or(other.finished_total);
        self.derive();
        self
    }

    /// Works out the KV share from tokens where the engine gave no share.
    pub(crate) fn derive(&mut self) {
        if let (None, Some(used), Some(all @ 1..)) =
            (self.kv_used, self.kv_used_tokens, self.kv_tokens)
        {
            self.kv_used = Some((used as f64 / all as f64).min(1.0) as f32);
        }
    }
}

/// Sums the samples of one name, remembering whether there were any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    total: f64,
    samples: u32,
}

impl Tally {
    /// Adds a sample. NaN is Prometheus's way to say "no value" and counts as absent.
    pub(crate) fn add(&mut self, value: f64) {
        if !value.is_nan() {
            self.total += value;
            self.samples += 1;
        }
    }

    /// The sum; none when there was no sample.
    pub(crate) fn sum(&self) -> Option<u64> {
        // A float cast saturates, so no total can overflow.
        (self.samples > 0).then_some(self.total as u64)
    }

    /// The sum as a number of requests.
    pub(crate) fn count(&self) -> Option<u32> {
        (self.samples > 0).then_some(self.total as u32)
    }

    /// The mean as a share of 1.
    pub(crate) fn share(&self) -> Option<f32> {
        (self.samples > 0).then(|| (self.total / f64::from(self.samples)).clamp(0.0, 1.0) as f32)
    }
}
