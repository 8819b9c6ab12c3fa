//! Siblings: gateways of the same region, which send requests to the same replicas.
//!
//! Each reports its dispatches, first tokens and ends to the others, so that all know the same about
//! replicas' caches, queues and speeds. A sibling's report is a hint: what a replica itself reports or
//! answers corrects it.

use alloc::vec::Vec;
use meridian_base::{
    Branch, PromptTiming, ReplicaId, RequestId, SiblingEnding, SiblingId, SiblingRecord,
    SiblingRequest, Time,
};

use super::Routing;
use super::shadow::both;
use crate::active::{Active, RequestStage};
use crate::kind::PromptTime;
use crate::output::Output;
use crate::replica::{State, Work};
use crate::request::Outcome;
use crate::reuse::Used;
use crate::siblings::Theirs;

/// Reports to siblings.
impl Routing {
    /// Everything about the requests at replicas and in the queue, for a sibling that knows nothing of them.
    #[must_use]
    pub fn at_replicas(&self, now: Time) -> Vec<SiblingRecord> {
        let mut all = Vec::new();
        for active in self.actives.dispatched() {
            let (replica, unmatched) = match (active.stage, active.fetch) {
                (RequestStage::Prefilling(_), Some(fetch)) => (fetch.from, fetch.unmatched),
                (RequestStage::At(replica), _) => (replica, active.unmatched),
                _ => continue,
            };
            all.push(SiblingRecord::Sent(sent(active, replica, unmatched, false)));
            if active.first_token {
                let id = active.request.id;
                all.push(SiblingRecord::FirstToken { id, prompt: None });
            }
        }
        all.push(SiblingRecord::Queue(self.queue.shared_lines(now)));
        all
    }

    /// Reports what waits for capacity, if that has changed.
    pub(super) fn share_queue(&mut self, now: Time) {
        if !self.config.has_siblings {
            return;
        }
        if let Some(lines) = self.queue.share(now) {
            self.log.say(Output::Share(SiblingRecord::Queue(lines)));
        }
    }

    /// Reports that a request was sent to a replica.
    pub(super) fn share_sent(&mut self, active: &Active, replica: ReplicaId, unmatched: f32) {
        if self.config.has_siblings {
            // The second leg of a split request is the same prompt again.
            let counts = active.fetch.is_none_or(|fetch| fetch.ended.is_none());
            let sent = sent(active, replica, unmatched, counts);
            self.log.say(Output::Share(SiblingRecord::Sent(sent)));
        }
    }

    /// Reports that a prompt is computed.
    pub(super) fn share_first_token(&mut self, id: RequestId, prompt: Option<PromptTime>) {
        if self.config.has_siblings {
            let prompt = prompt.map(|prompt| PromptTiming {
                ttft_ms: prompt.ttft_ms as f32,
                tokens: prompt.tokens as f32,
                in_front: prompt.in_front as f32,
            });
            self.log.say(Output::Share(SiblingRecord::FirstToken { id, prompt }));
        }
    }

    /// Reports that a request left its replica, which may have more blocks now.
    pub(super) fn share_ended(
        &mut self,
        active: &Active,
        outcome: Outcome,
        extended: Option<&[u64]>,
    ) {
        if !self.config.has_siblings {
            return;
        }
        let ending = match outcome {
            Outcome::Done => SiblingEnding::Answered,
            Outcome::ReplicaError | Outcome::Died | Outcome::Unreached => SiblingEnding::Failed,
            _ => SiblingEnding::Neutral,
        };
        let id = active.request.id;
        let cached = extended.map(|all| difference(&active.request.blocks, all));
        self.log.say(Output::Share(SiblingRecord::Ended { id, ending, cached }));
    }
}

/// Reports from siblings.
impl Routing {
    /// Capacity is given away only after all events: some of it may have been taken meanwhile.
    pub(super) fn sibling_tells(&mut self, now: Time, from: SiblingId, all: Vec<SiblingRecord>) {
        for record in all {
            self.sibling_event(now, from, record);
        }
        self.release(now);
    }

    fn sibling_event(&mut self, now: Time, from: SiblingId, record: SiblingRecord) {
        match record {
            SiblingRecord::Sent(request) => self.sibling_sent(now, from, request),
            SiblingRecord::FirstToken { id, prompt } => {
                self.sibling_first_token(now, from, id, prompt);
            }
            SiblingRecord::Ended { id, ending, cached } => {
                if let Some(theirs) = self.siblings.take(from, id) {
                    self.sibling_ended(now, &theirs, ending, cached);
                }
            }
            SiblingRecord::Queue(lines) => self.queue.set_elsewhere(now, from, &lines),
        }
    }

    /// The requests of a sibling that is gone no longer count, and nothing is known of how they ended.
    pub(super) fn sibling_lost(&mut self, now: Time, from: SiblingId) {
        for theirs in self.siblings.take_all(from) {
            self.leave_as_sibling(now, &theirs);
        }
        self.queue.sibling_lost(from);
        self.release(now);
    }

    fn sibling_sent(&mut self, now: Time, from: SiblingId, request: SiblingRequest) {
        // Reported twice, or sent again elsewhere although its end is lost.
        if let Some(before) = self.siblings.take(from, request.id) {
            self.leave_as_sibling(now, &before);
        }
        let SiblingRequest {
            id, replica, prompt_tokens: prompt, unmatched_tokens: prefill, ..
        } = request;
        if self.siblings.is_full()
            || self.fleet.get(replica).is_none()
            || ![prompt, prefill].into_iter().all(is_count)
        {
            return;
        }
        let reply = if is_count(request.reply_tokens) { request.reply_tokens } else { 0.0 };
        let request = SiblingRequest { reply_tokens: reply, ..request };
        let work = Work { prompt, prefill, kv: prefill, reply, sent: now };
        if request.counts {
            self.queue.served_elsewhere(now, &request);
        }
        self.fleet.update(now, replica, |r| r.sent_by_sibling(now, work));
        self.siblings.insert(from, Theirs { request, sent: now, first_token: false });
        self.sibling_caches(now, from, id);
    }

