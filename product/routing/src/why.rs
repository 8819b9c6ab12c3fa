//! Reasons for decisions, with their numbers. Every decision has one; it goes into response
//! headers, metrics, the journal, the explain endpoint and the tests.

use core::fmt;
use core::time::Duration;

/// Why a replica was picked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The policy ignores load and prefixes (random, round robin).
    Turn,
    /// The least loaded; the number is the policy's load figure.
    LeastLoaded(f64),
    /// The key's place on the ring.
    Ring {
        /// Ineligible or overloaded virtual nodes that were skipped.
        skipped: u32,
    },
    /// The longest prefix match.
    LongestPrefix {
        /// Matched prompt tokens.
        tokens: u32,
    },
    /// Better matches were saturated or ineligible; this is the next best match.
    Spilled {
        /// Matched prompt tokens here.
        tokens: u32,
        /// Matched prompt tokens at the best match.
        best: u32,
    },
    /// No match worth following; fell back to the least loaded.
    NoMatch,
    /// Load was too uneven to follow the prefix.
    Imbalance,
    /// The lowest score, in the policy's unit (ms for the cost policies).
    LowestScore(f64),
    /// As the lowest score, with the prompt computed by another replica.
    TwoLegs {
        /// The score.
        score: f64,
        /// The lowest score of a single replica.
        alone: f64,
    },
    /// The peer with the shortest round trip, in ms.
    Nearest(f64),
    /// The region's mean utilisation is above the bound of its topology.
    Overflow {
        /// The utilisation, 0 to 1.
        utilisation: f32,
    },
    /// An idle peer asked for it.
    Stolen,
    /// It has waited longest, and was promised the next free capacity of this full replica.
    Promised {
        /// How long it waited.
        waited: Duration,
    },
    /// Its residency rules permit no replica here.
    Residency,
}

impl Why {
    /// A stable word for headers and metric labels: bounded cardinality, documented.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Why::Turn => "turn",
            Why::LeastLoaded(_) => "least-loaded",
            Why::Ring { .. } => "ring",
            Why::LongestPrefix { .. } => "longest-prefix",
            Why::Spilled { .. } => "spilled-from-saturated",
            Why::NoMatch => "fallback-no-match",
            Why::Imbalance => "fallback-imbalance",
            Why::LowestScore(_) => "lowest-score",
            Why::TwoLegs { .. } => "two-legs",
            Why::Nearest(_) => "nearest-peer",
            Why::Overflow { .. } => "overflow",
            Why::Stolen => "stolen",
            Why::Promised { .. } => "promised",
            Why::Residency => "residency",
        }
    }
}

/// Why a replica could not be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ineligible {
    /// Draining: finishes its requests and receives no new ones.
    Draining,
    /// Not answering its probes.
    Down,
    /// Its circuit breaker is open.
    Breaker,
    /// Already tried for this request.
    Tried,
    /// The admission mode says it is full.
    Full,
    /// The request is pinned elsewhere.
    Pinned,
    /// The request may not be served at the replica's place.
    Forbidden,
    /// The request does not fit into the context of the model there, and does elsewhere.
    Short,
    /// The decision compared a sample of the replicas, without this one.
    Unsampled,
}

impl Ineligible {
    /// A stable word for the explain endpoint.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Ineligible::Draining => "draining",
            Ineligible::Down => "down",
            Ineligible::Breaker => "breaker-open",
            Ineligible::Tried => "already-tried",
            Ineligible::Full => "full",
            Ineligible::Pinned => "pinned-elsewhere",
            Ineligible::Forbidden => "not-permitted",
            Ineligible::Short => "context-too-short",
            Ineligible::Unsampled => "not-sampled",
        }
    }
}

/// Why a request could not be forwarded to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The request may not go there, or came from a peer itself.
    Forbidden,
    /// Already tried for this request.
    Tried,
    /// It refused a forward since its newest digest.
    Shut,
    /// It has sent no digest recently.
    Silent,
    /// No replica of it has free capacity, or it holds too many requests.
    Full,
}

impl Unavailable {
    /// A stable word for the explain endpoint.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Unavailable::Forbidden => "not-permitted",
            Unavailable::Tried => "already-tried",
            Unavailable::Shut => "turned-away",
            Unavailable::Silent => "silent",
            Unavailable::Full => "full",
        }
    }
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectWhy {
    /// No replica of this region serves the model.
    UnknownModel,
    /// Every replica of the model is down, draining, or has an open breaker.
    NoReplica,
    /// The replica that holds the session's state is gone.
    PinnedGone,
    /// No replica of the model is at a place that its residency rules permit.
    NotPermitted,
    /// The held queue is full.
    HeldFull {
        /// Its bound.
        limit: u32,
    },
    /// The tenant's share of the held queue is full.
    TenantHeldFull {
        /// Its bound.
        limit: u32,
    },
    /// The held queue was full, and a request of a higher class replaced it.
    Displaced,
    /// It came from a peer, no replica has capacity for it, and the policy queues nothing for
    /// peers.
    NoRoom,
    /// It was held for the longest time allowed, and no replica took it.
    HeldTooLong {
        /// The bound.
        limit: Duration,
        /// The state of the replicas that could not take it.
        closed: Closed,
    },
    /// Its model is scaled to zero, and no replica of it took requests within the time that is set for
    /// that.
    NoReplicaInTime {
        /// The time.
        limit: Duration,
    },
    /// Every attempt failed because of a replica.
    RetriesExhausted {
        /// Attempts made.
        attempts: u32,
    },
    /// The connections of two engines broke while serving it: it may have crashed them.
    EngineDied {
        /// Attempts made.
        attempts: u32,
    },
}

/// The replicas that may serve a request, counted by the reason they could not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// No free capacity.
    pub full: u32,
    /// Not answering probes.
    pub down: u32,
    /// An open circuit breaker.
    pub breaker: u32,
    /// Draining.
    pub draining: u32,
    /// They failed this request.
    pub failed: u32,
    /// Peers that serve requests and had no capacity for this one.
    pub peers: u32,
}

impl Closed {
    /// Whether the cause was something other than a lack of capacity.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        let Closed { full, down, breaker, draining, failed, peers } = *self;
        full + peers == 0 && down + breaker + draining + failed > 0
    }
}

impl RejectWhy {
    /// A stable word for metrics and error codes.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            RejectWhy::UnknownModel => "unknown_model",
            RejectWhy::NoReplica => "no_replica",
            RejectWhy::PinnedGone => "pinned_gone",
            RejectWhy::NotPermitted => "not_permitted",
            RejectWhy::HeldFull { .. } => "held_full",
            RejectWhy::TenantHeldFull { .. } => "tenant_held_full",
            RejectWhy::Displaced => "displaced",
            RejectWhy::NoRoom => "no_room",
            // The cause is not a lack of capacity: more replicas would not help, these need
            // attention.
            RejectWhy::HeldTooLong { closed, .. } if closed.is_outage() => "replicas_unavailable",
            RejectWhy::HeldTooLong { .. } => "held_too_long",
            RejectWhy::NoReplicaInTime { .. } => "no_replica_in_time",
            RejectWhy::RetriesExhausted { .. } => "retries_exhausted",
            RejectWhy::EngineDied { .. } => "engine_died",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
