//! One recorded request: lengths, times and block ids.

use std::sync::Arc;
use std::time::Duration;

use meridian_base::{Time, mix};

use super::MAX_BLOCK_TOKENS;
use super::blocks::prompt_ids;
use crate::{BYTES_PER_TOKEN, Role, Segment};

/// One recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it arrived, from the start of the trace.
    pub at: Time,
    /// Tokens of the prompt, from 1 to [`MAX_TOKENS`](super::MAX_TOKENS).
    pub input_tokens: u32,
    /// Tokens of the reply; 0 if there was none.
    pub output_tokens: u32,
    /// Tokens of a block; 0 if the trace has none.
    pub block_tokens: u32,
    /// The ids of its first blocks, the partial last block with or without one; empty if unknown.
    pub hash_ids: Vec<u64>,
    /// The id of the text after those blocks; `None` if that shares nothing.
    pub tail: Option<u64>,
    /// The conversation it belongs to.
    pub session: Option<u64>,
    /// The request that it follows, in the trace's own numbers.
    pub parent: Option<u64>,
    /// The number of the request in its conversation, from 1.
    pub turn: Option<u32>,
    /// The region it came from.
    pub region: Option<Arc<str>>,
    /// The tenant, as a hash.
    pub tenant: Option<u64>,
    /// Its outcome.
    pub outcome: Option<Outcome>,
    /// Time to the first token at the client.
    pub ttft: Option<Duration>,
    /// Time to the last token at the client.
    pub e2e: Option<Duration>,
    /// The model asked for.
    pub model: Option<Arc<str>>,
    /// The routing policy in force.
    pub policy: Option<Arc<str>>,
    /// The decision of the gateway's shadow policy.
    pub shadow: Option<Shadowed>,
}

/// The decision of a shadow policy about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// The policy.
    pub policy: Arc<str>,
    /// What it would have changed, in the gateway's words.
    pub would: Arc<str>,
    /// The figures of both picks, if both are replicas of one region.
    pub compared: Option<Compared>,
}

/// The figures of the picks of a policy and of its shadow, as the gateway predicted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Prompt tokens, as the gateway estimated them.
    pub prompt_tokens: u32,
    /// Of those, expected in the cache where the prompt was sent.
    pub matched_tokens: u32,
    /// Of those, expected in the cache at the shadow's pick.
    pub shadow_matched_tokens: u32,
    /// Time to the first token where it was sent.
    pub first_token: Duration,
    /// The same at the shadow's pick.
    pub shadow_first_token: Duration,
}

/// The outcome of a request, in the words of the gateway's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is complete.
    Done,
    /// Refused as a client error.
    ClientError,
    /// Rejected for lack of capacity or of a replica.
    Rejected,
    /// Failed, including all retries.
    Failed,
    /// The client disconnected.
    Cancelled,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Outcome; 5] = [
        Outcome::Done,
        Outcome::ClientError,
        Outcome::Rejected,
        Outcome::Failed,
        Outcome::Cancelled,
    ];

    /// Its word in a journal.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::ClientError => "client_error",
            Outcome::Rejected => "rejected",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        }
    }
}

impl TraceRequest {
    /// A request of `input_tokens` and `output_tokens` at `at`, with everything else unknown.
    #[must_use]
    pub fn new(at: Time, input_tokens: u32, output_tokens: u32) -> TraceRequest {
        TraceRequest {
            at,
            input_tokens,
            output_tokens,
            block_tokens: 0,
            hash_ids: Vec::new(),
            tail: None,
            session: None,
            parent: None,
            turn: None,
            region: None,
            tenant: None,
            outcome: None,
            ttft: None,
            e2e: None,
            model: None,
            policy: None,
            shadow: None,
        }
    }

    /// Its prompt: one segment per block id, with equal text for equal ids; tokens without an id
    /// become separate text drawn from `unique`.
    #[must_use]
    pub fn segments(&self, unique: u64) -> Vec<Segment> {
        let mut left = self.input_tokens;
        let mut segments = Vec::with_capacity(self.hash_ids.len() + 1);
        for &id in &self.hash_ids {
            let tokens = left.min(self.block_tokens);
            left -= tokens;
            segments.push(text(id, tokens));
        }
        segments.extend(self.end(left, mix(unique, 0x55_4E49_5155)));
        segments.retain(|segment| segment.bytes > 0);
        segments
    }

    /// The last `left` tokens of its prompt: those of its tail, cut at blocks, or else `unique` ones.
    pub(crate) fn end(&self, left: u32, unique: u64) -> impl Iterator<Item = Segment> {
        let (tail, block) = match self.tail {
            Some(tail) => (tail, self.block_tokens.max(1)),
            None => (unique, left.max(1)),
        };
        let id = move |at: u32| if at == 0 { tail } else { mix(tail, u64::from(at)) };
        (0..left.div_ceil(block)).map(move |at| text(id(at), block.min(left - at * block)))
    }

    /// Number of its whole blocks that have an id.
    pub(crate) fn whole_blocks(&self) -> usize {
        let whole = self.input_tokens / self.block_tokens.max(1);
        self.hash_ids.len().min(whole as usize)
    }

    /// The chained hash of each block: equal hashes mean equal prefixes, whatever the format's ids.
    pub(crate) fn chain(&self) -> impl Iterator<Item = u64> + '_ {
        let start = u64::from(self.block_tokens);
        self.hash_ids.iter().scan(start, |chain, &id| {
            *chain = mix(*chain, id);
            Some(*chain)
        })
    }

    /// The same request with its prompt cut into blocks of `block_tokens`, each with an id; tokens
    /// without one are drawn from `unique`. A prompt without ids stays so.
    #[must_use]
    pub fn in_blocks(mut self, block_tokens: u32, unique: u64) -> TraceRequest {
        let block_tokens = block_tokens.clamp(1, MAX_BLOCK_TOKENS);
        let lacks = self.hash_ids.len() < (self.input_tokens / block_tokens) as usize;
        if !self.hash_ids.is_empty() && (self.block_tokens != block_tokens || lacks) {
            let (_, ids) = prompt_ids(self.segments(unique), block_tokens);
            self.hash_ids = ids;
            self.block_tokens = block_tokens;
        }
        self
    }
}

fn text(id: u64, tokens: u32) -> Segment {
    Segment { role: Role::User, id, bytes: tokens * BYTES_PER_TOKEN }
}
