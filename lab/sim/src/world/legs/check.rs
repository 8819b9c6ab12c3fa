//! Invariants of split attempts.

use meridian_base::RequestId;
use meridian_routing::Role;

use crate::legs::Handoff;
use crate::world::World;

impl World {
    /// Checks that a pair may serve a request together.
    pub(in crate::world) fn check_pair(&mut self, id: RequestId, from: u32, to: u32) {
        let [first, second] = [from, to].map(|at| self.replicas[at as usize].hardware);
        if (first.role, second.role) != (Role::Prefill, Role::Decode) {
            self.violated(format!(
                "{id} was split between replicas {from} and {to}, which are no pair"
            ));
        }
        if first.region != second.region {
            self.violated(format!("the KV of {id} would leave region {}", first.region));
        }
        self.check_place(id, first.region, "split in");
    }

    /// Checks that a replica that only prefills answers no request.
    pub(in crate::world) fn check_answers(&mut self, id: RequestId, replica: u32) {
        if !self.replicas[replica as usize].hardware.role.answers() {
            self.violated(format!("{id} was sent whole to replica {replica}, which only prefills"));
        }
    }

    /// Checks that attempts, engines and fabric agree on the KV under way.
    pub(in crate::world) fn check_legs(&mut self) {
        let count = |of: &dyn Fn(&Handoff) -> bool| {
            self.legs.all().filter(|(_, handoff)| of(handoff)).count()
        };
        let moving = count(&Handoff::is_moving);
        let (flows, mut wrong) = (self.legs.transfers(), Vec::new());
        if moving != flows {
            wrong.push(format!("{moving} attempts fetch KV, in {flows} transfers"));
        }
        for (at, replica) in self.replicas.iter().enumerate() {
            let here = |handoff: &Handoff| handoff.to() == at as u32;
            let waits = |handoff: &Handoff| {
                let crosses = handoff.is_moving() || handoff.has_landed();
                here(handoff) && (handoff.has_asked() || crosses)
            };
            let least = count(&waits) as u32;
            let most = least + count(&|handoff| here(handoff) && handoff.is_fetched()) as u32;
            let deferred = replica.engine.stats().deferred;
            if replica.up && !(least..=most).contains(&deferred) {
                wrong.push(format!(
                    "the engine of replica {at} waits for the KV of {deferred} requests, and {least} \
                     to {most} have asked"
                ));
            }
        }
        wrong.into_iter().for_each(|what| self.violated(what));
    }

    /// Checks that nothing is left once all requests have ended and all leases have run out.
    pub(in crate::world) fn check_left(&mut self) {
        let mut wrong = Vec::new();
        for (at, replica) in self.replicas.iter_mut().enumerate() {
            if !replica.answers() {
                continue;
            }
            let after = replica.hardware.transfer.lease;
            let now = replica.clock(self.now + after);
            replica.engine.handle_timeout(now);
            let stats = replica.engine.stats();
            let left = (stats.outstanding(), stats.held, stats.kv_referenced);
            if left != (0, 0, 0) {
                wrong.push(format!(
                    "replica {at} still has {} requests, {} held prompts and {} blocks of KV in use",
                    left.0, left.1, left.2
                ));
            }
        }
        let replicas = &self.replicas;
        let runs = |at: u32| replicas[at as usize].answers();
        let left = self.legs.all().filter(|(_, h)| runs(h.from()) && runs(h.to())).count();
        if left > 0 {
            wrong.push(format!("{left} split attempts never ended"));
        }
        wrong.into_iter().for_each(|what| self.violated(what));
    }
}