    /// A replica caches the prompt of a sibling's request. One that is silent here may have failed, and
    /// returns with an empty cache.
    fn sibling_caches(&mut self, now: Time, from: SiblingId, id: RequestId) {
        let Some(Theirs { request, .. }) = self.siblings.get_mut(from, id) else { return };
        let SiblingRequest { replica, prompt_tokens: prompt, block_tokens, .. } = *request;
        if self.fleet.get(replica).is_none_or(|r| r.state == State::Down) {
            return;
        }
        let matched = (prompt - request.unmatched_tokens).max(0.0);
        let all = prompt + request.reply_tokens;
        let mut rules = both(&mut self.rule, &mut self.shadow);
        let idle_ms = rules.next().and_then(|rule| rule.sent(replica, &request.blocks));
        rules.for_each(|shadow| _ = shadow.sent(replica, &request.blocks));
        if let Some(idle_ms) = idle_ms {
            let used = Used { token_seconds: idle_ms * block_tokens / 1e3, matched, all };
            self.fleet.update(now, replica, |r| r.used_cache(now, used));
        }
    }

    fn sibling_first_token(
        &mut self,
        now: Time,
        from: SiblingId,
        id: RequestId,
        prompt: Option<PromptTiming>,
    ) {
        let Some(theirs) = self.siblings.get_mut(from, id) else { return };
        if core::mem::replace(&mut theirs.first_token, true) {
            return;
        }
        let SiblingRequest { replica, unmatched_tokens: unmatched, .. } = theirs.request;
        self.fleet.update(now, replica, |r| {
            r.sibling_prompt_computed(unmatched);
            r.prefilled(now, unmatched);
        });
        let known = |p: &PromptTiming| [p.ttft_ms, p.tokens, p.in_front].into_iter().all(is_count);
        if let Some(PromptTiming { ttft_ms, tokens, in_front }) = prompt.filter(known) {
            let prompt = PromptTime {
                ttft_ms: ttft_ms.into(),
                tokens: tokens.into(),
                in_front: in_front.into(),
            };
            self.fleet.learn(now, replica, |kind, own| kind.prompt(own, prompt));
        }
    }

    fn sibling_ended(
        &mut self,
        now: Time,
        theirs: &Theirs,
        ending: SiblingEnding,
        cached: Option<Branch>,
    ) {
        let SiblingRequest { replica, blocks, block_tokens, .. } = &theirs.request;
        let replica = *replica;
        let others = self.fleet.has_others(replica);
        self.leave_as_sibling(now, theirs);
        self.fleet.update(now, replica, |r| match ending {
            SiblingEnding::Answered => r.breaker.success(now, theirs.sent),
            SiblingEnding::Failed if r.state != State::Down => {
                r.breaker.failure(now, theirs.sent, others);
            }
            _ => {}
        });
        // A replica that went silent returns with an empty cache.
        if self.fleet.get(replica).is_none_or(|r| r.state == State::Down) {
            return;
        }
        match ending {
            SiblingEnding::Answered => {
                let all = cached.map_or_else(|| blocks.clone(), |branch| joined(blocks, branch));
                both(&mut self.rule, &mut self.shadow).for_each(|r| r.answered(replica, &all));
            }
            _ if theirs.first_token => {}
            _ => {
                let SiblingRequest { prompt_tokens, unmatched_tokens, .. } = theirs.request;
                let keep = ((prompt_tokens - unmatched_tokens) / block_tokens.max(1e-3)) as u32;
                both(&mut self.rule, &mut self.shadow)
                    .for_each(|r| r.forget(replica, blocks, keep));
            }
        }
    }

    /// Removes a sibling's request from its replica's counts.
    fn leave_as_sibling(&mut self, now: Time, theirs: &Theirs) {
        let SiblingRequest { replica, prompt_tokens, unmatched_tokens, reply_tokens, .. } =
            theirs.request;
        self.fleet.update(now, replica, |r| {
            if !theirs.first_token {
                r.sibling_prompt_computed(unmatched_tokens);
            }
            r.sibling_ended(now, prompt_tokens, reply_tokens);
        });
    }
}

fn sent(
    active: &Active,
    replica: ReplicaId,
    unmatched_tokens: f32,
    counts: bool,
) -> SiblingRequest {
    let request = &active.request;
    SiblingRequest {
        id: request.id,
        replica,
        tenant: request.tenant,
        session: request.session,
        priority: request.priority,
        counts,
        blocks: request.blocks.clone(),
        block_tokens: request.block_tokens,
        prompt_tokens: request.prompt_tokens as f32,
        unmatched_tokens,
        reply_tokens: active.reply,
    }
}

/// The chain `all` as its difference from `blocks`.
fn difference(blocks: &[u64], all: &[u64]) -> Branch {
    let keep = blocks.iter().zip(all).take_while(|(a, b)| a == b).count();
    Branch { keep: keep as u32, blocks: all[keep..].to_vec() }
}

/// The chain of which `branch` is the difference from `blocks`.
fn joined(blocks: &[u64], branch: Branch) -> Vec<u64> {
    let keep = blocks.len().min(branch.keep as usize);
    let mut all = blocks[..keep].to_vec();
    all.extend(branch.blocks);
    all
}

/// Whether a number from another gateway can be a count or a time.
fn is_count(n: f32) -> bool {
    n.is_finite() && (0.0..1e9).contains(&n)
}
