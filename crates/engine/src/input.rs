//! What a driver tells the engine.

use alloc::vec::Vec;
use meridian_base::RequestId;

/// Something that happened outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A request has arrived.
    Submit(Submission),
    /// The client of this request is gone. Unknown ids are ignored: the request may just have ended.
    Abort(RequestId),
}

/// A request as the engine needs to know it: lengths and hashes, no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Its id, unique among the requests in the engine.
    pub id: RequestId,
    /// Length of the prompt, in tokens.
    pub prompt_tokens: u32,
    /// Length at which the reply ends by itself, in tokens; at least 1. A model would find out by
    /// sampling; here the driver knows beforehand.
    pub reply_tokens: u32,
    /// The client's cap on the reply, in tokens; at least 1.
    pub max_tokens: u32,
    /// Chained hashes of the whole blocks of 16 tokens of prompt and reply together, in order. The
    /// hashes of the reply's blocks may be given ahead of time: each is used only when the block
    /// has been generated. Blocks beyond the list are never shared, so a driver that does not know
    /// the reply gives the prompt's alone, and then a later turn matches the prompt alone.
    pub blocks: Vec<u64>,
}
