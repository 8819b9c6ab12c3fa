//! What the machine knows of a request: lengths, hashes and labels, never its text.

use alloc::vec::Vec;
use meridian_base::{ModelId, RequestId, Time};

use crate::priority::Priority;
use crate::residency::Residence;

/// One request as it arrives.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its id, unique in this process.
    pub id: RequestId,
    /// The model asked for.
    pub model: ModelId,
    /// Hash of the tenant's name; 0 where there is none.
    pub tenant: u64,
    /// Its class: held requests of a higher one go first.
    pub priority: Priority,
    /// Hash of the affinity key (session header, body key, tenant or client address, first found).
    pub key: u64,
    /// Hash of the first bytes of the prompt, as many as the policy asks for (CHWBL).
    pub head: u64,
    /// Chained hashes of the prompt's whole blocks, in the policy's granularity.
    pub blocks: Vec<u64>,
    /// Prompt length in tokens, as well as the driver can tell (bytes / 4 without a tokenizer).
    pub prompt_tokens: u32,
    /// Prompt tokens one block stands for.
    pub block_tokens: f32,
    /// When the answer must have begun; `None` without an objective. Held requests of a tighter
    /// laxity go first.
    pub deadline: Option<Time>,
    /// The one replica that may serve it: a stateful call stays where its state is.
    pub pinned: Option<meridian_base::ReplicaId>,
    /// The answer streams: its first token tells of prefill, and not of the whole answer.
    pub streams: bool,
    /// Gateways that sent it on: 0 from a client. What came from a peer is never sent on again.
    pub hops: u8,
    /// The peers that can serve it, a bit each by [`PeerId`](meridian_base::PeerId): those that
    /// serve its model, or the one that has its state. `u64::MAX` for any, 0 for none.
    pub peers: u64,
    /// Replicas of this region can serve it; false where its state is at a peer.
    pub here: bool,
    /// The residency rules that name it. Where they permit nothing, nothing serves it, whatever
    /// `peers` says.
    pub residence: Residence,
    /// A peer says that it serves the model: where no replica does now, that passes.
    pub elsewhere: bool,
}

/// What an engine said of an answer (`usage`), where it said it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens as the engine counted them.
    pub prompt_tokens: u32,
    /// Of those, tokens found in its prefix cache; `None` where the engine does not tell.
    pub cached_tokens: Option<u32>,
    /// Tokens generated.
    pub completion_tokens: u32,
    /// Microseconds it spent on the prompt's uncached tokens; `None` where it does not tell.
    pub prefill_us: Option<u32>,
}

/// How an attempt at a replica ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is complete.
    Done,
    /// The engine refused the request as the client's mistake (4xx). Says nothing about the
    /// replica's health: never opens a breaker, never retried.
    ClientError,
    /// The engine is full (429 or 503). Elsewhere; the breaker is untouched.
    Full,
    /// The peer has no room for the request now. Elsewhere, or there again once it has told of
    /// itself anew.
    NoRoom,
    /// The engine answered with a failure of its own (5xx) before a byte went out. The request may
    /// be what it fails of: the replica is blamed once the request has ended in another way
    /// elsewhere, and not when another replica says the same ([`Outcome::ClientError`] then).
    EngineError,
    /// The replica failed: a timeout, or a stream cut short.
    ReplicaError,
    /// The connection ended under the request before a byte of an answer: the engine may have died
    /// of it, so at most one more engine gets it. Of a forward: this happened to two engines there.
    Died,
    /// The replica had no part of the request: no connection, or it went down before it answered.
    Unreached,
}
