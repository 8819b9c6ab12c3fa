//! Pools: the replicas of a model with one role, and the pairs that they form.
//!
//! If one replica computes a request's prompt and another one writes the answer, the request has two
//! legs. The KV cache of the prompt then crosses the network between the two replicas.

/// The part of a request that a replica takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Whole requests; never a part of a pair.
    #[default]
    Both,
    /// Prompts. It never answers a client.
    Prefill,
    /// Answers, with the KV of a prefill replica or with its own prefill.
    Decode,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Both, Role::Prefill, Role::Decode];

    /// Its name in config, metrics and labels.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Role::Both => "both",
            Role::Prefill => "prefill",
            Role::Decode => "decode",
        }
    }

    /// Whether it answers clients.
    #[must_use]
    pub fn answers(&self) -> bool {
        *self != Role::Prefill
    }
}

/// A replica's place in the pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Its role.
    pub role: Role,
    /// Two engines of a model can hand KV to each other if this is equal: a hash of the transfer
    /// protocol, the engine and its version. vLLM refuses the handshake otherwise. The model is not
    /// in it, because pairs are only formed among the replicas that serve the request's. Nor is the
    /// version of an engine that tells none, such as a store or a sidecar. An engine that tells its
    /// version forms no pair before it is known.
    pub partner: u32,
    /// Number of its rack, by label: transfer rates are learned between racks. 0 if unknown; the
    /// rates are then learned between replicas.
    pub rack: u16,
}

impl Pool {
    /// Whether it answers requests whose prompts prefill replicas compute.
    #[must_use]
    #[inline]
    pub fn pairs(&self) -> bool {
        self.role == Role::Decode
    }
}
