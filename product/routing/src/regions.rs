//! The regions table: the peers, the prompts that were forwarded to them, the numbers of places, and
//! the settings by which peers are judged.
//!
//! Decisions read it and cannot write it. The peers' replicas that are followed and the snapshot's
//! slots change together, and so do the places of peers and the generation of the masks made from
//! them.
//!
//! Not here: the choice of a peer (`decide/beyond.rs` and the policies).

#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec::Vec;
use meridian_base::residency::{Atlas, Place, Residence};
use meridian_base::{Digest, Duration, PeerId, ReplicaId, RequestId, Time};

use crate::active::Away;
use crate::index::IndexSpec;
use crate::peer::{Peer, PeerRow, Peers, Sent};
use crate::places::{Permitted, Places};
use crate::request::{Outcome, Request};
use crate::snapshot::Snapshot;
use crate::topology::{PeerSpec, Peering, Topology};

#[derive(Debug)]
pub(crate) struct Regions {
    peers: Peers,
    places: Places,
    snapshot: Option<Snapshot>,
    topology: Topology,
    peering: Peering,
}

/// What decisions and reports read.
impl Regions {
    pub(crate) fn new(topology: Topology, peering: Peering) -> Regions {
        Regions {
            peers: Peers::default(),
            places: Places::new(),
            snapshot: None,
            topology,
            peering,
        }
    }

    /// Whether any request may leave the region: there are peers, and a topology that uses them.
    #[inline]
    pub(crate) fn are_open(&self) -> bool {
        !self.peers.is_empty() && self.topology != Topology::Local
    }

    #[inline]
    pub(crate) fn topology(&self) -> Topology {
        self.topology
    }

    pub(crate) fn peering(&self) -> &Peering {
        &self.peering
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    pub(crate) fn ids(&self) -> &[PeerId] {
        self.peers.ids()
    }

    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(id)
    }

    pub(crate) fn row(&self, id: PeerId) -> Option<&PeerRow> {
        self.peers.row(id)
    }

    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The snapshot's target of a peer's replica, if the policy follows replicas.
    pub(crate) fn slot(&self, peer: PeerId, replica: ReplicaId) -> Option<u16> {
        self.snapshot.as_ref()?.slot(peer, replica)
    }

    /// Updates a request's permitted places to the current generation.
    pub(crate) fn refresh(&self, permitted: &mut Permitted, request: &Request) {
        self.places.refresh(permitted, request, &self.peers);
    }

    /// Grows when places or peers change, so that rules permit others.
    pub(crate) fn generation(&self) -> u64 {
        self.places.generation()
    }

    /// The places in a mask of numbers, in order.
    pub(crate) fn places_named(&self, numbers: u64) -> Vec<Arc<Place>> {
        self.places.named(numbers)
    }

    /// Whether rules permit one of these places.
    pub(crate) fn permit_one(&self, residence: &Residence, places: &[Arc<Place>]) -> bool {
        self.places.permit_one(residence, places)
    }

    /// Whether rules permit only some of a peer's replicas.
    pub(crate) fn forbids_some(&self, residence: &Residence, peer: PeerId) -> bool {
        self.places.forbid_one(residence, self.peers.places(peer))
    }
}

/// What the machine's steps change.
impl Regions {
    /// Adopts the settings.
    pub(crate) fn configured(&mut self, topology: Topology, peering: Peering) {
        (self.topology, self.peering) = (topology, peering);
    }

    /// Replaces the known regions.
    pub(crate) fn known(&mut self, atlas: Arc<Atlas>) {
        self.places.known(atlas);
    }

    /// Adds a replica of ours at a place; returns the place's number.
    pub(crate) fn enter_place(&mut self, place: &Arc<Place>) -> u8 {
        self.places.enter(place)
    }

    /// Removes a replica of ours with this number; true if the number is now free.
    pub(crate) fn leave_place(&mut self, number: u8) -> bool {
        self.places.leave(number)
    }

    /// Starts an empty index of prompts sent to peers, if the policy uses one; the peers' replicas
    /// are targets too if it `follows` them.
    pub(crate) fn start_snapshot(&mut self, spec: Option<IndexSpec>, follows: bool) {
        self.snapshot = spec.map(|spec| Snapshot::new(spec, follows));
    }

    /// Drops the index of prompts sent to peers.
    pub(crate) fn drop_snapshot(&mut self) {
        self.snapshot = None;
    }

    pub(crate) fn join(&mut self, id: PeerId, spec: PeerSpec) {
        self.peers.join(id, spec);
    }

