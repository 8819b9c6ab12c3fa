//! Peers join, send digests, ask for work, and leave.

use alloc::vec::Vec;
use meridian_base::{Digest, Duration, PeerId, Time};

use super::shadow::both;
use super::{Output, Routing};
use crate::index::IndexSpec;
use crate::policy::Forward;
use crate::snapshot::Snapshot;
use crate::topology::{PeerSpec, Topology};
use crate::why::Why;

impl Routing {
    pub(super) fn peer_joined(&mut self, now: Time, id: PeerId, spec: PeerSpec) {
        self.peers.join(id, spec);
        if self.snapshot.is_none() {
            self.build_snapshot();
        }
        self.peers_changed();
        self.release(now);
    }

    pub(super) fn peer_left(&mut self, now: Time, id: PeerId) {
        self.peers.leave(id);
        self.places.changed();
        self.actives.orphan_at_peer(id);
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.left(id);
        }
        self.peers_changed();
        self.release(now);
    }

    /// Builds an empty index of prompts sent to peers, if the policy uses one.
    pub(super) fn build_snapshot(&mut self) {
        let spec = (self.config.policy.index)(&self.config.params);
        let follows = self.rule.policy.forwarding().follows_replicas();
        // Peers and their replicas are both targets, so each block is stored twice.
        let most = self.config.index_entries.saturating_mul(2);
        self.snapshot = spec.map(|s| {
            let total_blocks = s.total_blocks.min(most);
            Snapshot::new(IndexSpec { total_blocks, ..s }, follows)
        });
    }

    pub(super) fn peers_changed(&mut self) {
        self.second_layer = !self.peers.is_empty() && self.config.topology != Topology::Local;
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.policy.on_peers_changed(&self.peers);
        }
    }

    pub(super) fn digested(
        &mut self,
        now: Time,
        id: PeerId,
        sent: u64,
        rtt: Option<Duration>,
        digest: &Digest,
    ) {
        if !self.peers.is_news(id, sent) {
            return;
        }
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.index().set_now(now);
            snapshot.index().expire(id.0);
            snapshot.digested(id, digest);
        }
        self.learn_from(now, digest);
        let snapshot = self.snapshot.as_ref();
        let slot = |replica| snapshot.and_then(|s| s.slot(id, replica));
        let rtt = (rtt, self.config.peering.rtt_gain);
        if self.peers.digested(now, id, sent, rtt, digest, slot) {
            self.places.changed();
        }
        self.release(now);
        self.steal(now);
    }

    /// A region without measurements assumes that its replicas are as fast as a peer's. With the
    /// configured initial value it would look many times faster or slower, and get everything or
    /// nothing.
    fn learn_from(&mut self, now: Time, digest: &Digest) {
        if digest.learned_ms_per_token > 0.0 && self.replicas.learned().is_none() {
            self.replicas.assume_speed(now, digest.learned_ms_per_token.into());
        }
    }

    /// Asks the peers with the nearest long queues for work if this region is idle and its policy
    /// steals: each peer once per digest, and for no more requests than it has replicas with free
    /// capacity.
    fn steal(&mut self, now: Time) {
        let Some(above) = self.rule.policy.forwarding().steals_above() else { return };
        if self.held.len() > 0 || !self.may_steal() {
            return;
        }
        let rooms = self.replicas.rooms();
        let mut room = self.replicas.ids().iter().filter(|r| rooms[r.index()] > 0.0).count() as u32;
        let mut queues: Vec<(f32, PeerId, u32)> = Vec::new();
        for id in self.peers.ids().iter().copied() {
            let Some(peer) = self.peers.get(id) else { continue };
            if peer.row().held > above && !peer.asked && peer.is_fresh(now, &self.config.peering) {
                queues.push((peer.row().rtt_ms, id, peer.row().held - above));
            }
        }
        queues.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, from, more) in queues {
            let count = more.min(room);
            if count == 0 {
                return;
            }
            room -= count;
            if let Some(peer) = self.peers.get_mut(from) {
                peer.asked = true;
            }
            self.outputs.push_back(Output::Steal { from, count });
        }
    }

    /// Whether stealing is allowed: not if the topology has its own rule for forwarding.
    fn may_steal(&self) -> bool {
        self.second_layer && matches!(self.config.topology, Topology::TwoLayer)
    }

    /// Forwards held requests to a peer that asks for them, in serving order.
    pub(super) fn steal_asked(&mut self, now: Time, by: PeerId, count: u32) {
        if !self.may_steal() || self.peers.get(by).is_none() {
            return;
        }
        let mut order = core::mem::take(&mut self.released);
        self.held.fronts(now, &mut order);
        let mut left = count;
        for id in order.iter().copied() {
            if left == 0 {
                break;
            }
            let Some(mut active) = self.actives.take(id) else { continue };
            self.places.refresh(&mut active.permitted, &active.request, &self.peers);
            let (request, bit) = (&active.request, 1_u64 << by.0);
            let may = request.hops == 0
                && request.pinned.is_none()
                && active.peers() & bit != 0
                && active.tried_peers & bit == 0;
            if may {
                self.match_all(&active);
                self.held.release(&active.request);
                self.forward(now, &mut active, Forward::unbounded(by, Why::Stolen));
                left -= 1;
            }
            self.actives.insert(active);
        }
        self.released = order;
        self.release(now);
    }
}
