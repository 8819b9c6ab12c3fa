//! Decisions kept for the explain endpoint: the state of every candidate when one was picked, and
//! how the decision ended.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use meridian_base::{Duration, Pace, PeerId, ReplicaId, RequestId, Time};

use crate::common::Common;
use crate::ending::Ending;
use crate::first_token::FirstToken;
use crate::links::Links;
use crate::row::{Row, SiblingShare};
use crate::shadow::Shadowed;
use crate::target::Target;
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
    /// What siblings have there.
    pub of_siblings: SiblingShare,
    /// The time until the request's adapter is loaded there, ms.
    pub loading_ms: f32,
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
    /// For a forward: the earliest first token that the peer's eligible replicas promised; `None` if
    /// its digest lists none.
    pub away: Option<FirstToken>,
    /// Every replica of the region that serves the model. If the request may be split, those for
    /// prefill are among them.
    pub candidates: Vec<CandidateRow>,
    /// Every peer.
    pub peers: Vec<PeerCandidate>,
    /// Time until the first token; `None` before it, and for an answer that does not stream.
    pub first_token: Option<Duration>,
    /// How it ended, and the time until then; `None` while the request is queued or in progress, and
    /// for a dry run.
    pub ending: Option<(Ending, Duration)>,
    /// Whether its attempt failed and the request was decided about again.
    pub retried: bool,
    /// The decision of the shadow policy.
    pub shadow: Option<Shadowed>,
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
            away: None,
            candidates: Vec::new(),
            peers: Vec::new(),
            first_token: None,
            ending: None,
            retried: false,
            shadow: None,
        }
    }
}

/// The most recent decisions: a bounded ring that reuses its buffers. Decisions are numbered from 1,
/// so that the events of a request find its newest one without a search.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    keep: usize,
    /// The number of the newest decision.
    newest: u64,
    ring: VecDeque<Decision>,
}

impl Journal {
    pub(crate) fn new(keep: usize) -> Journal {
        Journal { keep, newest: 0, ring: VecDeque::with_capacity(keep) }
    }

    /// Changes how many are kept.
    pub(crate) fn configured(&mut self, keep: usize) {
        self.keep = keep;
        let extra = self.ring.len().saturating_sub(keep);
        self.ring.drain(..extra);
    }

    /// The decisions kept, newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &Decision> {
        self.ring.iter().rev()
    }

    /// The number of the newest decision; 0 before the first.
    pub(crate) fn number(&self) -> u64 {
        self.newest
    }

    /// A decision with empty lists to fill in, and its number; `None` when none are kept. Reuses the
    /// oldest decision's buffers.
    pub(crate) fn next(&mut self) -> Option<(u64, &mut Decision)> {
        if self.keep == 0 {
            return None;
        }
        let recycled = match self.ring.len() < self.keep {
            true => None,
            false => self.ring.pop_front(),
        };
        let mut decision = recycled.unwrap_or_default();
        decision.candidates.clear();
        decision.peers.clear();
        (decision.first_token, decision.ending, decision.retried) = (None, None, false);
        decision.shadow = None;
        self.newest += 1;
        assert!(self.ring.len() < self.keep, "the oldest decision has left");
        self.ring.push_back(decision);
        self.ring.back_mut().map(|decision| (self.newest, decision))
    }

    /// The decision with this number, if it is still kept. No decision has number 0.
    fn numbered(&mut self, number: u64) -> Option<&mut Decision> {
        let newer = self.newest.checked_sub(number)?;
        let place = self.ring.len().checked_sub(1 + usize::try_from(newer).ok()?)?;
        self.ring.get_mut(place)
    }

    /// Records the first token after a decision. Only the first call counts.
    pub(crate) fn first_token(&mut self, now: Time, number: u64) {
        if let Some(decision) = self.numbered(number) {
            decision.first_token.get_or_insert(now.since(decision.at));
        }
    }

    /// Records the end of a decision. Only the first call counts: a request that is refused after
    /// its last attempt keeps that attempt's outcome.
    pub(crate) fn end(&mut self, now: Time, number: u64, ending: Ending) {
        if let Some(decision) = self.numbered(number) {
            decision.ending.get_or_insert((ending, now.since(decision.at)));
        }
    }

    /// Records that the request of a decision was decided about again: its attempt is retried, or it
    /// left the queue.
    pub(crate) fn decided_again(&mut self, now: Time, number: u64) {
        if let Some(decision) = self.numbered(number) {
            decision.retried = decision.ending.is_some();
            decision.ending.get_or_insert((Ending::Released, now.since(decision.at)));
        }
    }

    /// Checks the bound of the ring.
    pub(crate) fn check(&self) {
        assert!(self.ring.len() <= self.keep, "at most {} decisions are kept", self.keep);
        assert!(self.ring.len() as u64 <= self.newest, "each kept decision has a number");
    }

    /// The newest decision about `id` that is still kept.
    pub(crate) fn find(&self, id: RequestId) -> Option<&Decision> {
        self.ring.iter().rev().find(|d| d.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Outcome;

    // A number finds its decision as long as it is kept, and a recycled decision is without outcome.
    #[test]
    fn numbers_find_decisions() {
        let mut journal = Journal::new(2);
        for id in 1..=3 {
            let (number, decision) = journal.next().unwrap();
            assert_eq!(number, id);
            assert_eq!((decision.first_token, decision.ending), (None, None));
            decision.id = RequestId(id);
            journal.first_token(Time::from_millis(5), id);
            journal.end(Time::from_millis(9), id, Ending::Attempt(Outcome::Done));
        }
        let ids = [0, 1, 2, 3, 4].map(|number| journal.numbered(number).map(|d| d.id.0));
        assert_eq!(ids, [None, None, Some(2), Some(3), None]);
        journal.end(Time::from_millis(20), 3, Ending::Cancelled);
        let kept = journal.find(RequestId(3)).unwrap();
        assert_eq!(kept.first_token, Some(Duration::from_millis(5)));
        let end = (Ending::Attempt(Outcome::Done), Duration::from_millis(9));
        assert_eq!(kept.ending, Some(end));
    }

    // Without kept decisions nothing is recorded.
    #[test]
    fn an_empty_journal_records_nothing() {
        let mut journal = Journal::new(0);
        assert!(journal.next().is_none());
        journal.end(Time::ZERO, 0, Ending::Cancelled);
        assert_eq!(journal.newest().count(), 0);
    }
}
