//! SkyWalker-CH: the session's place on the ring, among replicas with nothing pending.
//!
//! SkyWalker section 3.2 and Listing 1, lines 23-26: a ring hash on the user's key whose virtual
//! nodes are skipped while their replica has requests pending. Peers have a separate ring, walked
//! when no replica here is available; it skips peers without free capacity. The ring is Envoy's
//! (SkyWalker's deployment): at least 1,024 virtual nodes in all, shared by weight, so a small
//! fleet has many per replica.
//!
//! A key may map to a set of replicas, the next ones on the ring (section 3.2, "Bursty Request"): then
//! a burst of one user spreads over them, and shares fewer prefixes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::{PeerId, ReplicaId, Rng};
use meridian_routing::policy::{Forward, Param, Pick, Policy, PolicyEvent, Spec, View, choose};
use meridian_routing::{Admission, Ring, Why};

pub(crate) static SPEC: Spec = Spec {
    name: "skywalker_ch",
    summary: "the affinity key's place on a ring, skipping replicas with requests pending",
    source: "SkyWalker section 3.2, Listing 1 lines 23-26; ring of Envoy",
    params: &[
        Param::number(
            "ring_size",
            1024.0,
            (1.0, 8_388_608.0),
            "fewest virtual nodes on the whole ring",
        ),
        Param::number(
            "replica_set",
            1.0,
            (1.0, 64.0),
            "replicas that a key maps to; the one with the fewest requests takes the next",
        ),
    ],
    admission: Admission::Pending,
    index: |_| None,
    head_bytes: |_| 0,
    build: |p| {
        let (ring_size, set) = (p.count("ring_size"), p.count("replica_set"));
        Box::new(SkywalkerCh { ring_size, set, ring: Ring::default(), peers: Ring::default() })
    },
};

struct SkywalkerCh {
    ring_size: u32,
    set: u32,
    ring: Ring,
    /// The peers' ring, by their names.
    peers: Ring,
}

impl Policy for SkywalkerCh {
    fn pick(&self, view: &View<'_>, _draw: &mut Rng) -> Pick {
        let (replica, why) = choose::of_set(&self.ring, view.request.key, view, self.set);
        Pick::unscored(replica, why)
    }

    fn forward(&self, view: &View<'_>, _local: Option<&Pick>, _draw: &mut Rng) -> Option<Forward> {
        let mut walk = self.peers.walk(view.request.key).enumerate();
        let available = |r: &(usize, ReplicaId)| view.available.contains(&PeerId(r.1.0));
        let (skipped, member) = walk.find(available)?;
        Some(Forward::unscored(PeerId(member.0), Why::Ring { skipped: skipped as u32 }))
    }

    fn update(&mut self, event: PolicyEvent<'_>) {
        match event {
            PolicyEvent::Replicas(replicas) => {
                let members = choose::members(replicas);
                let weight: u32 = members.iter().fold(0, |sum, m| m.1.saturating_add(sum));
                self.ring = Ring::new(&members, self.ring_size.div_ceil(weight.max(1)));
            }
            PolicyEvent::Peers(peers) => {
                let named =
                    |id: &PeerId| peers.row(*id).map(|row| (ReplicaId(id.0), row.name_hash, 1));
                let members: Vec<_> = peers.ids().iter().filter_map(named).collect();
                let each = self.ring_size.div_ceil(members.len().max(1) as u32);
                self.peers = Ring::named(members.into_iter(), each);
            }
            _ => {}
        }
    }
}
