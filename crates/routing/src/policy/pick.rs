//! What policies answer: a replica or a wait, and a peer. Each answer has a score to compare by and a
//! reason for people.

use meridian_base::{PeerId, ReplicaId};

use crate::why::Why;

/// A policy's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// Send the request to this replica.
    Replica(Chosen),
    /// Keep it queued: a replica that is full is worth waiting for (delay scheduling).
    Wait,
}

/// The replica that a policy picked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// The replica.
    pub replica: ReplicaId,
    /// What the policy minimised, in its own unit; `None` for rules without a score. Queued requests
    /// are released in the order of their scores.
    pub score: Option<f64>,
    /// Why this replica, for people: nothing is decided by it.
    pub why: Why,
}

impl Pick {
    /// A replica picked by a rule without a score.
    #[must_use]
    pub fn unscored(replica: ReplicaId, why: Why) -> Pick {
        Pick::Replica(Chosen { replica, score: None, why })
    }

    /// The replica with the lowest score.
    #[must_use]
    pub fn scored(replica: ReplicaId, score: f64) -> Pick {
        Pick::Replica(Chosen { replica, score: Some(score), why: Why::LowestScore(score) })
    }
}

/// A peer that a request is forwarded to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forward {
    /// The peer.
    pub peer: PeerId,
    /// What the policy minimised, as in [`Chosen`].
    pub score: Option<f64>,
    /// Why this peer, for people: nothing is decided by it.
    pub why: Why,
    /// The peer's replica that the rule expects it to choose, where it weighs them.
    pub meant: Option<ReplicaId>,
}

impl Forward {
    /// To a peer that a rule without a score chose.
    #[must_use]
    pub fn unscored(peer: PeerId, why: Why) -> Forward {
        Forward { peer, score: None, why, meant: None }
    }

    /// To the peer with the lowest score, meant for one of its replicas where the rule weighs them.
    #[must_use]
    pub fn scored(peer: PeerId, score: f64, meant: Option<ReplicaId>) -> Forward {
        Forward { peer, score: Some(score), why: Why::LowestScore(score), meant }
    }
}
