//! A choice is applied: a request is sent to a replica, and recorded once the driver has taken it.

use meridian_base::{ReplicaId, RequestId, Time};

use super::Routing;
use crate::active::{Active, RequestStage};
use crate::decide::{Sending, Tables};
use crate::log::Sent;
use crate::output::Output;
use crate::policy::{Chosen, Dispatched, PolicyEvent};
use crate::replica::Work;
use crate::reuse::Used;
use crate::target::Target;
use crate::why::Why;

impl Routing {
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
        assert!(!active.is_away(), "{id} is sent to one replica at a time");
        active.left_queue = active.stage == RequestStage::Held;
        self.queue.charge(now, &active.request, active.request.prompt_tokens);
        active.matched = self.buffers.newest.matched_tokens(replica);
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
        self.log.say(Output::Dispatch {
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
        self.log.sent(Sent { at: now, id, replica, why });
    }

    /// Reports to the policy that a request was sent to a replica, with this much to compute.
    pub(super) fn say_dispatched(
        &mut self,
        at: Time,
        active: &Active,
        replica: ReplicaId,
        unmatched_tokens: f32,
    ) {
        let prefill_ms = unmatched_tokens * self.fleet.row(replica).ms_per_token;
        let request = &active.request;
        let sent = Dispatched { at, request, replica, unmatched_tokens, prefill_ms };
        self.rule.report(PolicyEvent::Dispatched(sent));
    }

    /// Prefill tokens ahead of a new request; `None` if other clients' requests are ahead as well.
    pub(super) fn in_front(&self, replica: ReplicaId) -> Option<f32> {
        let there = self.fleet.get(replica)?;
        let (front, pending) = (there.front_tokens, self.fleet.row(replica).pending);
        let ours_alone = there.agreed_drift() <= 0;
        // A request whose tokens all matched may still be ahead.
        let waits = if pending > 0 { front.max(1.0) } else { front };
        ours_alone.then_some(waits)
    }

    /// Records the newest dispatch: first in the journal, which shows the region at the time of the
    /// decision, then in its replica's counts, then in the index. This costs more than the
    /// decision, so it waits until the driver has taken the dispatch, and happens before any
    /// further decision or change.
    pub(super) fn write_dispatch(&mut self) {
        let Some(Sent { at, id, replica, why }) = self.log.take_sent() else { return };
        let Some(mut active) = self.actives.take(id) else { return };
        let attempt = active.attempt;
        assert!(active.is_away(), "{id} is recorded before anything else happens to it");
        let pick = Some((Target::Replica(replica), why));
        self.note_shadow(at, &mut active, attempt, pick);
        self.write_down(at, &mut active, attempt, pick);
        self.shadow_dispatch(at, &mut active, replica);
        let prompt = active.request.prompt_tokens as f32;
        if self.fleet.is_failing(active.request.model) {
            let model = active.request.model;
            self.fleet.update(at, replica, |r| {
                r.of_models.get_mut(model).into_iter().for_each(|breaker| breaker.sent(at, at));
            });
        }
        match active.fetch {
            Some(fetch) => {
                self.note_use(at, &active, fetch.from, fetch.matched, true);
                self.note_use(at, &active, replica, active.matched, false);
                self.book_legs(at, &active, fetch, replica);
                self.share_sent(&active, fetch.from, fetch.unmatched);
            }
            None => {
                self.note_use(at, &active, replica, active.matched, true);
                let (prefill, reply) = (active.unmatched, active.reply);
                self.book(at, id, replica, Work { prompt, prefill, kv: prefill, reply, sent: at });
                self.share_sent(&active, replica, prefill);
                let model = active.request.model;
                if self.fleet.is_adapter(model) {
                    self.fleet.update(at, replica, |r| r.adapters.sent(model));
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
            self.rule.count_hits(used.matched, used.all);
        }
        self.fleet.update(at, replica, |r| r.used_cache(at, used));
    }

    /// Records the newest decision and its candidates: all of them in an ordinary region, the
    /// picked one and the first `explain_candidates` in a very large one.
    pub(super) fn write_down(
        &mut self,
        now: Time,
        active: &mut Active,
        attempt: u32,
        pick: Option<(Target, Why)>,
    ) {
        let Routing { fleet, queue, regions, rule, log, buffers, config, siblings, .. } = self;
        let Some((number, decision)) = log.next_decision(now, active.decision) else { return };
        active.decision = number;
        (decision.id, decision.at, decision.attempt) = (active.request.id, now, attempt);
        (decision.resumed, decision.pick) = (active.resumed, pick);
        decision.shadow = active.shadowed;
        let tables = Tables::of(fleet, queue, regions, rule);
        tables.describe_pair(decision, active.fetch.map(|fetch| fetch.from));
        tables.describe(active, &buffers.newest, config.explain_candidates, decision);
        siblings.describe(fleet, decision);
    }

    /// Adds a request to the counts of a replica that it is sent to.
    pub(super) fn book(&mut self, now: Time, id: RequestId, replica: ReplicaId, work: Work) {
        let probed = now + self.config.probe.busy;
        self.fleet.book(now, id, replica, work, probed);
    }
}
