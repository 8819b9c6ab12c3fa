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

use super::Routing;
use super::shadow::both;
use crate::admission::Admission;
use crate::config::Config;
use crate::policy::{Params, Spec};
use crate::rule::PolicyState;

impl Routing {
    pub(super) fn configured(
        &mut self,
        now: Time,
        policy: &'static Spec,
        params: Params,
        admission: Admission,
    ) {
        let followed = self.rule.forwarding().follows_replicas;
        (self.config.policy, self.config.params) = (policy, params);
        self.config.admission = admission;
        let next = {
            let (seed, bounds) = (self.rule.seed(), self.bounds());
            PolicyState::new(seed, (policy, &self.config.params), admission, bounds)
        };
        let mut before = core::mem::replace(&mut self.rule, next);
        let is_same = self.rule.inherit(&mut before);
        if !is_same || followed != self.rule.forwarding().follows_replicas {
            match self.regions.ids().is_empty() {
                true => self.regions.drop_snapshot(),
                false => self.start_snapshot(),
            }
        }
        self.actives.forget_matches();
        self.fleet.admit_by(admission);
        let ids: Vec<ReplicaId> = self.fleet.ids().to_vec();
        for id in ids {
            self.set_cap(id);
            self.fleet.update(now, id, |_| ());
        }
        self.replicas_changed(now);
        self.peers_changed();
        self.rule.replay(&self.actives, self.fleet.replicas());
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
        let Config { held, breaker, explain_keep, max_replicas, topology, peering, .. } =
            self.config;
        self.queue.configured(held);
        self.log.configured(explain_keep);
        self.regions.configured(topology, peering);
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.allow_targets(usize::from(max_replicas));
        }
        let is_paced = (probe.busy, probe.idle) == (self.config.probe.busy, self.config.probe.idle);
        let ids: Vec<ReplicaId> = self.fleet.ids().to_vec();
        for id in ids {
            self.fleet.update(now, id, |r| {
                r.breaker.configured(breaker);
                r.of_models.configured(breaker);
            });
            if !is_paced {
                self.pace_probes(now, id);
            }
        }
        self.peers_changed();
        self.sort_queue(now);
        self.release(now);
    }
}
