//! Outputs of the engine.
//!
//! Order: for one request `Admitted` comes first, then any number of `Tokens`, then exactly one of
//! `Finished`; or only `Refused`. `Preempted` and a second `Admitted` may come in between. An
//! aborted request ends with `Finished` and [`StopReason::Abort`].
//!
//! A decode leg has `Deferred` before `Admitted`. A prefill leg that holds its blocks has `Held`
//! just before `Finished`, and `Released` at some time after it.

use core::fmt;
use meridian_base::{Duration, RequestId, Time};

/// An internal event. `at` is the exact model time, which may be earlier than the `now` of the call
/// that produced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A request left pending and entered the batch.
    Admitted {
        /// Which.
        id: RequestId,
        /// When.
        at: Time,
        /// How long it was pending, since its arrival or its preemption.
        waited: Duration,
        /// Tokens found in the prefix cache.
        cached_tokens: u32,
    },
    /// A running request has new tokens. With [`TokenOutputs::First`](crate::TokenOutputs) only
    /// the first is reported.
    Tokens {
        /// Which.
        id: RequestId,
        /// When the last of them was ready.
        at: Time,
        /// Tokens generated so far, these included.
        total: u32,
        /// How many of them are new: above 1 when several decode steps were taken as one event.
        new: u32,
    },
    /// KV ran out and the latest request in the batch was preempted: its blocks are released, and
    /// it is pending again, at the front, to be recomputed.
    Preempted {
        /// Which.
        id: RequestId,
        /// When.
        at: Time,
        /// The request that needed blocks (perhaps itself).
        by: RequestId,
        /// Blocks that this request needed beyond the free ones.
        short_blocks: u32,
    },
    /// A request has ended.
    Finished {
        /// Which.
        id: RequestId,
        /// When.
        at: Time,
        /// Why.
        why: StopReason,
        /// Its token counts.
        usage: Usage,
        /// Its durations.
        timings: Timings,
    },
    /// A decode leg has KV for its prompt, and waits for the blocks that are not cached.
    Deferred {
        /// Which.
        id: RequestId,
        /// When.
        at: Time,
        /// Leading blocks found in the prefix cache.
        cached_blocks: u32,
        /// Further blocks of the prompt, to be fetched; at least 1.
        missing_blocks: u32,
    },
    /// A prefill leg has ended, and its blocks are held.
    Held {
        /// Which.
        id: RequestId,
        /// When.
        at: Time,
        /// When the lease ends, unless renewed.
        until: Time,
        /// Tokens whose keys and values are held.
        tokens: u32,
    },
    /// Held blocks are ordinary cached blocks again.
    Released {
        /// Which.
        id: RequestId,
        /// When.
        at: Time,
        /// Whether the lease expired.
        expired: bool,
    },
    /// A request was not accepted.
    Refused {
        /// Which.
        id: RequestId,
        /// When.
        at: Time,
        /// Why.
        why: Refusal,
    },
}

impl Output {
    /// The request that it is about.
    #[must_use]
    pub fn id(&self) -> RequestId {
        match self {
            Output::Admitted { id, .. }
            | Output::Tokens { id, .. }
            | Output::Preempted { id, .. }
            | Output::Finished { id, .. }
            | Output::Deferred { id, .. }
            | Output::Held { id, .. }
            | Output::Released { id, .. }
            | Output::Refused { id, .. } => *id,
        }
    }
}

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopReason {
    /// The reply ended on its own.
    Stop,
    /// The client's cap or the context window was reached.
    Length,
    /// The client disconnected.
    Abort,
    /// The KV of its prompt did not arrive.
    Error,
}

/// Token counts of a request that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The prompt's tokens.
    pub prompt_tokens: u32,
    /// Of those, tokens found in the prefix cache at first admission. Of a decode leg, in the cache
    /// of this engine.
    pub cached_tokens: u32,
    /// Tokens generated.
    pub reply_tokens: u32,
    /// Times it was preempted.
    pub preemptions: u32,
}

/// Durations of a request that has ended; zero for parts it did not reach. For a request that
/// completed they sum to `e2e`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From arrival to first admission.
    pub queued: Duration,
    /// From first admission to first token.
    pub prefill: Duration,
    /// From first token to the end.
    pub decode: Duration,
    /// From arrival to the end.
    pub e2e: Duration,
}

/// Why a request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The prompt has no token, or no reply token is requested.
    Empty,
    /// The prompt leaves no space for a reply token.
    TooLong {
        /// The prompt's tokens.
        prompt_tokens: u32,
        /// The longest sequence that the engine accepts, reply included.
        max_model_len: u32,
    },
    /// The bound on pending requests is reached.
    Full {
        /// Requests pending.
        pending: u32,
    },
    /// A request with this id is still in the engine.
    DuplicateId,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Empty => write!(f, "the prompt and the reply need at least one token each"),
            Refusal::TooLong { prompt_tokens, max_model_len } => write!(
                f,
                "the prompt has {prompt_tokens} tokens and the context window {max_model_len}, \
                 which leaves no room for a reply: shorten the prompt to {} tokens or fewer",
                max_model_len - 1
            ),
            Refusal::Full { pending } => {
                write!(f, "{pending} requests are pending, which is the bound: try again later")
            }
            Refusal::DuplicateId => write!(f, "a request with this id is still running"),
        }
    }
}
