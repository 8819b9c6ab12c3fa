//! The end of an attempt: its replica's counts, breaker and cache contents, and what becomes of the
//! request.

use meridian_base::{ModelId, ReplicaId, RequestId, Time};

use super::Routing;
use super::forwards::End;
use super::shadow::both;
use crate::active::{Active, RequestStage};
use crate::ending::Ending;
use crate::policy::PolicyEvent;
use crate::replica::State;
use crate::replica::lingering::FailedAttempt;
use crate::request::{Outcome, Usage};

impl Routing {
    pub(super) fn finished(&mut self, now: Time, id: RequestId, end: End) {
        let Some(mut active) = self.actives.take(id) else { return };
        let replica = match active.stage {
            RequestStage::Away(peer) => return self.forward_finished(now, active, peer, end),
            RequestStage::At(replica) => Some(replica),
            RequestStage::Prefilling(to) => {
                self.hand_over(now, &mut active, to);
                self.settle_prefill(now, &active, end.outcome);
                Some(to)
            }
            RequestStage::Orphan => None,
            RequestStage::Held | RequestStage::Nowhere => {
                self.actives.insert(active);
                return;
            }
        };
        let End { outcome, retry, usage, extended, .. } = end;
        self.log.ended(now, active.decision, Ending::Attempt(outcome));
        let mut blamed = replica;
        if let Some(replica) = replica {
            let fetch = self.settle_fetch(now, &mut active, replica);
            if let Some(fetch) = fetch.as_ref().filter(|_| outcome == Outcome::Done) {
                self.count_fetched(now, fetch, replica);
            }
            self.leave_replica(now, &mut active, replica);
            self.settle(now, &active, replica, outcome, usage);
            self.remember(&active, replica, outcome, extended.as_deref());
            match fetch {
                Some(fetch) if self.transfer_failed(now, &mut active, fetch, replica, outcome) => {
                    blamed = None;
                }
                _ => active.note(replica, outcome),
            }
        }
        if outcome == Outcome::Done {
            self.blame_suspect(now, &active);
            let tokens = usage.map_or(0, |usage| usage.completion_tokens);
            self.traffic.learn_reply(&active.request, tokens);
            self.queue.charge(now, &active.request, tokens);
            self.traffic.answered(now, now.since(active.dispatched));
        }
        if retry && !matches!(outcome, Outcome::Done | Outcome::ClientError) {
            active.goes_on(now, extended);
            self.again(now, active, blamed, outcome);
        } else {
            self.traffic.ended(now);
        }
        self.release(now);
    }

    /// Removes a request from its replica's counts.
    pub(super) fn leave_replica(&mut self, now: Time, active: &mut Active, replica: ReplicaId) {
        active.stage = RequestStage::Nowhere;
        let (unmatched, first, overdue) = (active.unmatched, active.first_token, active.overdue);
        let (id, prompt) = (active.request.id, active.request.prompt_tokens as f32);
        let reply = active.reply;
        active.overdue = false;
        self.say_ended(active, replica);
        self.fleet.update(now, replica, |r| {
            if !first {
                r.first_token(id, unmatched);
            }
            r.not_overdue(overdue);
            r.ended(now, prompt, reply);
        });
    }

    /// Applies the end of an attempt to its replica.
    pub(super) fn settle(
        &mut self,
        now: Time,
        active: &Active,
        replica: ReplicaId,
        outcome: Outcome,
        usage: Option<Usage>,
    ) {
        // The prefill leg of a split request has counted its prompt.
        let (matched, began, split) = (active.matched, active.began, active.split);
        let spared = active.blamed || active.suspect.is_some();
        let sent = active.dispatched;
        let others = outcome.is_early_failure() && self.fleet.has_others(replica);
        let (prompt, model) = (active.request.prompt_tokens as f32, active.request.model);
        let unmatched = if split { prompt } else { active.unmatched };
        let failed = FailedAttempt { took: now.since(sent), prompt, unmatched };
        let usual = self.traffic.usual();
        let steps = self.fleet.update(now, replica, |r| {
            match outcome {
                Outcome::Done => r.succeeded(now, model, sent),
                Outcome::ClientError | Outcome::NotServed => r.ended_neutral(model),
                Outcome::Full | Outcome::NoRoom => {
                    r.ended_neutral(model);
                    r.refused(now);
                }
                Outcome::EngineError | Outcome::NoKv => r.unsure(now, model, sent),
                Outcome::ReplicaError | Outcome::Died | Outcome::Unreached => {
                    r.totals.failed += 1;
                    match spared || r.state == State::Down {
                        true => r.ended_neutral(model),
                        false => r.server_failed(now, model, sent, others),
                    }
                }
            }
            if outcome.is_early_failure() {
                r.failed.add(now, failed, usual);
            }
            if let Some(usage) = usage.filter(|_| !split) {
                r.account(usage, matched);
            }
            let (usage, began) = (usage.filter(|_| outcome == Outcome::Done)?, began?);
            r.steps.answered(now, began, usage.completion_tokens)
        });
        if let Some(sample) = steps.flatten() {
            self.fleet.learn(now, replica, |kind, own| kind.answered(own, sample));
        }
        if let Some(usage) = usage.filter(|_| !split) {
            self.learn_report(now, replica, usage);
        }
        if outcome == Outcome::Done && self.fleet.is_failing(model) {
            self.fleet.note_failing(model);
        }
    }

