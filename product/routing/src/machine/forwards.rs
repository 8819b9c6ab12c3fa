//! The life of a request forwarded to a peer.

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::{PeerId, ReplicaId, Time};

use super::{Output, Routing};
use crate::active::{Active, Away, RequestStage};
use crate::ending::Ending;
use crate::peer::Sent;
use crate::policy::Forward;
use crate::request::{Outcome, Usage};
use crate::target::Target;

/// The driver's report of the end of an attempt.
pub(super) struct End {
    pub(super) outcome: Outcome,
    pub(super) retry: bool,
    pub(super) usage: Option<Usage>,
    pub(super) extended: Option<Vec<u64>>,
    pub(super) served: Option<ReplicaId>,
}

impl Routing {
    /// Forwards a request and records it. The scratch belongs to the decision about it.
    pub(super) fn forward(&mut self, now: Time, active: &mut Active, to: Forward) {
        let Forward { peer, why, meant, by_policy, .. } = to;
        let id = active.request.id;
        let slot = meant.and_then(|r| self.snapshot.as_ref().and_then(|s| s.slot(peer, r)));
        let blocks = |at: usize| self.scratch.beyond.matched.get(at).copied().unwrap_or(0);
        let away = Away {
            meant,
            there: blocks(peer.index()),
            at_meant: slot.map_or(0, |s| blocks(usize::from(s))),
        };
        let known = slot.map_or(away.there, |_| away.at_meant);
        active.matched = self.scratch.tokens(known);
        active.unmatched = (active.request.prompt_tokens as f32 - active.matched).max(0.0);
        active.attempt += 1;
        active.left_queue = active.stage == RequestStage::Held;
        active.stage = RequestStage::Away(peer);
        active.recall = None;
        active.away = away;
        active.dispatched = now;
        active.first_token = false;
        let attempt = active.attempt;
        let pick = Some((Target::Peer(peer), why));
        self.note_shadow(now, active, attempt, pick);
        self.write_down(now, active, attempt, pick);
        self.outputs.push_back(Output::Forward {
            id,
            peer,
            why,
            matched_tokens: active.matched as u32,
            attempt,
        });
        if by_policy && self.checks_credits {
            self.check_credit(peer);
        }
        let sent = Sent { meant, unmatched: active.unmatched, growth: active.growth };
        self.peers.sent(now, peer, id, sent);
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.index().set_now(now);
            snapshot.sent(peer, meant, &active.request.blocks);
        }
    }

    /// Records a forward beyond the policy's credit, for [`Self::check_invariants`].
    fn check_credit(&mut self, peer: PeerId) {
        let Some(row) = self.peers.row(peer) else { return };
        let credit = self.rule.policy.forwarding().credit(row);
        let overdrawn = credit.is_some_and(|credit| row.since_tokens >= credit);
        if let Some(known) = self.peers.get_mut(peer) {
            known.overdrawn |= overdrawn;
        }
    }

    /// An attempt at a peer ended.
    pub(super) fn forward_finished(
        &mut self,
        now: Time,
        mut active: Box<Active>,
        peer: PeerId,
        end: End,
    ) {
        active.stage = RequestStage::Nowhere;
        self.journal.end(now, active.decision, Ending::Attempt(end.outcome));
        self.peers.ended(peer, active.request.id);
        // If a rule permits only some of the peer's replicas, those may be full while others have
        // free capacity. Its answer then says nothing about other requests.
        let elsewhere = end.outcome == Outcome::NoRoom
            && self.places.forbid_one(&active.request.residence, self.peers.places(peer));
        if let Some(known) = self.peers.get_mut(peer) {
            match end.outcome {
                Outcome::Done => known.totals.done += 1,
                Outcome::ClientError => {}
                Outcome::Full | Outcome::NoRoom => known.totals.full += 1,
                _ => known.totals.failed += 1,
            }
            // Until its next digest.
            let ends = matches!(end.outcome, Outcome::Done | Outcome::ClientError | Outcome::Died);
            known.shut |= !ends && !elsewhere;
        }
        // The peer tried two engines.
        active.died |= end.outcome == Outcome::Died;
        if end.outcome == Outcome::Done {
            self.blame_suspect(now, &active);
        }
        self.remember_away(now, &active, peer, &end);
        if end.retry && !matches!(end.outcome, Outcome::Done | Outcome::ClientError) {
            // A peer that is full now may have capacity by its next digest.
            let tried = end.outcome != Outcome::NoRoom || elsewhere;
            active.tried_peers |= u64::from(tried) << peer.0;
            active.tried_at = now;
            active.goes_on(now, end.extended);
            self.again(now, active, None, end.outcome);
        } else {
            self.count_finish(now);
        }
        self.release(now);
    }

    /// Updates the snapshot to the peer's current contents.
    fn remember_away(&mut self, now: Time, active: &Active, peer: PeerId, end: &End) {
        let Some(snapshot) = &mut self.snapshot else { return };
        let (blocks, away) = (&active.request.blocks, active.away);
        snapshot.index().set_now(now);
        if end.outcome == Outcome::Done {
            let served = end.served.or(away.meant);
            snapshot.answered(peer, served, end.extended.as_deref().unwrap_or(blocks));
            if let Some(meant) = away.meant.filter(|m| Some(*m) != served) {
                snapshot.not_there(peer, meant, blocks, away.at_meant);
            }
        } else if !active.first_token {
            snapshot.unsent(peer, blocks, away.there);
            if let Some(meant) = away.meant {
                snapshot.not_there(peer, meant, blocks, away.at_meant);
            }
        }
    }

    /// The client of a forwarded request disconnected.
    pub(super) fn forward_cancelled(&mut self, now: Time, active: &mut Active, peer: PeerId) {
        active.stage = RequestStage::Nowhere;
        self.peers.ended(peer, active.request.id);
        let end = End {
            outcome: Outcome::ClientError,
            retry: false,
            usage: None,
            extended: None,
            served: None,
        };
        self.remember_away(now, active, peer, &end);
    }
}
