//! The invariants of the fleet table.

use meridian_base::ReplicaId;

use super::OwnReplicas;

impl OwnReplicas {
    /// Checks the invariants between events. `legs_at` counts the requests that will come to a
    /// replica after their prefill, that fetch their KV there, and whose KV it holds.
    ///
    /// # Panics
    ///
    /// When one does not hold.
    pub(crate) fn check_invariants(&self, legs_at: impl Fn(ReplicaId) -> (u32, u32, u32)) {
        self.replicas.check();
        self.probes.check(self.ids());
        for ids in self.serves.values().chain(self.prefills.values()) {
            assert!(ids.is_sorted(), "the replicas of a model ascend");
            assert!(ids.iter().all(|id| self.get(*id).is_some()), "a listed replica is here");
        }
        for id in self.ids().iter().copied() {
            let Some(replica) = self.get(id) else { continue };
            replica.check(id);
            let (coming, fetching, held) = legs_at(id);
            let legs = replica.legs;
            let counted = (legs.coming, legs.fetching);
            assert_eq!(counted, (coming, fetching), "coming to {id}, fetching");
            assert_eq!(legs.held, held, "prompts held at {id}");
            if coming == 0 {
                assert_eq!(legs.coming_tokens, 0.0, "nothing comes to {id}");
            }
            if fetching + held == 0 {
                assert_eq!(legs.moving_tokens, 0.0, "nothing moves at {id}");
            }
        }
    }
}
