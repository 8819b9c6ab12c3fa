//! The load of one replica, in the terms of the routing machine.
//!
//! Counts that an engine does not report stay `None`; a zero is a reported value. Totals are
//! counters since the engine's start: only their differences mean something, and a decrease means
//! that the engine was restarted.

use super::Transfers;

/// The values that one or more pages reported about a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests that the replica has accepted and not yet put into its batch.
    pub pending: Option<u32>,
    /// Requests in the batch, or past prefill and handing over their KV.
    pub running: Option<u32>,
    /// Requests that can run at the same time, if the engine has a fixed number.
    pub slots: Option<u32>,
    /// The longest prompt and reply together, in tokens.
    pub context: Option<u64>,
    /// Used share of the KV cache, 0 to 1, without blocks that only cache a prefix and can be
    /// evicted.
    pub kv_used: Option<f32>,
    /// Used KV cache in tokens, if the engine reports it in tokens.
    pub kv_used_tokens: Option<u64>,
    /// Capacity of the KV cache in tokens, over all ranks.
    pub kv_tokens: Option<u64>,
    /// Prompt tokens since the engine's start, including those found in the prefix cache.
    pub prompt_tokens_total: Option<u64>,
    /// Prompt tokens found in the prefix cache since the engine's start.
    pub cached_tokens_total: Option<u64>,
    /// Requests ended since the engine's start, in whatever way, as far as the engine counts.
    pub finished_total: Option<u64>,
    /// Transfers of KV since the engine's start.
    pub transfers: Transfers,
}

impl Load {
    /// Pending and running together, to compare with the gateway's own count of requests in flight.
    pub fn outstanding(&self) -> Option<u32> {
        Some(self.pending?.saturating_add(self.running?))
    }

    /// Adds constants of the engine (slots, KV capacity) from an older reading, and the KV share if
    /// used tokens and capacity came from different pages.
    pub fn with_capacity(mut self, capacity: &Load) -> Self {
        self.slots = self.slots.or(capacity.slots);
        self.context = self.context.or(capacity.context);
        self.kv_tokens = self.kv_tokens.or(capacity.kv_tokens);
        self.derive();
        self
    }

    /// Fills in absent values from another reading of the same moment.
    pub fn or(mut self, other: &Load) -> Self {
        self.pending = self.pending.or(other.pending);
        self.running = self.running.or(other.running);
        self.slots = self.slots.or(other.slots);
        self.context = self.context.or(other.context);
        self.kv_used = self.kv_used.or(other.kv_used);
        self.kv_used_tokens = self.kv_used_tokens.or(other.kv_used_tokens);
        self.kv_tokens = self.kv_tokens.or(other.kv_tokens);
        self.prompt_tokens_total = self.prompt_tokens_total.or(other.prompt_tokens_total);
        self.cached_tokens_total = self.cached_tokens_total.or(other.cached_tokens_total);
        self.finished_total = self.finished_total.or(other.finished_total);
        self.transfers = self.transfers.or(other.transfers);
        self.derive();
        self
    }

    /// Computes the KV share from tokens if the engine reported no share.
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
            assert!(value >= 0.0, "a sample that is no load is refused where it is read");
            self.total += value;
            self.samples += 1;
        }
    }

    /// The sum with its fraction; none if there was no sample.
    pub(crate) fn total(&self) -> Option<f64> {
        (self.samples > 0).then_some(self.total)
    }

    /// The sum; none if there was no sample.
    pub(crate) fn sum(&self) -> Option<u64> {
        // A float cast saturates, so no total can overflow.
        (self.samples > 0).then_some(self.total as u64)
    }

    /// The sum as a number of requests.
    pub(crate) fn count(&self) -> Option<u32> {
        (self.samples > 0).then_some(self.total as u32)
    }

    /// The mean; none if there was no sample.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.total / f64::from(self.samples))
    }

    /// The mean as a share of 1.
    pub(crate) fn share(&self) -> Option<f32> {
        self.mean().map(|mean| mean.clamp(0.0, 1.0) as f32)
    }
}