    /// Learns from the prefill time that an engine reports.
    pub(super) fn learn_report(&mut self, now: Time, replica: ReplicaId, usage: Usage) {
        if let (Some(cached), Some(us)) = (usage.cached_tokens, usage.prefill_us) {
            let (ms, tokens) = (f64::from(us) / 1e3, usage.prompt_tokens.saturating_sub(cached));
            self.fleet.learn(now, replica, |kind, own| kind.reported(own, ms, tokens.into()));
        }
    }

    /// Counts a failure against a replica once it is known to be the replica's own.
    pub(super) fn blame(&mut self, now: Time, replica: ReplicaId, model: ModelId) {
        let others = self.fleet.has_others(replica);
        self.fleet.update(now, replica, |r| r.blamed(now, model, others));
        self.fleet.note_failing(model);
    }

    /// As [`Self::blame`], at the end of a request, if it has a suspect.
    pub(super) fn blame_suspect(&mut self, now: Time, active: &Active) {
        if let Some(suspect) = active.suspect {
            self.blame(now, suspect, active.request.model);
        }
    }

    /// Updates the index to the replica's current contents.
    pub(super) fn remember(
        &mut self,
        active: &Active,
        replica: ReplicaId,
        outcome: Outcome,
        extended: Option<&[u64]>,
    ) {
        self.share_ended(active, outcome, extended);
        let blocks = &active.request.blocks;
        // A replica that went silent may still answer, and returns with an empty cache.
        if self.fleet.get(replica).is_some_and(|r| r.state == State::Down) {
            return;
        }
        match outcome {
            Outcome::Done => {
                let all = extended.unwrap_or(blocks);
                both(&mut self.rule, &mut self.shadow).for_each(|rule| rule.answered(replica, all));
            }
            _ if active.first_token => {}
            _ => {
                self.forget(active, replica, active.matched);
                self.shadow_forget(active, replica, false);
            }
        }
    }

    /// Removes a prompt from a replica's index that may never have been computed there, except for
    /// the tokens that were cached before.
    pub(super) fn forget(&mut self, active: &Active, replica: ReplicaId, matched: f32) {
        let keep = matched / active.request.block_tokens.max(1e-3);
        self.rule.forget(replica, &active.request.blocks, keep as u32);
    }

    pub(super) fn cancelled(&mut self, now: Time, id: RequestId) {
        let Some(mut active) = self.actives.take(id) else { return };
        self.log.ended(now, active.decision, Ending::Cancelled);
        match active.stage {
            RequestStage::Held => {
                self.queue.remove(&active.request);
            }
            RequestStage::Prefilling(to) => {
                let from = active.fetch.map(|fetch| fetch.from);
                self.withdraw(now, &mut active, to);
                if let Some(from) = from {
                    self.fleet.update(now, from, |r| r.ended_neutral(active.request.model));
                }
            }
            RequestStage::At(replica) => {
                self.end_fetch(now, &mut active, replica);
                self.leave_replica(now, &mut active, replica);
                self.fleet.update(now, replica, |r| r.ended_neutral(active.request.model));
                self.remember(&active, replica, Outcome::ClientError, None);
            }
            RequestStage::Away(peer) => self.forward_cancelled(now, &mut active, peer),
            RequestStage::Orphan | RequestStage::Nowhere => {}
        }
        self.release(now);
    }

    /// Reports to the policies that a request ended at a replica.
    pub(super) fn say_ended(&mut self, active: &Active, replica: ReplicaId) {
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.report(PolicyEvent::Ended { request: &active.request, replica });
        }
    }
}
