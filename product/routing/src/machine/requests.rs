//! The life of a request between its arrival and its end.

use alloc::boxed::Box;
use meridian_base::{Duration, ModelId, ReplicaId, RequestId, Time};

use super::decide::{Choice, Sending};
use super::forwards::End;
use super::shadow::both;
use super::{Output, RETICK, Routing, Sent};
use crate::active::{Active, RequestStage};
use crate::ending::Ending;
use crate::policy::{Chosen, Dispatched};
use crate::replica::{State, Work};
use crate::request::{Outcome, Request, Usage};
use crate::reuse::Used;
use crate::target::Target;
use crate::why::RejectWhy;

impl Routing {
    pub(super) fn arrived(&mut self, now: Time, request: Request) {
        debug_assert!(!self.actives.contains(request.id), "an id arrives once");
        self.last_arrival = Some(now);
        let active = self.activate(now, request);
        self.arrivals += 1;
        self.route(now, Box::new(active));
    }

    /// Decides about a request that is in no queue or replica, and acts on the decision.
    pub(super) fn route(&mut self, now: Time, mut active: Box<Active>) {
        match self.decide(now, &mut active) {
            Choice::Send(to) => {
                self.send(now, &mut active, to);
                self.actives.insert(active);
            }
            // The peer that sent it may queue it or know another region.
            Choice::Hold
                if goes_back(&active) && !self.rule.policy.forwarding().holds_forwards() =>
            {
                self.refuse(now, &active, RejectWhy::NoRoom);
            }
            Choice::Hold => self.hold(now, active),
            Choice::Refuse(why) => self.refuse(now, &active, why),
        }
    }

    pub(super) fn hold(&mut self, now: Time, mut active: Box<Active>) {
        let (id, request) = (active.request.id, &active.request);
        let model = request.model;
        let until = self.held.may_wait_until(active.arrived, request.deadline);
        match self.held.push(request, active.arrived) {
            Ok(displaced) => {
                if let Some(active) = displaced.and_then(|id| self.actives.take(id)) {
                    self.refuse(now, &active, RejectWhy::Displaced);
                }
                active.stage = RequestStage::Held;
                self.actives.insert(active);
                self.look_by(until.max(now));
                self.retick.get_or_insert(now + RETICK);
                self.hasten_probes(now, model);
                self.outputs.push_back(Output::Held(id));
            }
            Err(why) => self.refuse(now, &active, why),
        }
    }

    /// Speeds up probes while a request waits: replicas that may have capacity again should report
    /// soon, idle or not.
    pub(super) fn hasten_probes(&mut self, now: Time, model: ModelId) {
        if self.held.len() > 1 {
            return;
        }
        let wanted = now + self.config.probe.busy;
        let schedule = &mut self.schedule;
        let pools = [self.serves.get(&model), self.prefills.get(&model)];
        for id in pools.into_iter().flatten().flatten() {
            self.replicas.update(now, *id, |r| {
                if !r.probing {
                    r.next_probe = schedule.hasten(r.next_probe, wanted, *id);
                }
            });
        }
    }

    /// Sends a request to the decision's target, using the matches in the scratch.
    pub(super) fn send(&mut self, now: Time, active: &mut Active, to: Sending) {
        match to {
            Sending::Replica(to) => self.dispatch(now, active, to),
            Sending::Peer(to) => self.forward(now, active, to),
        }
    }

    pub(super) fn dispatch(&mut self, now: Time, active: &mut Active, to: Chosen) {
        let Chosen { replica, prefill, why, .. } = to;
        let id = active.request.id;
        active.left_queue = active.stage == RequestStage::Held;
        active.matched = self.scratch.matched_tokens(replica);
        active.presumed = None;
        active.fetch = prefill.map(|from| self.fetch(active, from, replica));
        match active.fetch {
            None => {
                active.unmatched = (active.request.prompt_tokens as f32 - active.matched).max(0.0);
                active.in_front = self.in_front(replica).filter(|_| active.request.streams);
                active.stage = RequestStage::At(replica);
            }
            Some(_) => {
                (active.unmatched, active.in_front) = (0.0, None);
                active.stage = RequestStage::Prefilling(replica);
            }
        }
        active.split = prefill.is_some();
        active.attempt += 1;
        active.recall = None;
        active.dispatched = now;
        active.first_token = false;
        active.began = None;
        self.outputs.push_back(Output::Dispatch {
            id,
            replica,
            prefill,
            why,
            matched_tokens: active.fetch.map_or(active.matched, |fetch| fetch.matched) as u32,
            attempt: active.attempt,
        });
        if let Some(fetch) = active.fetch {
            self.say_dispatched(now, active, fetch.from, fetch.unmatched);
        }
        self.say_dispatched(now, active, replica, active.unmatched);
        self.unwritten = Some(Sent { at: now, id, replica, why });
    }

