//! Hot reload: changes the policy or its weights, and all other settings, while requests are in
//! progress.
//!
//! The machine's own state stays: replicas, load, held requests, and the prefix index if the new
//! policy requires the same one. A different index starts empty. The policy's own state, such as a
//! counter or a ring, starts with the requests that are at replicas, which are reported to the new
//! policy as if it had dispatched them. Earlier requests were fingerprinted for the old policy. If
//! the block size differs they match nothing, which costs them one prefill.
//!
//! Of the other settings, bounds apply to the next request: none that is held already is refused
//! because the queue has become shorter. Probes follow their new pace, spread over its first interval.

use alloc::vec::Vec;
use meridian_base::{ReplicaId, Time};

use super::rule::PolicyState;
use super::shadow::both;
use super::{Config, Routing};
use crate::active::{Actives, RequestStage};
use crate::admission::Admission;
use crate::policy::{Dispatched, Params, Spec};
use crate::replicas::Replicas;

impl Routing {
    pub(super) fn configured(
        &mut self,
        now: Time,
        policy: &'static Spec,
        params: Params,
        admission: Admission,
    ) {
        let followed = self.rule.policy.forwarding().follows_replicas();
        (self.config.policy, self.config.params) = (policy, params);
        self.config.admission = admission;
        let next = PolicyState::new((policy, &self.config.params), admission, self.bounds());
        let mut before = core::mem::replace(&mut self.rule, next);
        let is_same = self.rule.inherit(&mut before);
        if !is_same || followed != self.rule.policy.forwarding().follows_replicas() {
            self.snapshot = None;
            if !self.peers.is_empty() {
                self.build_snapshot();
            }
        }
        self.actives.forget_matches();
        self.replicas.admit_by(admission);
        let ids: Vec<ReplicaId> = self.replicas.ids().to_vec();
        for id in ids {
            self.set_cap(id);
            self.replicas.update(now, id, |_| ());
        }
        self.replicas_changed();
        self.peers_changed();
        self.rule.replay(&self.actives, &self.replicas);
        // It is compared with another policy now.
        self.shadow_by(self.config.shadow.clone());
        self.release(now);
    }

    /// Adopts all settings but the policy, its parameters and its admission mode.
    pub(super) fn tuned(&mut self, now: Time, config: Config) {
        let Config { policy, params, admission, shadow, probe, .. } =
            core::mem::replace(&mut self.config, config);
        (self.config.policy, self.config.params) = (policy, params);
        (self.config.admission, self.config.shadow) = (admission, shadow);
        let Config { held, breaker, explain_keep, max_replicas, .. } = self.config;
        self.held.configured(held);
        self.journal.configured(explain_keep);
        for index in both(&mut self.rule, &mut self.shadow).filter_map(|rule| rule.index.as_mut()) {
            index.allow_targets(usize::from(max_replicas));
        }
        let is_paced = (probe.busy, probe.idle) == (self.config.probe.busy, self.config.probe.idle);
        let ids: Vec<ReplicaId> = self.replicas.ids().to_vec();
        for id in ids {
            self.replicas.update(now, id, |r| r.breaker.configured(breaker));
            if !is_paced {
                self.pace_probes(now, id);
            }
        }
        self.peers_changed();
        self.release(now);
    }
}

impl PolicyState {
    /// Reports the requests at replicas to a new policy, in the order of their dispatch. Their ends
    /// are reported too, so the policy may count them.
    pub(super) fn replay(&mut self, actives: &Actives, replicas: &Replicas) {
        for active in actives.dispatched() {
            let mut say = |replica, unmatched| {
                let prefill_ms = unmatched * replicas.row(replica).ms_per_token;
                let sent = Dispatched { request: &active.request, replica, prefill_ms };
                self.policy.on_dispatched(active.dispatched, sent);
            };
            match (active.stage, active.fetch) {
                (RequestStage::Prefilling(to), Some(fetch)) => {
                    say(fetch.from, fetch.unmatched);
                    say(to, 0.0);
                }
                (RequestStage::At(replica), _) => say(replica, active.unmatched),
                _ => {}
            }
        }
    }
}
