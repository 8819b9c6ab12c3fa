//! The leases of blocks that prefill engines hold for decode legs.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// The time that an engine grants. A decode engine's heartbeats do not occur: it fetches at once.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Most leases remembered; past it the oldest are forgotten, and their parameters are unknown.
const MOST: usize = 10_000;

/// Blocks held by one prefill engine.
pub(crate) struct Lease {
    /// The prefill engine.
    pub(crate) engine: usize,
    /// The recording that was answered.
    pub(crate) name: &'static str,
    /// The parameters in the answer, if it has any.
    pub(crate) params: Value,
    pub(crate) blocks: u64,
    until: Instant,
    pub(crate) end: Option<End>,
}

/// The end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A decode engine read the blocks, or refused its request and gave them back.
    Released,
    /// No decode engine asked in time.
    Expired,
}

/// Every lease.
#[derive(Default)]
pub(crate) struct Leases(VecDeque<Lease>);

impl Leases {
    pub(crate) fn grant(
        &mut self,
        engine: usize,
        name: &'static str,
        params: Value,
        blocks: u64,
        now: Instant,
    ) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        let until = now + LEASE;
        self.0.push_back(Lease { engine, name, params, blocks, until, end: None });
    }

    /// Ends the leases that are over. Returns the engine of each.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<usize> {
        let over = self.0.iter_mut().filter(|lease| lease.end.is_none() && lease.until <= now);
        over.map(|lease| {
            lease.end = Some(End::Expired);
            lease.engine
        })
        .collect()
    }

    /// The lease with this `remote_request_id`.
    pub(crate) fn find(&mut self, id: &Value) -> Option<&mut Lease> {
        self.0.iter_mut().find(|lease| id.is_string() && lease.params["remote_request_id"] == *id)
    }

    /// Blocks that an engine holds.
    pub(crate) fn held(&self, engine: usize) -> u64 {
        let held = self.0.iter().filter(|lease| lease.engine == engine && lease.end.is_none());
        held.map(|lease| lease.blocks).sum()
    }

    /// Ends the leases of an engine that is dead: there is nothing left to expire.
    pub(crate) fn lose(&mut self, engine: usize) {
        for lease in self.0.iter_mut().filter(|lease| lease.engine == engine) {
            lease.end.get_or_insert(End::Released);
        }
    }
}
