//! Requests as the machine sees them: lengths, hashes and labels, never the text.

use alloc::vec::Vec;
use meridian_base::{Duration, ModelId, Priority, RequestId, Time};

use meridian_base::residency::Residence;

/// One request as it arrives.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its id, unique in this process.
    pub id: RequestId,
    /// The model asked for.
    pub model: ModelId,
    /// Hash of the tenant's name; 0 if there is none.
    pub tenant: u64,
    /// Its class: held requests of a higher class go first.
    pub priority: Priority,
    /// Hash of the affinity key (session header, body key, tenant or client address, first found).
    pub key: u64,
    /// Hash of the session that the client names. Held requests of a tenant take turns by session.
    pub session: Option<u64>,
    /// Hash of the first bytes of the prompt, as many as the policy requires (CHWBL).
    pub head: u64,
    /// Chained hashes of the prompt's whole blocks, in the policy's granularity.
    pub blocks: Vec<u64>,
    /// Prompt length in tokens, as well as the driver can estimate it (bytes / 4 without a
    /// tokenizer).
    pub prompt_tokens: u32,
    /// Prompt tokens per block.
    pub block_tokens: f32,
    /// Most tokens of the reply, if the request limits them.
    pub max_tokens: Option<u32>,
    /// When the first token is due; `None` without an objective. Held requests with less laxity go
    /// first.
    pub deadline: Option<Time>,
    /// The one replica that may serve it: a stateful call stays with its state.
    pub pinned: Option<meridian_base::ReplicaId>,
    /// Whether the answer streams: its first token then measures prefill, not the whole answer.
    pub streams: bool,
    /// Gateways that forwarded it: 0 from a client. A request from a peer is never forwarded again.
    pub hops: u8,
    /// The peers that can serve it, one bit each by [`PeerId`](meridian_base::PeerId): those that
    /// serve its model, or the one that has its state. `u64::MAX` for any, 0 for none.
    pub peers: u64,
    /// Whether its prompt may be prefilled by another replica than the one that answers.
    pub splits: bool,
    /// Whether replicas of this region can serve it; false if its state is at a peer.
    pub here: bool,
    /// The residency rules that apply to it. If they permit no place, it cannot be served, whatever
    /// `peers` says.
    pub residence: Residence,
    /// Whether a peer reports that it serves the model: then the lack of a replica here may be
    /// temporary.
    pub elsewhere: bool,
    /// Whether an engine's connection already broke while serving it, under another model or in
    /// another region: exactly one more engine gets it.
    pub died: bool,
    /// Whether a replica may come for its model although none serves it: the model is configured, or
    /// was served a while ago. The request then waits for it.
    pub awaited: bool,
    /// How long it may wait while no replica takes requests for its model, if that is scaled to zero:
    /// in place of [`HeldConfig::max_wait`](crate::HeldConfig::max_wait), which counts from the time a
    /// replica comes. Only a client's request has it.
    pub scale_from_zero: Option<Duration>,
}

impl Request {
    /// A streaming request without a prompt, a key, a deadline or rules, sent by a client. It may go
    /// to any replica and any peer.
    #[must_use]
    pub fn plain(id: RequestId, model: ModelId) -> Request {
        Request {
            id,
            model,
            tenant: 0,
            priority: Priority::Normal,
            key: 0,
            session: None,
            head: 0,
            blocks: Vec::new(),
            prompt_tokens: 0,
            block_tokens: 16.0,
            max_tokens: None,
            deadline: None,
            pinned: None,
            streams: true,
            hops: 0,
            peers: u64::MAX,
            splits: false,
            here: true,
            residence: Residence::default(),
            elsewhere: false,
            died: false,
            awaited: false,
            scale_from_zero: None,
        }
    }
}

/// Token counts of an answer (`usage`), as far as the engine reported them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens as the engine counted them.
    pub prompt_tokens: u32,
    /// Of those, tokens found in its prefix cache; `None` if the engine does not report it.
    pub cached_tokens: Option<u32>,
    /// Tokens generated.
    pub completion_tokens: u32,
    /// Microseconds it spent on the prompt's uncached tokens; `None` if it does not report it.
    pub prefill_us: Option<u32>,
}

/// How an attempt at a replica ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is complete.
    Done,
    /// The engine refused the request as a client error (4xx). This says nothing about the
    /// replica's health: it never opens a breaker and is never retried.
    ClientError,
    /// The engine does not serve the model (any more): an adapter was unloaded since the list of
    /// models was read. Retried elsewhere; the breaker is untouched.
    NotServed,
    /// The prefill leg ended without KV that the decode leg could use: its answer lacks parameters,
    /// or refuses the request in a way that may not be about it. The request goes whole to a replica
    /// that answers. If that one answers it, the prefill replica is to blame, as after
    /// [`Outcome::EngineError`]: otherwise every long prompt would be computed twice.
    NoKv,
    /// The engine is full (429 or 503). Retried elsewhere; the breaker is untouched.
    Full,
    /// The peer has no capacity for the request now. Retried elsewhere, or there after its next
    /// digest.
    NoRoom,
    /// The engine answered with an error of its own (5xx) before a byte went out. The request
    /// itself may be the cause. The replica is blamed once the request has ended differently
    /// elsewhere, and not if another replica fails in the same way ([`Outcome::ClientError`] then).
    EngineError,
    /// The replica failed: a timeout, or a truncated stream.
    ReplicaError,
    /// The connection broke before a byte of an answer: the request may have crashed the engine, so
    /// at most one more engine gets it. For a forward: this happened to two engines there.
    Died,
    /// The replica never handled the request: no connection, or it went down before it answered.
    Unreached,
}

impl Outcome {
    /// Whether the attempt failed sooner than a good one ends, and not since the replica was full. A
    /// prefill leg without KV has computed its prompt.
    pub(crate) fn is_early_failure(self) -> bool {
        use Outcome::{Died, EngineError, NotServed, ReplicaError, Unreached};
        matches!(self, Died | EngineError | NotServed | ReplicaError | Unreached)
    }
}