    pub(crate) fn leave(&mut self, id: PeerId) {
        self.peers.leave(id);
        self.places.changed();
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.left(id);
        }
    }

    /// Applies a peer's digest, unless it is not newer than the last; false if it is not.
    pub(crate) fn digested(
        &mut self,
        now: Time,
        id: PeerId,
        sent: u64,
        rtt: Option<Duration>,
        digest: &Digest,
    ) -> bool {
        if !self.peers.is_news(id, sent) {
            return false;
        }
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.index().set_now(now);
            snapshot.index().expire(id.0);
            snapshot.digested(id, digest);
        }
        let snapshot = self.snapshot.as_ref();
        let slot = |replica| snapshot.and_then(|s| s.slot(id, replica));
        let rtt = (rtt, self.peering.rtt_gain);
        if self.peers.digested(now, id, sent, rtt, digest, slot) {
            self.places.changed();
        }
        true
    }

    /// Records a forward of these blocks.
    pub(crate) fn sent(
        &mut self,
        now: Time,
        peer: PeerId,
        request: RequestId,
        sent: Sent,
        blocks: &[u64],
    ) {
        self.peers.sent(now, peer, request, sent);
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.index().set_now(now);
            snapshot.sent(peer, sent.meant, blocks);
        }
    }

    /// Records that a peer was asked for held requests.
    pub(crate) fn asked(&mut self, peer: PeerId) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.asked = true;
        }
    }

    /// Records whether a forward exceeded the credit that the policy grants the peer.
    pub(crate) fn check_credit(&mut self, peer: PeerId, overdrawn: bool) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.overdrawn |= overdrawn;
        }
    }

    /// A forward's prefill is over: it is no longer ahead of other requests.
    pub(crate) fn prefilled(&mut self, peer: PeerId, request: RequestId) {
        self.peers.prefilled(peer, request);
    }

    /// A forward ended without an outcome: its client disconnected.
    pub(crate) fn cancelled(&mut self, peer: PeerId, request: RequestId) {
        self.peers.ended(peer, request);
    }

    /// A forward ended. If it was refused `elsewhere` only, at replicas that its rules permit, that
    /// says nothing about other requests.
    pub(crate) fn ended(
        &mut self,
        peer: PeerId,
        request: RequestId,
        outcome: Outcome,
        elsewhere: bool,
    ) {
        self.peers.ended(peer, request);
        let Some(known) = self.peers.get_mut(peer) else { return };
        match outcome {
            Outcome::Done => known.totals.done += 1,
            Outcome::ClientError => {}
            Outcome::Full | Outcome::NoRoom => known.totals.full += 1,
            _ => known.totals.failed += 1,
        }
        // Until its next digest.
        let ends = matches!(outcome, Outcome::Done | Outcome::ClientError | Outcome::Died);
        known.shut |= !ends && !elsewhere;
    }

    /// Updates the index to a peer's contents after a forward of `blocks`: `held` is the chain
    /// cached there if it succeeded.
    pub(crate) fn remember(
        &mut self,
        now: Time,
        peer: PeerId,
        away: Away,
        blocks: &[u64],
        end: Remembered<'_>,
    ) {
        let Some(snapshot) = &mut self.snapshot else { return };
        snapshot.index().set_now(now);
        match end {
            Remembered::Done { served, held } => {
                let served = served.or(away.meant);
                snapshot.answered(peer, served, held);
                if let Some(meant) = away.meant.filter(|m| Some(*m) != served) {
                    snapshot.not_there(peer, meant, blocks, away.at_meant);
                }
            }
            Remembered::Computed => {}
            Remembered::Unknown => {
                snapshot.unsent(peer, blocks, away.there);
                if let Some(meant) = away.meant {
                    snapshot.not_there(peer, meant, blocks, away.at_meant);
                }
            }
        }
    }
}

/// What the end of a forward says about the peer's cache.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remembered<'a> {
    /// It succeeded, at this replica if the peer reported it: this chain is cached there.
    Done { served: Option<ReplicaId>, held: &'a [u64] },
    /// It failed after its first token: its prompt was computed.
    Computed,
    /// Its prompt may never have been computed.
    Unknown,
}

impl Regions {
    /// Checks the invariants between events; `away` counts the requests at each peer.
    ///
    /// # Panics
    ///
    /// When one does not hold.
    pub(crate) fn check_invariants(&self, away: &[u32]) {
        for id in self.peers.ids().iter().copied() {
            let Some(peer) = self.peers.get(id) else { continue };
            peer.check(id);
            assert_eq!(peer.row().outstanding, away[id.index()], "forwards to {id} end once");
        }
    }
}
