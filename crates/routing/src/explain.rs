//! Decisions kept for the explain endpoint: the state of every candidate when one was picked.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use meridian_base::{PeerId, ReplicaId, RequestId, Time};

use crate::links::{Links, Pace};
use crate::policy::Common;
use crate::replica::Row;
use crate::why::{Ineligible, Unavailable, Why};

/// A candidate's state at a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CandidateRow {
    /// The replica.
    pub replica: ReplicaId,
    /// Why it could not be picked; `None` when it was eligible.
    pub ineligible: Option<Ineligible>,
    /// Prompt tokens matched there.
    pub matched_tokens: f32,
    /// Prompt tokens of the request.
    pub prompt_tokens: u32,
    /// Its load figures.
    pub row: Row,
}

/// A peer's state at a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerCandidate {
    /// The peer.
    pub peer: PeerId,
    /// Why it could not be forwarded to; `None` when it was available.
    pub unavailable: Option<Unavailable>,
    /// Leading prompt tokens of this request that were sent there before.
    pub matched_tokens: f32,
    /// Round trip in ms.
    pub rtt_ms: f32,
    /// Requests in its held queue.
    pub held: u32,
    /// Its replicas with free capacity.
    pub eligible: u32,
    /// Our forwards that its digest does not include.
    pub since: u32,
}

/// Where a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A replica of the region.
    Replica(ReplicaId),
    /// Another region's gateway.
    Peer(PeerId),
}

/// A complete decision.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The request.
    pub id: RequestId,
    /// When it was decided.
    pub at: Time,
    /// Which attempt this was, from 1.
    pub attempt: u32,
    /// Whether this attempt resumes an answer that broke off.
    pub resumed: bool,
    /// The pick and its reason; `None` when the request was held or rejected.
    pub pick: Option<(Target, Why)>,
    /// The replica that computes the prompt, if it is another one than the pick.
    pub prefill: Option<ReplicaId>,
    /// The pace of KV between the two; without a pair, the mean of the links.
    pub pace: Pace,
    /// The figures that were the same for every candidate.
    pub common: Common,
    /// Every replica of the region that serves the model. If the request may be split, those for
    /// prefill are among them.
    pub candidates: Vec<CandidateRow>,
    /// Every peer.
    pub peers: Vec<PeerCandidate>,
}

impl Default for Decision {
    fn default() -> Decision {
        Decision {
            id: RequestId(0),
            at: Time::ZERO,
            attempt: 0,
            resumed: false,
            pick: None,
            prefill: None,
            pace: Links::default().mean(),
            common: Common::default(),
            candidates: Vec::new(),
            peers: Vec::new(),
        }
    }
}

/// The most recent decisions: a bounded ring that reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    keep: usize,
    ring: VecDeque<Decision>,
}

impl Journal {
    pub(crate) fn new(keep: usize) -> Journal {
        Journal { keep, ring: VecDeque::with_capacity(keep) }
    }

    /// The decisions kept, newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &Decision> {
        self.ring.iter().rev()
    }

    /// A decision with empty lists to fill in; `None` when none are kept. Reuses the oldest
    /// decision's buffers.
    pub(crate) fn next(&mut self) -> Option<&mut Decision> {
        let recycled = match self.ring.len() < self.keep {
            true => None,
            false => self.ring.pop_front(),
        };
        let mut decision = recycled.unwrap_or_default();
        decision.candidates.clear();
        decision.peers.clear();
        if self.keep > 0 {
            self.ring.push_back(decision);
        }
        self.ring.back_mut()
    }

    /// The newest decision about `id` that is still kept.
    pub(crate) fn find(&self, id: RequestId) -> Option<&Decision> {
        self.ring.iter().rev().find(|d| d.id == id)
    }
}
