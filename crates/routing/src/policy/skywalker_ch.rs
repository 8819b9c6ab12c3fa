//! SkyWalker-CH: the session's place on the ring, among replicas with nothing pending.
//!
//! SkyWalker section 3.2 and Listing 1, lines 23-26: a ring hash on the user's key whose virtual
//! nodes are skipped while their replica has requests pending. Only the layer over replicas is
//! here. The ring is Envoy's (SkyWalker's deployment): at least 1,024 virtual nodes in all,
//! shared by weight, so that few replicas get many each.

use alloc::boxed::Box;
use meridian_base::Rng;

use super::{Param, Pick, Policy, Spec, View, choose};
use crate::admission::Admission;
use crate::replica::Replicas;
use crate::ring::Ring;

pub(super) static SPEC: Spec = Spec {
    name: "skywalker_ch",
    summary: "the affinity key's place on a ring, skipping replicas with requests pending",
    source: "SkyWalker section 3.2, Listing 1 lines 23-26; ring of Envoy",
    params: &[Param::number(
        "ring_size",
        1024.0,
        (1.0, 8_388_608.0),
        "fewest virtual nodes on the whole ring",
    )],
    admission: Admission::Pending,
    index: |_| None,
    head_bytes: |_| 0,
    build: |p| Box::new(SkywalkerCh { ring_size: p.count("ring_size"), ring: Ring::new(&[], 1) }),
};

struct SkywalkerCh {
    ring_size: u32,
    ring: Ring,
}

impl Policy for SkywalkerCh {
    fn pick(&mut self, view: &View<'_>, _rng: &mut Rng) -> Pick {
        let (replica, why) = choose::along(&self.ring, view.request.key, view, |_| true);
        Pick::Replica(replica, why)
    }

    fn replicas_changed(&mut self, replicas: &Replicas) {
        let members = choose::members(replicas);
        let weight: u32 = members.iter().fold(0, |sum, m| m.1.saturating_add(sum));
        self.ring = Ring::new(&members, self.ring_size.div_ceil(weight.max(1)));
    }
}
