//! The digest: what a region tells its peers of itself, a few dozen bytes a replica.
//!
//! SkyWalker's heartbeat carries two numbers, the replicas that are not full and the length of
//! the queue (section 3.3, Listing 1 lines 9-15). Rules that weigh a far replica against a near
//! one need what they know of a near one, so the digest also carries the figures of each replica.
//! A huge region names its best ones and sums up the rest.
//!
//! Deliberately not here: when a digest is sent and how it travels, which is the driver's.

use alloc::sync::Arc;
use alloc::vec::Vec;
use meridian_base::ReplicaId;

use crate::residency::Place;

/// One region as its peers see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Digest {
    /// Requests held in its gateway.
    pub held: u32,
    /// Replicas that may be given another request.
    pub eligible: u32,
    /// Replicas that take requests at all, full ones included.
    pub usable: u32,
    /// Mean utilisation of the usable replicas, 0 to 1; 1 without any.
    pub utilisation: f32,
    /// KV size of all its replicas in tokens, where known.
    pub kv_tokens: u64,
    /// Mean prefill time of the replicas whose answers taught it, ms a token; 0 without any.
    pub learned_ms_per_token: f32,
    /// Its replicas in the order of their ids; in a huge region the best ones.
    pub replicas: Vec<Remote>,
    /// Whether `replicas` leaves none out.
    pub whole: bool,
    /// The places of its usable replicas: rules of peers' requests are held against these.
    pub places: Vec<Arc<Place>>,
}

/// One replica of a peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remote {
    /// The peer's own id of it.
    pub id: ReplicaId,
    /// Whether it may be given another request.
    pub eligible: bool,
    /// The most unmatched prompt tokens that it has room for; negative when it has none.
    pub room: f32,
    /// Prefill tokens in front.
    pub front_tokens: f32,
    /// Requests in its batch.
    pub running: u32,
    /// Requests sent there that have not ended.
    pub outstanding: u32,
    /// Prompt tokens of those.
    pub outstanding_tokens: f32,
    /// Pending as its engine reported it.
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
    /// Weight of inferred prefix matches there, 0 to 1.
    pub trust: f32,
}
