//! The results of policies: a replica to dispatch to, a decision to wait, or a peer to forward to.
//! Each has a score for comparison and a human-readable reason.

use meridian_base::{PeerId, ReplicaId};

use crate::why::Why;

/// A policy's decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// Send the request to this replica.
    Replica(Chosen),
    /// Keep it queued: a full replica is worth waiting for (delay scheduling).
    Wait,
}

/// The replica that a policy picked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// The replica that answers.
    pub replica: ReplicaId,
    /// The replica that computes the prompt, if it is another one.
    pub prefill: Option<ReplicaId>,
    /// The value that the policy minimised, in its own unit; `None` for policies without a score.
    /// Queued requests are released in the order of their scores.
    pub score: Option<f64>,
    /// The reason for this replica, for people only: no decision depends on it.
    pub why: Why,
}

impl Pick {
    /// A replica picked by a policy without a score.
    #[must_use]
    pub fn unscored(replica: ReplicaId, why: Why) -> Pick {
        Pick::Replica(Chosen { replica, prefill: None, score: None, why })
    }

    /// The replica with the lowest score.
    #[must_use]
    pub fn scored(replica: ReplicaId, score: f64) -> Pick {
        let why = Why::LowestScore(score);
        Pick::Replica(Chosen { replica, prefill: None, score: Some(score), why })
    }

    /// The pair with the lowest score: `prefill` computes the prompt and `replica` answers. `alone`
    /// is the lowest score of a single replica.
    #[must_use]
    pub fn pair(prefill: ReplicaId, replica: ReplicaId, score: f64, alone: f64) -> Pick {
        let why = Why::TwoLegs { score, alone };
        Pick::Replica(Chosen { replica, prefill: Some(prefill), score: Some(score), why })
    }
}

/// A peer to forward a request to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forward {
    /// The peer.
    pub peer: PeerId,
    /// The value that the policy minimised, as in [`Chosen`].
    pub score: Option<f64>,
    /// The reason for this peer, for people only: no decision depends on it.
    pub why: Why,
    /// The peer's replica that the policy expects it to choose, if it scores them individually.
    pub meant: Option<ReplicaId>,
    /// Whether the policy chose it, so that its credit bounds it: not a topology or the peer.
    pub by_policy: bool,
}

impl Forward {
    /// To a peer chosen by a policy without a score.
    #[must_use]
    pub fn unscored(peer: PeerId, why: Why) -> Forward {
        Forward { peer, score: None, why, meant: None, by_policy: true }
    }

    /// To a peer that the topology chose, or that asked for the request.
    #[must_use]
    pub(crate) fn unbounded(peer: PeerId, why: Why) -> Forward {
        Forward { by_policy: false, ..Forward::unscored(peer, why) }
    }

    /// To the peer with the lowest score, meant for one of its replicas if the policy scores them.
    #[must_use]
    pub fn scored(peer: PeerId, score: f64, meant: Option<ReplicaId>) -> Forward {
        Forward { peer, score: Some(score), why: Why::LowestScore(score), meant, by_policy: true }
    }
}
