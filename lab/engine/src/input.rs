//! Inputs of the engine.

use crate::leg::Leg;
use alloc::vec::Vec;
use meridian_base::{Duration, RequestId};

/// An event from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A request has arrived.
    Submit(Submission),
    /// One leg of a request has arrived.
    SubmitLeg(Submission, Leg),
    /// The client of this request has disconnected. Unknown ids are ignored: the request may just
    /// have ended.
    Abort(RequestId),
    /// The missing blocks of a deferred request have arrived. Other ids are ignored.
    Fetched(RequestId),
    /// The missing blocks of a deferred request will not arrive. Other ids are ignored.
    FetchFailed {
        /// Which.
        id: RequestId,
        /// Whether the engine computes the prompt itself; otherwise the request ends with
        /// [`StopReason::Error`](crate::StopReason).
        recompute: bool,
    },
    /// Extends the lease of held blocks to at least `lease` from now. Other ids are ignored.
    Renew {
        /// Which.
        id: RequestId,
        /// From now.
        lease: Duration,
    },
    /// Held blocks have been read and can be released. If none are held under this id, the call is
    /// counted as late.
    Release(RequestId),
}

/// A request as the engine model needs it: lengths and hashes, no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Its id, unique among the requests in the engine.
    pub id: RequestId,
    /// Length of the prompt, in tokens.
    pub prompt_tokens: u32,
    /// Length at which the reply ends on its own, in tokens; at least 1. A real model finds out by
    /// sampling; here the driver decides beforehand.
    pub reply_tokens: u32,
    /// The client's cap on the reply, in tokens; at least 1.
    pub max_tokens: u32,
    /// Chained hashes of the whole blocks of 16 tokens of prompt and reply together, in order. The
    /// hashes of the reply's blocks may be given in advance: each is used only when the block has
    /// been generated. Blocks beyond the list are never shared. A driver that does not know the
    /// reply gives only the prompt's hashes, and a later turn then matches only the prompt.
    pub blocks: Vec<u64>,
}
