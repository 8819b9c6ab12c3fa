//! The digest: the summary of its load that a region sends to its peers, a few dozen bytes per
//! replica.
//!
//! SkyWalker's heartbeat carries two numbers, the replicas that are not full and the length of the
//! queue (section 3.3, Listing 1 lines 9-15). Policies that compare a remote replica with a local
//! one need the same figures for both, so the digest also carries those of each replica. A very
//! large region lists its best replicas and aggregates the rest.
//!
//! Deliberately not here: the driver decides when and how to send a digest.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ReplicaId;
use crate::pool::Pool;
use crate::residency::Place;

/// One region as its peers see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Digest {
    /// Requests held in its gateway.
    pub held: u32,
    /// Replicas that may receive another request; those for prefill do not count.
    pub eligible: u32,
    /// Replicas that take requests, including full ones.
    pub usable: u32,
    /// Mean utilisation of the usable replicas, 0 to 1; 1 without any.
    pub utilisation: f32,
    /// KV size of all its replicas in tokens, where known.
    pub kv_tokens: u64,
    /// Mean prefill time of the replicas that have measured it from answers, ms a token; 0 if there
    /// are none.
    pub learned_ms_per_token: f32,
    /// Mean pace of KV between its replicas; `None` without pairs.
    pub pace: Option<Pace>,
    /// Its replicas in the order of their ids; in a very large region only the best ones.
    pub replicas: Vec<PeerReplica>,
    /// Whether `replicas` is complete.
    pub whole: bool,
    /// The places of its usable replicas. Peers check their requests' residency rules against
    /// these.
    pub places: Vec<Arc<Place>>,
}

/// The time that KV takes on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// ms of any transfer.
    pub fixed_ms: f32,
    /// ms of each token more.
    pub ms_per_token: f32,
}

impl Pace {
    /// The time of `tokens`, ms.
    #[must_use]
    #[inline]
    pub fn ms(&self, tokens: f32) -> f32 {
        self.fixed_ms + self.ms_per_token * tokens
    }
}

/// One replica of a peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerReplica {
    /// The peer's own id for it.
    pub id: ReplicaId,
    /// Its role, and what pairs it with others.
    pub pool: Pool,
    /// Whether it may receive another request, or another prompt.
    pub eligible: bool,
    /// The most unmatched prompt tokens that it has capacity for; negative when it has none.
    pub room: f32,
    /// Prefill tokens ahead of a new request.
    pub front_tokens: f32,
    /// Requests in its batch.
    pub running: u32,
    /// Requests sent there that have not ended.
    pub outstanding: u32,
    /// Prompt tokens of those requests.
    pub outstanding_tokens: f32,
    /// Pending requests as its engine reported them.
    pub reported_pending: u32,
    /// Smoothed utilisation, 0 to 1.
    pub utilisation: f32,
    /// Share of KV in use, 0 to 1.
    pub kv_used: f32,
    /// KV tokens free for new work; infinite where unknown.
    pub kv_free: f32,
    /// KV size in tokens; 0 where unknown.
    pub kv_tokens: f32,
    /// Calibrated prefill time, ms a token.
    pub ms_per_token: f32,
    /// By how much one more running request lengthens a decode step there, ms.
    pub step_slope_ms: f32,
    /// Weight of inferred prefix matches there, 0 to 1.
    pub trust: f32,
    /// Requests that it can run besides those it has; `u32::MAX` if no limit is known.
    pub free_slots: u32,
}

/// KV tokens assumed free at a replica that reports neither its free KV nor its size.
const FREE_UNKNOWN: f32 = 64_000.0;

impl PeerReplica {
    /// KV tokens free for new work, by assumption if unknown.
    #[must_use]
    #[inline]
    pub fn free_tokens(&self) -> f32 {
        match (self.kv_free.is_finite(), self.kv_tokens > 0.0) {
            (true, _) => self.kv_free.max(0.0),
            (false, true) => self.kv_tokens,
            (false, false) => FREE_UNKNOWN,
        }
    }
}
