//! Consistent hashing of the affinity key on a ring of virtual nodes, skipping ineligible replicas.
//!
//! Karger's consistent hashing as the CH baseline of SkyWalker (section 5.1) has it; 160 virtual
//! nodes are the default of vllm-project/router 0.1.17. A session stays on its replica as long as
//! that replica is eligible, and adding a replica moves 1/n of the keys. Load is ignored.

use alloc::boxed::Box;
use meridian_base::Rng;

use super::{Param, Pick, Policy, PolicyEvent, Spec, View, choose};
use crate::admission::Admission;
use crate::ring::Ring;

pub(super) static SPEC: Spec = Spec {
    name: "consistent_hash",
    summary: "the affinity key's place on a hash ring",
    source: "SkyWalker section 5.1, baseline CH; virtual nodes of vllm-project/router 0.1.17",
    params: &[Param::number(
        "virtual_nodes",
        160.0,
        (1.0, 4096.0),
        "virtual nodes of a replica of weight 1",
    )],
    admission: Admission::Blind,
    index: |_| None,
    head_bytes: |_| 0,
    build: |p| {
        Box::new(ConsistentHash { vnodes: p.count("virtual_nodes"), ring: Ring::new(&[], 1) })
    },
};

struct ConsistentHash {
    vnodes: u32,
    ring: Ring,
}

impl Policy for ConsistentHash {
    fn pick(&self, view: &View<'_>, _draw: &mut Rng) -> Pick {
        let (replica, why) = choose::along(&self.ring, view.request.key, view, |_| true);
        Pick::unscored(replica, why)
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        if let PolicyEvent::Replicas(replicas) = event {
            self.ring = Ring::new(&choose::members(replicas), self.vnodes);
        }
    }
}
