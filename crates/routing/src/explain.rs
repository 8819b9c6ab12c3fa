//! Decisions kept for the explain endpoint: what every candidate looked like when one was picked.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, RequestId, Time};

use crate::replica::Row;
use crate::why::{Ineligible, Why};

/// One candidate as it stood at a decision.
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

/// One decision, whole.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The request.
    pub id: RequestId,
    /// When it was decided.
    pub at: Time,
    /// Which attempt this was, from 1.
    pub attempt: u32,
    /// The pick and its reason; `None` when the request was held or rejected.
    pub pick: Option<(ReplicaId, Why)>,
    /// Every replica of the region.
    pub candidates: Vec<CandidateRow>,
}

/// The last decisions, a bounded ring whose buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    keep: usize,
    ring: VecDeque<Decision>,
}

impl Journal {
    pub(crate) fn new(keep: usize) -> Journal {
        Journal { keep, ring: VecDeque::with_capacity(keep) }
    }

    /// Records a decision; `fill` writes the candidates into the (recycled) buffer it is given.
    pub(crate) fn record(
        &mut self,
        id: RequestId,
        at: Time,
        attempt: u32,
        pick: Option<(ReplicaId, Why)>,
        fill: impl FnOnce(&mut Vec<CandidateRow>),
    ) {
        if self.keep == 0 {
            return;
        }
        let mut candidates = match self.ring.len() < self.keep {
            true => Vec::new(),
            false => self.ring.pop_front().map(|d| d.candidates).unwrap_or_default(),
        };
        candidates.clear();
        fill(&mut candidates);
        self.ring.push_back(Decision { id, at, attempt, pick, candidates });
    }

    /// The newest decision about `id` that is still kept.
    pub(crate) fn find(&self, id: RequestId) -> Option<&Decision> {
        self.ring.iter().rev().find(|d| d.id == id)
    }
}
