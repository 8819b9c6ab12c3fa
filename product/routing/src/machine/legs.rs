//! The two legs of a request whose prompt one replica computes and another one answers.
//!
//! From the dispatch until the prefill ends, the request counts as work at the prefill replica and
//! as coming at the other one. Then the second fetches the KV, until its first token shows that it
//! has it; the first holds the KV for as long. The driver sends the legs one after the other or both
//! at once, or leaves the prefill leg to a proxy. If it does not see the end of the prefill, the
//! first token is the sign of it, and nothing is learned about the prefill replica's speed: the time
//! until then includes the transfer.

use alloc::boxed::Box;
use meridian_base::{ReplicaId, RequestId, Time};

use super::Routing;
use super::shadow::both;
use crate::active::{Active, RequestStage};
use crate::ending::Ending;
use crate::kind::PromptTime;
use crate::legs::Fetch;
use crate::policy::PolicyEvent;
use crate::replica::Work;
use crate::request::{Outcome, Usage};

/// Tokens that a prefill leg generates.
const ONE: f32 = 1.0;
/// Failed prefill legs after which a request is not split again.
const MOST_FAILED: u32 = 2;

impl Routing {
    /// The prefill leg of a request that is about to be dispatched to a pair; the scratch belongs
    /// to the decision.
    pub(super) fn fetch(&self, active: &Active, from: ReplicaId, to: ReplicaId) -> Fetch {
        let prompt = active.request.prompt_tokens as f32;
        let scratch = &self.buffers.newest;
        let matched = scratch.matched_tokens(from);
        Fetch {
            from,
            matched,
            unmatched: (prompt - matched).max(0.0),
            in_front: self.in_front(from),
            prompt,
            tokens: (prompt - scratch.matched_tokens(to)).max(0.0),
            ended: None,
            crossing: 0.0,
            waits: false,
        }
    }

    /// Adds a dispatch to the counts of its two replicas.
    pub(super) fn book_legs(&mut self, now: Time, active: &Active, fetch: Fetch, to: ReplicaId) {
        let Fetch { prompt, unmatched, .. } = fetch;
        let work = Work { prompt, prefill: unmatched, kv: unmatched, reply: ONE, sent: now };
        self.book(now, active.request.id, fetch.from, work);
        self.fleet.update(now, to, |r| {
            r.legs.expect(fetch.tokens);
            // If its breaker is half open, this request is the one that passes.
            r.breaker.sent(now, now);
        });
    }

    /// The prefill leg of a request succeeded, with these token counts.
    pub(super) fn prefilled(&mut self, now: Time, id: RequestId, usage: Option<Usage>) {
        let Some(mut active) = self.actives.take(id) else { return };
        if let RequestStage::Prefilling(to) = active.stage {
            self.hand_over(now, &mut active, to);
            self.learn_prefill(now, &active, usage);
            self.prefill_succeeded(now, &active);
        }
        self.actives.insert(active);
        self.release(now);
    }

    /// The first token of a request shows that its prefill leg has succeeded.
    pub(super) fn prefill_seen(&mut self, now: Time, id: RequestId) {
        let Some(mut active) = self.actives.take(id) else { return };
        if let RequestStage::Prefilling(to) = active.stage {
            self.hand_over(now, &mut active, to);
            self.prefill_succeeded(now, &active);
        }
        self.actives.insert(active);
    }

    /// Counts a prefill leg that succeeded.
    fn prefill_succeeded(&mut self, now: Time, active: &Active) {
        let Some(fetch) = active.fetch else { return };
        self.fleet.update(now, fetch.from, |r| {
            r.prefilled(now, fetch.unmatched);
            r.succeeded(now, active.request.model, active.dispatched);
        });
    }

