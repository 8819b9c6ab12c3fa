//! The first token of an answer: its prompt is computed, and the time until then is learned from.

use meridian_base::{RequestId, Time};

use super::Routing;
use super::shadow::both;
use crate::active::RequestStage;
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
        let mean = self.fleet.replicas().columns().mean_ms_per_token();
        let learned = self.fleet.update(now, replica, |r| {
            let knew = r.speed.is_learned();
            r.first_token(id, unmatched);
            r.not_overdue(overdue);
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
            self.fleet.share_speed(now, replica);
        }
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.report(PolicyEvent::FirstToken { replica, ttft_ms });
        }
        self.fetched(now, id);
        self.release(now);
    }
}