    /// Reports to the policy that a request was sent to a replica, with this much to compute.
    pub(super) fn say_dispatched(
        &mut self,
        at: Time,
        active: &Active,
        replica: ReplicaId,
        unmatched: f32,
    ) {
        let prefill_ms = unmatched * self.replicas.row(replica).ms_per_token;
        self.rule
            .policy
            .on_dispatched(at, Dispatched { request: &active.request, replica, prefill_ms });
    }

    /// Reports to the policies that a request ended at a replica.
    pub(super) fn say_ended(&mut self, active: &Active, replica: ReplicaId) {
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.policy.on_ended(&active.request, replica);
        }
    }

    /// Prefill tokens ahead of a new request; `None` if other clients' requests are ahead as well.
    pub(super) fn in_front(&self, replica: ReplicaId) -> Option<f32> {
        let there = self.replicas.get(replica)?;
        let row = self.replicas.row(replica);
        let ours_alone = there.agreed_drift() <= 0;
        // A request whose tokens all matched may still be ahead.
        let waits = if row.pending > 0 { row.front_tokens.max(1.0) } else { row.front_tokens };
        ours_alone.then_some(waits)
    }

    /// Records the newest dispatch: first in the journal, which shows the region at the time of the
    /// decision, then in its replica's counts, then in the index. This costs more than the
    /// decision, so it waits until the driver has taken the dispatch, and happens before any
    /// further decision or change.
    pub(crate) fn write_dispatch(&mut self) {
        let Some(Sent { at, id, replica, why }) = self.unwritten.take() else { return };
        let Some(mut active) = self.actives.take(id) else { return };
        let attempt = active.attempt;
        let pick = Some((Target::Replica(replica), why));
        self.note_shadow(at, &mut active, attempt, pick);
        self.write_down(at, &mut active, attempt, pick);
        self.shadow_dispatch(at, &mut active, replica);
        let prompt = active.request.prompt_tokens as f32;
        match active.fetch {
            Some(fetch) => {
                self.note_use(at, &active, fetch.from, fetch.matched, true);
                self.note_use(at, &active, replica, active.matched, false);
                self.book_legs(at, &active, fetch, replica);
            }
            None => {
                self.note_use(at, &active, replica, active.matched, true);
                let (prefill, reply) = (active.unmatched, active.reply);
                self.book(at, id, replica, Work { prompt, prefill, kv: prefill, reply });
                let model = active.request.model;
                if self.adapters.contains(&model) {
                    self.replicas.update(at, replica, |r| r.adapters.sent(model));
                }
            }
        }
        self.actives.insert(active);
    }

    /// Adds a prompt to a replica's index as it is sent there, and counts the tokens used again; in
    /// the share of the region as well if it `counts`.
    fn note_use(
        &mut self,
        at: Time,
        active: &Active,
        replica: ReplicaId,
        matched: f32,
        counts: bool,
    ) {
        let Some(idle_ms) = self.rule.sent(replica, &active.request.blocks) else { return };
        let used = Used {
            token_seconds: idle_ms * active.request.block_tokens / 1e3,
            matched,
            all: active.request.prompt_tokens as f32 + active.reply,
        };
        if counts {
            self.rule.hits.add(used.matched, used.all);
        }
        self.replicas.update(at, replica, |r| r.used_cache(at, used));
    }

    /// Adds a request to the counts of a replica that it is sent to.
    pub(super) fn book(&mut self, now: Time, id: RequestId, replica: ReplicaId, work: Work) {
        let wanted = now + self.config.probe.busy;
        let schedule = &mut self.schedule;
        self.replicas.update(now, replica, |r| {
            r.due.push_back((r.first_token_due(now, work.prefill), id));
            r.sent(now, work);
            if !r.probing {
                r.next_probe = schedule.hasten(r.next_probe, wanted, replica);
            }
        });
    }

    pub(super) fn first_token(&mut self, now: Time, id: RequestId) {
        let Some(active) = self.actives.get_mut(id) else { return };
        if active.request.streams {
            self.journal.first_token(now, active.decision);
        }
        // Another replica succeeded where the suspect failed.
        let suspect = active.suspect.take();
        let stage = active.stage;
        if let RequestStage::Away(_) = stage {
            active.first_token = true;
        }
        if let Some(suspect) = suspect {
            active.blamed = true;
            self.blame(now, suspect);
        }
        match stage {
            RequestStage::Away(peer) => return self.peers.prefilled(peer, id),
            RequestStage::Prefilling(_) => self.prefill_seen(now, id),
            _ => {}
        }
        let Some(active) = self.actives.get_mut(id) else { return };
        let RequestStage::At(replica) = active.stage else { return };
        if active.first_token {
            return;
        }
        active.first_token = true;
        let ttft_ms = now.since(active.dispatched).as_secs_f64() * 1e3;
        let (unmatched, in_front) = (active.unmatched, active.in_front);
        let overdue = core::mem::take(&mut active.overdue);
        let mean = self.replicas.columns().mean_ms_per_token();
        let learned = self.replicas.update(now, replica, |r| {
            let knew = r.speed.is_learned();
            r.first_token(id, unmatched);
            r.overdue -= u32::from(overdue);
            if let Some(front) = in_front {
                let ttft_ms = (ttft_ms - r.spec.rtt.as_secs_f64() * 1e3).max(0.0);
                // Before any replica has a measurement the mean is a constant.
                if knew {
                    r.speed.assume(f64::from(mean));
                }
                r.speed.sample(ttft_ms, f64::from(unmatched), f64::from(front));
            }
            r.prefilled(now, r.speed.ms_per_token() * f64::from(unmatched));
            (!knew && r.speed.is_learned(), r.steps.mark(now))
        });
        let Some((learned, began)) = learned else { return };
        if let Some(active) = self.actives.get_mut(id) {
            active.began = active.request.streams.then_some(began);
        }
        if learned {
            self.replicas.share_speed(now, replica);
        }
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.policy.on_first_token(now, replica, ttft_ms);
        }
        self.fetched(now, id);
        self.release(now);
    }

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
        self.journal.end(now, active.decision, Ending::Attempt(outcome));
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
            if tokens > 0 {
                self.replies.learn(&active.request, tokens);
            }
        }
        if retry && !matches!(outcome, Outcome::Done | Outcome::ClientError) {
            active.goes_on(now, extended);
            self.again(now, active, blamed, outcome);
        } else {
            self.count_finish(now);
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
        self.replicas.update(now, replica, |r| {
            if !first {
                r.first_token(id, unmatched);
            }
            r.overdue -= u32::from(overdue);
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
        let learned = self.replicas.update(now, replica, |r| {
            let knew = r.speed.is_learned();
            match outcome {
                Outcome::Done => r.succeeded(),
                Outcome::ClientError | Outcome::NotServed => r.breaker.neutral(),
                Outcome::Full | Outcome::NoRoom => {
                    r.breaker.neutral();
                    r.refused(now);
                }
                Outcome::EngineError | Outcome::NoKv => r.breaker.neutral(),
                Outcome::ReplicaError | Outcome::Died | Outcome::Unreached => {
                    r.totals.failed += 1;
                    match spared || r.state == State::Down {
                        true => r.breaker.neutral(),
                        false => r.breaker.failure(now),
                    }
                }
            }
            if let (Outcome::Done, Some(usage), Some(began)) = (outcome, usage, began) {
                r.steps.answered(now, began, usage.completion_tokens);
            }
            if let Some(usage) = usage.filter(|_| !split) {
                r.account(usage, matched);
            }
            !knew && r.speed.is_learned()
        });
        if learned == Some(true) {
            self.replicas.share_speed(now, replica);
        }
    }

    /// Counts a failure against a replica once it is known to be the replica's own.
    fn blame(&mut self, now: Time, replica: ReplicaId) {
        self.replicas.update(now, replica, |r| {
            r.breaker.failure(now);
            r.totals.failed += 1;
        });
    }

    /// As [`Self::blame`], at the end of a request, if it has a suspect.
    pub(super) fn blame_suspect(&mut self, now: Time, active: &Active) {
        if let Some(suspect) = active.suspect {
            self.blame(now, suspect);
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
        let blocks = &active.request.blocks;
        // A replica that went silent may still answer, and returns with an empty cache.
        if self.replicas.get(replica).is_some_and(|r| r.state == State::Down) {
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

    /// Retries a failed request elsewhere, within its limits. A full engine is not a failure: the
    /// request waits in the held queue like any other, and no attempt is spent. If an engine's
    /// connection broke while serving it, exactly one more engine gets it, whatever the result.
    pub(super) fn again(
        &mut self,
        now: Time,
        mut active: Box<Active>,
        replica: Option<ReplicaId>,
        outcome: Outcome,
    ) {
        if matches!(outcome, Outcome::Full | Outcome::NoRoom) {
            active.attempt -= 1;
            self.route(now, active);
            return;
        }
        active.tried.extend(replica);
        let attempts = active.attempt;
        let why = if active.died && outcome != Outcome::Unreached {
            RejectWhy::EngineDied { attempts }
        } else if attempts.saturating_sub(active.prefills_failed) >= self.config.attempts {
            RejectWhy::RetriesExhausted { attempts }
        } else {
            active.died |= outcome == Outcome::Died;
            return self.route(now, active);
        };
        self.refuse(now, &active, why);
    }

    pub(super) fn cancelled(&mut self, now: Time, id: RequestId) {
        let Some(mut active) = self.actives.take(id) else { return };
        self.journal.end(now, active.decision, Ending::Cancelled);
        match active.stage {
            RequestStage::Held => {
                self.held.remove(&active.request);
            }
            RequestStage::Prefilling(to) => {
                let from = active.fetch.map(|fetch| fetch.from);
                self.withdraw(now, &mut active, to);
                if let Some(from) = from {
                    self.replicas.update(now, from, |r| r.breaker.neutral());
                }
            }
            RequestStage::At(replica) => {
                self.end_fetch(now, &mut active, replica);
                self.leave_replica(now, &mut active, replica);
                self.replicas.update(now, replica, |r| r.breaker.neutral());
                self.remember(&active, replica, Outcome::ClientError, None);
            }
            RequestStage::Away(peer) => self.forward_cancelled(now, &mut active, peer),
            RequestStage::Orphan | RequestStage::Nowhere => {}
        }
        self.release(now);
    }

    /// Refuses a request, which ends it. No later attempt can show whether its suspect was to
    /// blame, so the failure counts.
    pub(super) fn refuse(&mut self, now: Time, active: &Active, why: RejectWhy) {
        self.blame_suspect(now, active);
        self.journal.end(now, active.decision, Ending::Refused(why));
        let (id, retry_after) = (active.request.id, self.retry_after());
        self.outputs.push_back(Output::Reject { id, why, retry_after });
    }

    pub(super) fn count_finish(&mut self, now: Time) {
        let gap = now.since(self.last_finish).as_secs_f64();
        self.last_finish = now;
        self.finished.add(now, gap);
    }

    /// About the time in which the queue ahead drains, 1 to 60 s.
    pub(super) fn retry_after(&self) -> Duration {
        let gap = self.finished.get().unwrap_or(0.1);
        let seconds = libm::ceil(gap * f64::from(self.held.len()));
        Duration::from_secs(seconds.clamp(1.0, 60.0) as u64)
    }
}

/// Whether a request that fits nowhere may go back to the peer that sent it: not if its state is
/// here.
fn goes_back(active: &Active) -> bool {
    active.request.hops > 0 && active.request.pinned.is_none()
}
