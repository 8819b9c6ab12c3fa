//! A peer's figures, as a decision reads them, and its counts.

use alloc::vec::Vec;
use meridian_base::{Pace, PeerReplica};

/// A peer's figures, as a decision reads them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerRow {
    /// Whether it is on the same continent.
    pub near: bool,
    /// A hash of its name.
    pub name_hash: u64,
    /// Smoothed round trip in ms.
    pub rtt_ms: f32,
    /// Shortest round trip seen, in ms.
    pub min_rtt_ms: f32,
    /// Requests in its held queue.
    pub held: u32,
    /// Its replicas that may receive another request.
    pub eligible: u32,
    /// Its replicas that take requests, including full ones.
    pub usable: u32,
    /// Mean utilisation of those, 0 to 1.
    pub utilisation: f32,
    /// Our own forwards that have not ended.
    pub outstanding: u32,
    /// Our own forwards that its digest does not include.
    pub since: u32,
    /// KV tokens that those need, for unmatched prompts and replies.
    pub since_tokens: f32,
    /// Its replicas that answer requests, as far as its digest lists them.
    pub replicas: Vec<PeerReplicaRow>,
    /// Free slots at those of them that may receive another request. Decisions read this and the next
    /// one for every peer, so they are added up once for each digest.
    pub free_slots: u32,
    /// KV tokens free there.
    pub free_tokens: f32,
    /// Of its replicas, those that only prefill.
    pub prefills: Vec<PeerReplica>,
    /// Mean pace of KV between its replicas, if they form pairs.
    pub pace: Option<Pace>,
}

/// The figures of a peer's replica, as a decision reads them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerReplicaRow {
    /// The peer's report of it.
    pub told: PeerReplica,
    /// Our own forwards meant for it that the digest does not include.
    pub own: u32,
    /// Unmatched prompt tokens of those forwards that have no first token yet.
    pub own_tokens: f32,
    /// KV tokens that those forwards need.
    pub own_need: f32,
    /// Its index in the snapshot's matches; `None` if the snapshot does not track it.
    pub slot: Option<u16>,
}

/// Counts since a peer joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerTotals {
    /// Requests sent there.
    pub forwarded: u64,
    /// Of those, succeeded.
    pub done: u64,
    /// Failed because of the peer.
    pub failed: u64,
    /// Refused by it.
    pub full: u64,
    /// Digests accepted.
    pub digests: u64,
}
