//! The first token of an answer: its prompt is computed, and the time until then is learned from.

use meridian_base::{RequestId, Time};

use super::Routing;
use super::shadow::both;
use crate::active::RequestStage;
use crate::kind::PromptTime;
use crate::policy::PolicyEvent;

impl Routing {
    pub(super) fn first_token(&mut self, now: Time, id: RequestId) {
        let Some(active) = self.actives.get_mut(id) else { return };
        if active.request.streams {
            self.log.first_token(now, active.decision);
        }
        // Another replica succeeded where the suspect failed.
        let suspect = active.suspect.take();
        let stage = active.stage;
        if let RequestStage::Away(_) = stage {
            active.first_token = true;
        }
        let model = active.request.model;
        if let Some(suspect) = suspect {
            active.blamed = true;
            self.blame(now, suspect, model);
        }
        match stage {
            RequestStage::Away(peer) => return self.regions.prefilled(peer, id),
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
        self.traffic.began(now, ttft_ms);
        let (unmatched, in_front) = (active.unmatched, active.in_front);
        let overdue = core::mem::take(&mut active.overdue);
        let prompt = in_front.map(|front| {
            let rtt = self.fleet.get(replica).map_or(0.0, |r| r.spec.rtt.as_secs_f64() * 1e3);
            PromptTime {
                ttft_ms: (ttft_ms - rtt).max(0.0),
                tokens: unmatched.into(),
                in_front: front.into(),
            }
        });
        if let Some(prompt) = prompt {
            self.fleet.learn(now, replica, |kind, own| kind.prompt(own, prompt));
        }
        self.share_first_token(id, prompt);
        let began = self.fleet.update(now, replica, |r| {
            r.first_token(id, unmatched);
            r.not_overdue(overdue);
            r.prefilled(now, unmatched);
            r.steps.mark(now)
        });
        let Some(began) = began else { return };
        if let Some(active) = self.actives.get_mut(id) {
            active.began = active.request.streams.then_some(began);
        }
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.report(PolicyEvent::FirstToken { replica, ttft_ms });
        }
        self.fetched(now, id);
        self.queue.prompt_computed();
        self.release(now);
    }
}
