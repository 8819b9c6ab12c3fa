//! The life of a request forwarded to a peer.

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::{PeerId, ReplicaId, Time};

use super::Routing;
use crate::active::{Active, Away, RequestStage};
use crate::ending::Ending;
use crate::output::Output;
use crate::peer::Sent;
use crate::policy::Forward;
use crate::regions::Remembered;
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
        assert!(!active.is_away(), "{id} is sent to one peer at a time");
        assert_eq!(active.request.hops, 0, "{id} is forwarded once");
        let slot = meant.and_then(|replica| self.regions.slot(peer, replica));
        let blocks = |target: usize| self.buffers.newest.blocks_away(target);
        let away = Away {
            meant,
            there: blocks(peer.index()),
            at_meant: slot.map_or(0, |s| blocks(usize::from(s))),
        };
        let known = slot.map_or(away.there, |_| away.at_meant);
        active.matched = self.buffers.newest.tokens(known);
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
        self.log.say(Output::Forward {
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
        self.regions.sent(now, peer, id, sent, &active.request.blocks);
    }

    /// Records a forward beyond the policy's credit, for [`Self::check_invariants`].
    fn check_credit(&mut self, peer: PeerId) {
        let Some(row) = self.regions.row(peer) else { return };
        let credit = self.rule.forwarding().credit(row);
        let overdrawn = credit.is_some_and(|credit| row.since_tokens >= credit);
        self.regions.check_credit(peer, overdrawn);
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
        self.log.ended(now, active.decision, Ending::Attempt(end.outcome));
        // If a rule permits only some of the peer's replicas, those may be full while others have
        // free capacity. Its answer then says nothing about other requests.
        let elsewhere = end.outcome == Outcome::NoRoom
            && self.regions.forbids_some(&active.request.residence, peer);
        self.regions.ended(peer, active.request.id, end.outcome, elsewhere);
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
            self.traffic.ended(now);
        }
        self.release(now);
    }

    /// Updates the snapshot to the peer's current contents.
    fn remember_away(&mut self, now: Time, active: &Active, peer: PeerId, end: &End) {
        let blocks = &active.request.blocks;
        let told = match end.outcome {
            Outcome::Done => Remembered::Done {
                served: end.served,
                held: end.extended.as_deref().unwrap_or(blocks),
            },
            _ if active.first_token => Remembered::Computed,
            _ => Remembered::Unknown,
        };
        self.regions.remember(now, peer, active.away, blocks, told);
    }

    /// The client of a forwarded request disconnected.
    pub(super) fn forward_cancelled(&mut self, now: Time, active: &mut Active, peer: PeerId) {
        active.stage = RequestStage::Nowhere;
        self.regions.cancelled(peer, active.request.id);
        let told = if active.first_token { Remembered::Computed } else { Remembered::Unknown };
        self.regions.remember(now, peer, active.away, &active.request.blocks, told);
    }
}
