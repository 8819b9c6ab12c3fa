//! What the gateways of one region report to each other about their requests.

use alloc::vec::Vec;

use crate::holdings::Branch;
use crate::ids::{ModelId, ReplicaId, RequestId};
use crate::priority::Priority;

/// An event of a request, as the gateway that has it reports it to its siblings. Ids of replicas are the
/// listener's: the driver translates them.
#[derive(Clone, Debug, PartialEq)]
pub enum SiblingRecord {
    /// It was sent to a replica.
    Sent(SiblingRequest),
    /// Its prompt is computed.
    FirstToken {
        /// The request.
        id: RequestId,
        /// How long that took, if it says something about the replica.
        prompt: Option<PromptTiming>,
    },
    /// It left its replica.
    Ended {
        /// The request.
        id: RequestId,
        /// How.
        ending: SiblingEnding,
        /// The blocks that the replica has now, as the difference from those it was sent with.
        cached: Option<Branch>,
    },
    /// All that waits in its queue since no replica has capacity; it replaces earlier ones.
    Queue(Vec<SiblingLine>),
}

/// Requests of one tenant and class for a model that wait in a sibling's queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiblingLine {
    /// Their class.
    pub priority: Priority,
    /// Hash of the tenant's name.
    pub tenant: u64,
    /// The model: the listener's, as ids of replicas are.
    pub model: ModelId,
    /// How many they are.
    pub held: u32,
    /// The oldest of them.
    pub oldest: RequestId,
    /// How long that one has waited, ms.
    pub waited_ms: f32,
}

/// A request that a sibling sent to a replica.
#[derive(Clone, Debug, PartialEq)]
pub struct SiblingRequest {
    /// Its id at the sibling.
    pub id: RequestId,
    /// Where it is.
    pub replica: ReplicaId,
    /// Hash of the tenant's name.
    pub tenant: u64,
    /// Hash of the session that the client names.
    pub session: Option<u64>,
    /// Its class.
    pub priority: Priority,
    /// Whether it counts for the turns of tenant and session; not if it was reported before.
    pub counts: bool,
    /// The hashes of its prompt's blocks, chained.
    pub blocks: Vec<u64>,
    /// Tokens of a block.
    pub block_tokens: f32,
    /// Tokens of its prompt.
    pub prompt_tokens: f32,
    /// Of those, tokens that the replica computes.
    pub unmatched_tokens: f32,
    /// Expected tokens of its reply.
    pub reply_tokens: f32,
}

/// The time until a first token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromptTiming {
    /// Without the network, ms.
    pub ttft_ms: f32,
    /// Tokens that were computed for it.
    pub tokens: f32,
    /// Tokens that were to compute before it.
    pub in_front: f32,
}

/// What the end of a sibling's request says about its replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiblingEnding {
    /// It answered.
    Answered,
    /// It failed as a server: no connection, a reset, an answer of its own that it is broken.
    Failed,
    /// Nothing: the client left, or the engine refused the request.
    Neutral,
}
