//! The second layer: whether to forward a request to a peer, and to which one.
//!
//! SkyWalker section 3.1: the first layer chooses among the region's own replicas, the second among
//! other regions' gateways, and the peer makes the final choice among its replicas. A request is
//! forwarded at most once; one that came from a peer stays. This file determines which peers may
//! receive it (permitted by the request, not tried, heard from recently). The policy chooses among
//! them, or the topology if it overrides the policies.

use alloc::boxed::Box;
use meridian_base::{Duration, PeerId, ReplicaId, Time};

use super::scratch::Beyond;
use super::{Choice, Scratch, Sending, Tables};
use crate::active::Active;
use crate::peer::Peer;
use crate::policy::{Forward, Pick};
use crate::recall::Recall;
use crate::topology::Topology;
use crate::why::{Ineligible, Unavailable, Why};

/// Time until a request with residency rules may go again to a peer that failed or refused it.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl Tables<'_> {
    /// Considers forwarding after the first layer decided `local`.
    #[inline(never)]
    pub(super) fn look_beyond(
        &self,
        now: Time,
        active: &Active,
        scratch: &mut Scratch,
        local: Result<Pick, Choice>,
    ) -> Choice {
        let stay = Choice::of(local);
        let request = &active.request;
        if request.hops > 0 || request.pinned.is_some() {
            return stay;
        }
        let anyone = self.survey(now, active, scratch);
        let must_leave = !self.takes_here(active);
        let forward = match self.regions.topology() {
            _ if scratch.beyond.reachable.is_empty() => None,
            Topology::Local => None,
            Topology::TwoLayer => self.ask_beyond(now, active, scratch, local.as_ref().ok()),
            Topology::Waterfall { .. } | Topology::Continent { .. } if must_leave => {
                self.leave(active, &mut scratch.beyond)
            }
            Topology::Waterfall { above } | Topology::Continent { above } => {
                self.overflow(active, &mut scratch.beyond, above)
            }
        };
        match (forward, stay) {
            (Some(forward), _) => Choice::Send(Sending::Peer(forward)),
            // No replica here will ever serve it, but a peer's may: worth a bounded wait.
            (None, Choice::Refuse(_)) if anyone => Choice::Hold,
            (None, stay) => stay,
        }
    }

    /// The peers that may accept anything now, one bit each.
    pub(crate) fn open_beyond(&self, now: Time) -> u64 {
        if self.regions.topology() != Topology::TwoLayer {
            // These compare the whole region, whether a request fits here or not.
            return u64::MAX;
        }
        let peering = self.regions.peering();
        let takes = |id: &PeerId| {
            let peer = self.regions.get(*id)?;
            let has_room = peer.has_room(self.queue.waiting(), peering);
            (peer.is_fresh(now, peering)
                && self.rule.forwarding().may_forward(peer.row(), has_room))
            .then_some(1_u64 << id.0)
        };
        self.regions.ids().iter().filter_map(takes).fold(0, |mask, bit| mask | bit)
    }

    /// Lists the peers that may receive the request; true if any may, with or without free
    /// capacity.
    fn survey(&self, now: Time, active: &Active, scratch: &mut Scratch) -> bool {
        let beyond = &mut scratch.beyond;
        let near_only = matches!(self.regions.topology(), Topology::Continent { .. });
        let mut anyone = false;
        for id in self.regions.ids().iter().copied() {
            let Some(peer) = self.regions.get(id) else { continue };
            if near_only && !peer.row().near {
                continue;
            }
            match self.peer_standing(now, active, id, peer) {
                None => beyond.available.push(id),
                Some(Unavailable::Full) => {}
                Some(Unavailable::Silent | Unavailable::Shut) => {
                    anyone = true;
                    continue;
                }
                Some(Unavailable::Forbidden | Unavailable::Tried) => continue,
            }
            anyone = true;
            beyond.reachable.push(id);
        }
        anyone
    }

    /// Whether a replica here, full or not, may serve this request; true for requests without
    /// rules, which leave only by the topology's bound.
    fn takes_here(&self, active: &Active) -> bool {
        let places = active.permitted.places;
        let takes = |id: &ReplicaId| {
            let is_open = matches!(self.fleet.row(*id).closed, None | Some(Ineligible::Full));
            is_open && !self.fleet.is_forbidden(places, *id)
        };
        let serve = self.fleet.serving(active.request.model);
        places == u64::MAX || serve.is_some_and(|ids| ids.iter().any(takes))
    }

    /// Why a peer may not receive this request now; `None` if it may and has free capacity.
    pub(super) fn peer_standing(
        &self,
        now: Time,
        active: &Active,
        id: PeerId,
        peer: &Peer,
    ) -> Option<Unavailable> {
        let bit = 1_u64 << id.0;
        let peering = self.regions.peering();
        if active.peers() & bit == 0 || active.request.hops > 0 {
            Some(Unavailable::Forbidden)
        } else if active.tried_peers & bit != 0 && !may_try_again(active, peer) {
            Some(Unavailable::Tried)
        } else if peer.shut {
            Some(Unavailable::Shut)
        } else if !peer.is_fresh(now, peering) {
            Some(Unavailable::Silent)
        } else if !peer.has_room(self.queue_len(), peering) {
            Some(Unavailable::Full)
        } else {
            None
        }
    }

    /// Matches the prompt against prompts sent to the peers.
    pub(super) fn match_beyond(
        &self,
        active: &Active,
        beyond: &mut Beyond,
        recall: &mut Option<Box<Recall>>,
    ) {
        let blocks = &active.request.blocks;
        let Some(snapshot) = self.regions.snapshot() else {
            beyond.matched.resize(crate::peer::MOST, 0);
            beyond.matched.fill(0);
            return;
        };
        beyond.matched.resize(snapshot.width(), 0);
        match recall {
            Some(recall) => {
                snapshot.matches_again(blocks, &mut beyond.matched, &mut recall.beyond);
            }
            None => snapshot.matches(blocks, &mut beyond.matched),
        }
    }

    /// The waterfall topology: no peer while the region is below the bound, then the nearest peer
    /// below it.
    fn overflow(&self, active: &Active, beyond: &mut Beyond, above: f32) -> Option<Forward> {
        let own = self.fleet.mean_utilisation();
        if own <= above {
            return None;
        }
        let below = |id: &PeerId| {
            let row = self.regions.row(*id)?;
            (row.usable > 0 && row.utilisation <= above).then_some((row.rtt_ms, *id))
        };
        let nearest = beyond.reachable.iter().filter_map(below).min_by(|a, b| a.0.total_cmp(&b.0));
        let (_, id) = nearest?;
        self.match_beyond(active, beyond, &mut None);
        Some(Forward::unbounded(id, Why::Overflow { utilisation: own }))
    }

    /// With the waterfall topology, forwards to the nearest peer if the rules forbid the region's
    /// own replicas.
    fn leave(&self, active: &Active, beyond: &mut Beyond) -> Option<Forward> {
        let place = |id: &PeerId| {
            let row = self.regions.row(*id)?;
            (row.usable > 0).then_some((row.rtt_ms, *id))
        };
        let nearest = beyond.reachable.iter().filter_map(place).min_by(|a, b| a.0.total_cmp(&b.0));
        let (_, id) = nearest?;
        self.match_beyond(active, beyond, &mut None);
        Some(Forward::unbounded(id, Why::Residency))
    }
}

/// Whether a request may be retried on a peer that failed or refused it. If its rules leave few
/// peers, the request waits for the same peer instead of failing. It waits for a digest that came a
/// while after the failure, so that a peer that refuses at once is not asked with each digest.
fn may_try_again(active: &Active, peer: &Peer) -> bool {
    let heard = peer.heard().map(|(_, at)| at);
    active.is_restricted() && heard.is_some_and(|at| at >= active.tried_at + TRY_AGAIN)
}
