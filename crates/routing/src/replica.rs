//! The replica table: what is known of each replica, and from when.
//!
//! Two sources meet here. The engine's own report (pending, running, KV use) is true but old; what
//! this gateway dispatched since then is new but only ours. Both count, always: choosing by the
//! report alone sends every request of a probe interval to the same replica.

use alloc::vec::Vec;
use meridian_base::{Duration, ModelId, ReplicaId, Time};

use crate::breaker::Breaker;
use crate::cost::Ewma;

/// What the driver tells of a replica when it joins.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaSpec {
    /// The models it serves.
    pub models: Vec<ModelId>,
    /// KV cache size in tokens; `None` until an engine tells.
    pub kv_tokens: Option<u64>,
    /// Most requests it runs at once (slots); `None` where unlimited or unknown.
    pub slots: Option<u32>,
    /// Relative capacity, 1 for an ordinary replica.
    pub weight: u32,
}

/// An engine's report of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Accepted, not in the batch yet; `None` where the engine does not tell.
    pub pending: Option<u32>,
    /// In the batch.
    pub running: Option<u32>,
    /// Share of KV memory in use, 0 to 1.
    pub kv_used: Option<f32>,
    /// KV cache size in tokens, where the report carries it.
    pub kv_tokens: Option<u64>,
}

/// Whether a replica takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Joined, not yet heard of. Takes requests: a probe is no precondition.
    Unproven,
    /// Answers its probes.
    Up,
    /// Missed its probes.
    Down,
    /// Finishes what it has and takes nothing new.
    Draining,
}

/// The figures a decision reads, one small row a replica so that a scan of a thousand stays in
/// the processor's nearest caches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// Our own dispatches that have not ended.
    pub outstanding: u32,
    /// Reported pending plus our dispatches since that report; without reports, our dispatches
    /// that have shown no first token past their predicted time.
    pub pending: u32,
    /// Reported running; without reports, our dispatches that have shown their first token.
    pub running: u32,
    /// Prefill tokens in front: prompt minus match over own dispatches without a first token.
    pub front_tokens: f32,
    /// Prompt tokens of our outstanding requests.
    pub outstanding_tokens: f32,
    /// Share of KV in use as reported, 0 to 1.
    pub kv_used: f32,
    /// KV tokens free for new work: size - in use - own unreported - reserve for growth.
    pub kv_free: f32,
    /// Smoothed utilisation u of the default policy, 0 to 1.
    pub utilisation: f32,
    /// Calibrated prefill time, ms a token.
    pub ms_per_token: f32,
}

/// Everything known of one replica.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) spec: ReplicaSpec,
    pub(crate) state: State,
    pub(crate) breaker: Breaker,
    pub(crate) load: Load,
    /// When the newest report was asked for: dispatches later than this are not in it.
    pub(crate) reported: Option<Time>,
    pub(crate) probe_misses: u32,
    pub(crate) next_probe: Time,
    pub(crate) probing: Option<Time>,
    /// Own dispatches since the last report: how many, and their unmatched prompt tokens.
    pub(crate) unreported: u32,
    pub(crate) unreported_tokens: f32,
    /// Requests of ours here that have shown their first token.
    pub(crate) decoding: u32,
    /// Predicted over reported cached tokens: trust in the inferred index.
    pub(crate) trust: Ewma,
    pub(crate) usage: Ewma,
}

/// The table. Rows are indexed by [`ReplicaId`]; an id without a replica has no entry in `ids`.
#[derive(Debug, Default)]
pub struct Replicas {
    pub(crate) slots: Vec<Option<Replica>>,
    rows: Vec<Row>,
    ids: Vec<ReplicaId>,
}

impl Replicas {
    /// The rows, by id. Rows of absent replicas are default.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// One replica's row.
    #[must_use]
    #[inline]
    pub fn row(&self, id: ReplicaId) -> &Row {
        &self.rows[id.index()]
    }

    /// The ids present, ascending.
    #[must_use]
    pub fn ids(&self) -> &[ReplicaId] {
        &self.ids
    }

    /// What is configured of a replica.
    #[must_use]
    pub fn spec(&self, id: ReplicaId) -> Option<&ReplicaSpec> {
        self.get(id).map(|r| &r.spec)
    }

    /// Size of the table: one more than the highest id ever used.
    #[must_use]
    pub fn width(&self) -> usize {
        self.rows.len()
    }

    /// The KV size in tokens that an engine reported or the config gave.
    #[must_use]
    pub fn kv_tokens(&self, id: ReplicaId) -> Option<u64> {
        self.get(id).and_then(|r| r.load.kv_tokens.or(r.spec.kv_tokens))
    }

    /// Age of the newest report at `now`.
    #[must_use]
    pub fn report_age(&self, id: ReplicaId, now: Time) -> Option<Duration> {
        self.get(id).and_then(|r| r.reported).map(|t| now.since(t))
    }

    /// Whether the engine tells its load (a report was ever read).
    #[must_use]
    pub fn reports(&self, id: ReplicaId) -> bool {
        self.get(id).is_some_and(|r| r.reported.is_some() && r.load.pending.is_some())
    }

    pub(crate) fn get(&self, id: ReplicaId) -> Option<&Replica> {
        self.slots.get(id.index()).and_then(Option::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: ReplicaId) -> Option<&mut Replica> {
        self.slots.get_mut(id.index()).and_then(Option::as_mut)
    }
}