    /// Learns from a prefill leg that ended now.
    fn learn_prefill(&mut self, now: Time, active: &Active, usage: Option<Usage>) {
        let Some(fetch) = active.fetch else { return };
        let ttft_ms = now.since(active.dispatched).as_secs_f64() * 1e3;
        if let Some(front) = fetch.in_front {
            let rtt = self.fleet.get(fetch.from).map_or(0.0, |r| r.spec.rtt.as_secs_f64() * 1e3);
            let prompt = PromptTime {
                ttft_ms: (ttft_ms - rtt).max(0.0),
                tokens: fetch.unmatched.into(),
                in_front: front.into(),
            };
            self.fleet.learn(now, fetch.from, |kind, own| kind.prompt(own, prompt));
        }
        if let Some(usage) = usage {
            self.fleet.update(now, fetch.from, |r| r.account(usage, fetch.matched));
            self.learn_report(now, fetch.from, usage);
        }
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.report(PolicyEvent::FirstToken { replica: fetch.from, ttft_ms });
        }
    }

    /// Moves a request from its prefill replica to the one that answers, which now fetches the KV.
    pub(super) fn hand_over(&mut self, now: Time, active: &mut Active, to: ReplicaId) {
        let Some(mut fetch) = active.fetch else { return };
        assert!(fetch.ended.is_none(), "{} is handed over once", active.request.id);
        self.leave_prefill(now, active);
        self.share_ended(active, Outcome::Done, None);
        self.fleet.update(now, to, |r| {
            r.legs.came(fetch.tokens);
            if let Some(promise) = r.promised.as_mut().filter(|p| p.to == active.request.id) {
                promise.at = now;
            }
        });
        let moving = |id| self.fleet.get(id).map_or(0.0, |r| r.legs.moving_tokens);
        fetch.crossing = fetch.tokens + moving(fetch.from).max(moving(to));
        fetch.ended = Some(now);
        fetch.waits = self.waits_at(to, fetch.tokens);
        (active.fetch, active.stage) = (Some(fetch), RequestStage::At(to));
        self.fleet.update(now, fetch.from, |r| r.legs.hold(&fetch));
        let Fetch { prompt, tokens, .. } = fetch;
        self.book(
            now,
            active.request.id,
            to,
            Work { prompt, prefill: 0.0, kv: tokens, reply: active.reply, sent: active.dispatched },
        );
        self.fleet.update(now, to, |r| r.legs.fetch(&fetch));
        self.share_sent(active, to, 0.0);
    }

    /// Whether more than a transfer delays the first token at a replica: prompts ahead, pending
    /// requests that fetch nothing, or no room for these tokens.
    fn waits_at(&self, to: ReplicaId, tokens: f32) -> bool {
        let row = self.fleet.row(to);
        let fetching = self.fleet.get(to).map_or(0, |r| r.legs.fetching);
        row.front_tokens > 0.0 || row.pending > fetching || row.kv_free < tokens
    }

    /// Removes a request from the counts of its prefill replica.
    fn leave_prefill(&mut self, now: Time, active: &mut Active) {
        let Some(fetch) = active.fetch else { return };
        let (id, overdue) = (active.request.id, core::mem::take(&mut active.overdue));
        let computed = core::mem::take(&mut active.first_token);
        self.say_ended(active, fetch.from);
        self.fleet.update(now, fetch.from, |r| {
            if !computed {
                r.first_token(id, fetch.unmatched);
            }
            r.not_overdue(overdue);
            r.ended(now, fetch.prompt, ONE);
        });
    }

    /// Ends a transfer: the replica at `to` has the KV, or will not get it.
    pub(super) fn end_fetch(
        &mut self,
        now: Time,
        active: &mut Active,
        to: ReplicaId,
    ) -> Option<Fetch> {
        let fetch = active.fetch.take()?;
        self.fleet.update(now, fetch.from, |r| r.legs.release(&fetch));
        self.fleet.update(now, to, |r| r.legs.fetched(&fetch));
        Some(fetch)
    }

    /// The same at the end of an attempt, also if the transfer counts as ended.
    pub(super) fn settle_fetch(
        &mut self,
        now: Time,
        active: &mut Active,
        to: ReplicaId,
    ) -> Option<Fetch> {
        self.end_fetch(now, active, to).or_else(|| active.presumed.take())
    }

    /// A request whose answer does not stream runs, so its KV no longer counts as under way.
    pub(super) fn presume_fetched(&mut self, now: Time, id: RequestId) {
        let Some(mut active) = self.actives.take(id) else { return };
        if let RequestStage::At(to) = active.stage {
            active.presumed = self.end_fetch(now, &mut active, to).or(active.presumed);
        }
        self.actives.insert(active);
    }

    /// The first token of a request shows that its KV arrived.
    pub(super) fn fetched(&mut self, now: Time, id: RequestId) {
        let Some(mut active) = self.actives.take(id) else { return };
        if let RequestStage::At(to) = active.stage
            && let Some(fetch) = self.end_fetch(now, &mut active, to)
            && self.count_fetched(now, &fetch, to)
            && let (Some(from), Some(at)) = (self.fleet.get(fetch.from), self.fleet.get(to))
            && active.request.streams
            && !fetch.waits
            && fetch.ended.is_some_and(|ended| ended < now)
        {
            let ms = now.since(fetch.ended.unwrap_or(now)).as_secs_f32() * 1e3;
            let ms = (ms - at.spec.rtt.as_secs_f32() * 1e3).max(0.0);
            let ends = ((fetch.from, from.spec.pool), (to, at.spec.pool));
            self.fleet.links_mut().learn(now, ends.0, ends.1, ms, fetch.crossing);
        }
        self.actives.insert(active);
    }

    /// Counts a transfer that succeeded; true if the replica is still here.
    pub(super) fn count_fetched(&mut self, now: Time, fetch: &Fetch, to: ReplicaId) -> bool {
        self.fleet.links_mut().succeeded(fetch.from, to);
        let counted = self.fleet.update(now, to, |r| {
            r.totals.fetched += 1;
            r.totals.fetched_tokens += fetch.tokens as u64;
        });
        counted.is_some()
    }

    /// The prefill leg of a request failed, and its driver has ended the other one, if it began.
    pub(super) fn prefill_failed(&mut self, now: Time, id: RequestId, outcome: Outcome) {
        let Some(mut active) = self.actives.take(id) else { return };
        let from = match (active.stage, active.fetch) {
            (RequestStage::Prefilling(to), Some(fetch)) => {
                self.withdraw(now, &mut active, to);
                self.settle(now, &active, fetch.from, outcome, None);
                active.note(fetch.from, outcome);
                Some(fetch.from)
            }
            // One of its replicas has left.
            (RequestStage::Orphan, _) => None,
            // The prefill replica has left, or the driver takes back that the leg succeeded.
            (RequestStage::At(to), _) if active.split => {
                self.take_back(now, &mut active, to);
                None
            }
            _ => {
                self.actives.insert(active);
                return;
            }
        };
        self.log.ended(now, active.decision, Ending::Prefill(outcome));
        // A full engine has not failed, and takes no attempt either.
        let is_full = matches!(outcome, Outcome::Full | Outcome::NoRoom);
        active.prefills_failed += u32::from(!is_full);
        // A replica that answers knows best what is wrong with a request, and its engine is another.
        let goes_whole = matches!(outcome, Outcome::ClientError | Outcome::NoKv);
        active.stays_whole |=
            goes_whole || outcome == Outcome::Died || active.prefills_failed >= MOST_FAILED;
        match goes_whole {
            true => self.route(now, active),
            false => self.again(now, active, from, outcome),
        }
        self.release(now);
    }

    /// Takes a request back from the replica that was to answer it. If that was offered KV, the
    /// request is not split again.
    fn take_back(&mut self, now: Time, active: &mut Active, to: ReplicaId) {
        active.stays_whole |= self.settle_fetch(now, active, to).is_some();
        self.leave_replica(now, active, to);
        self.share_ended(active, Outcome::NotServed, None);
        self.fleet.update(now, to, |r| r.ended_neutral(active.request.model));
        self.forget(active, to, active.matched);
        self.shadow_forget(active, to, false);
    }

    /// Applies the end of an answer to its prefill leg, whose end the driver did not report: it began
    /// together with the answer.
    pub(super) fn settle_prefill(&mut self, now: Time, active: &Active, outcome: Outcome) {
        match (active.fetch, outcome) {
            (_, Outcome::Done) => self.prefill_succeeded(now, active),
            (Some(fetch), _) => {
                self.fleet.update(now, fetch.from, |r| r.ended_neutral(active.request.model));
            }
            (None, _) => {}
        }
    }

    /// Handles the end of an attempt before its KV arrived; true if the replica that answers is not
    /// to blame. The KV is not used again: a second transfer may read blocks that were released.
    pub(super) fn transfer_failed(
        &mut self,
        now: Time,
        active: &mut Active,
        fetch: Fetch,
        to: ReplicaId,
        outcome: Outcome,
    ) -> bool {
        match outcome {
            Outcome::EngineError => {
                self.fleet.links_mut().failed(now, fetch.from, to);
                active.stays_whole = true;
                true
            }
            Outcome::Died | Outcome::ReplicaError => {
                active.stays_whole = true;
                false
            }
            _ => false,
        }
    }

    /// Takes a request from both of its replicas before its prefill ended.
    pub(super) fn withdraw(&mut self, now: Time, active: &mut Box<Active>, to: ReplicaId) {
        self.leave_prefill(now, active);
        self.share_ended(active, Outcome::NotServed, None);
        let Some(fetch) = active.fetch.take() else { return };
        assert_ne!(fetch.from, to, "a pair has two replicas");
        active.stage = RequestStage::Nowhere;
        self.say_ended(active, to);
        let (id, model) = (active.request.id, active.request.model);
        self.fleet.update(now, to, |r| {
            r.legs.came(fetch.tokens);
            r.ended_neutral(model);
            r.promised = r.promised.filter(|promise| promise.to != id);
        });
        self.forget(active, fetch.from, fetch.matched);
        self.shadow_forget(active, fetch.from, true);
        self.forget(active, to, active.matched);
        self.shadow_forget(active, to, false);
    }

    /// Takes the requests with a leg at a replica that leaves from the counts of the other one. The
    /// driver ends them. If only the prefill replica leaves, a request may already be at the other
    /// one, or get there yet: it counts there until then.
    pub(super) fn legs_left(&mut self, now: Time, id: ReplicaId) {
        for request in self.actives.with_legs_at(id) {
            let Some(mut active) = self.actives.take(request) else { continue };
            match active.stage {
                RequestStage::Prefilling(to) if to != id => {
                    self.hand_over(now, &mut active, to);
                    self.end_fetch(now, &mut active, to);
                }
                RequestStage::Prefilling(to) => {
                    let from = active.fetch.map(|fetch| fetch.from);
                    self.withdraw(now, &mut active, to);
                    if let Some(from) = from {
                        self.fleet.update(now, from, |r| r.ended_neutral(active.request.model));
                    }
                    active.stage = RequestStage::Orphan;
                }
                RequestStage::At(to) => {
                    self.end_fetch(now, &mut active, to);
                }
                _ => {}
            }
            self.actives.insert(active);
        }
    }
}
