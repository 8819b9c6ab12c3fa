//! Peers join, send digests, ask for work, and leave.

use alloc::vec::Vec;
use meridian_base::{Digest, Duration, PeerId, Time};

use super::Routing;
use super::shadow::both;
use crate::decide::{self, Tables};
use crate::index::IndexSpec;
use crate::output::Output;
use crate::policy::{Forward, PolicyEvent};
use crate::topology::{PeerSpec, Topology};
use crate::why::Why;

impl Routing {
    pub(super) fn peer_joined(&mut self, now: Time, id: PeerId, spec: PeerSpec) {
        self.regions.join(id, spec);
        if self.regions.snapshot().is_none() {
            self.start_snapshot();
        }
        self.peers_changed();
        self.sort_queue(now);
        self.release(now);
    }

    pub(super) fn peer_left(&mut self, now: Time, id: PeerId) {
        self.regions.leave(id);
        self.actives.orphan_at_peer(id);
        self.peers_changed();
        self.sort_queue(now);
        self.release(now);
    }

    /// Starts an empty index of prompts sent to peers, if the policy uses one.
    pub(super) fn start_snapshot(&mut self) {
        let spec = (self.config.policy.index)(&self.config.params);
        let follows = self.rule.forwarding().follows_replicas;
        // Peers and their replicas are both targets, so each block is stored twice.
        let most = self.config.index_entries.saturating_mul(2);
        let spec = spec.map(|s| IndexSpec { total_blocks: s.total_blocks.min(most), ..s });
        self.regions.start_snapshot(spec, follows);
    }

    pub(super) fn peers_changed(&mut self) {
        for rule in both(&mut self.rule, &mut self.shadow) {
            rule.report(PolicyEvent::Peers(self.regions.peers()));
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
        let before = self.regions.generation();
        if !self.regions.digested(now, id, sent, rtt, digest) {
            return;
        }
        if self.regions.generation() != before {
            self.sort_queue(now);
        }
        // A region without measurements assumes that its replicas are as fast as a peer's. With the
        // configured initial value it would look many times faster or slower, and get everything or
        // nothing.
        self.fleet.assume_speed(now, digest.learned_ms_per_token);
        self.release(now);
        self.steal(now);
    }

    /// Asks the peers with the nearest long queues for work if this region is idle and its policy
    /// steals: each peer once per digest, and for no more requests than it has replicas with free
    /// capacity.
    fn steal(&mut self, now: Time) {
        let Some(above) = self.rule.forwarding().steals_above else { return };
        if self.queue.waiting() > 0 || !self.may_steal() {
            return;
        }
        let rooms = self.fleet.rooms();
        let mut room = self.fleet.ids().iter().filter(|r| rooms[r.index()] > 0.0).count() as u32;
        let mut queues: Vec<(f32, PeerId, u32)> = Vec::new();
        for id in self.regions.ids().iter().copied() {
            let Some(peer) = self.regions.get(id) else { continue };
            if peer.row().held > above && !peer.asked && peer.is_fresh(now, self.regions.peering())
            {
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
            self.regions.asked(from);
            self.log.say(Output::Steal { from, count });
        }
    }

    /// Whether stealing is allowed: not if the topology has its own rule for forwarding.
    fn may_steal(&self) -> bool {
        self.regions.are_open() && self.regions.topology() == Topology::TwoLayer
    }

    /// Forwards held requests to a peer that asks for them, in serving order.
    pub(super) fn steal_asked(&mut self, now: Time, by: PeerId, count: u32) {
        if !self.may_steal() || self.regions.get(by).is_none() {
            return;
        }
        let mut order = core::mem::take(&mut self.buffers.order);
        self.queue.fronts(now, &mut order);
        let mut left = count;
        for id in order.iter().copied() {
            if left == 0 {
                break;
            }
            let Some(mut active) = self.actives.take(id) else { continue };
            self.regions.refresh(&mut active.permitted, &active.request);
            let (request, bit) = (&active.request, 1_u64 << by.0);
            let may = request.hops == 0
                && request.pinned.is_none()
                && active.peers() & bit != 0
                && active.tried_peers & bit == 0;
            if may {
                self.write_dispatch();
                let Routing { fleet, queue, regions, rule, buffers, .. } = self;
                let tables = Tables::of(fleet, queue, regions, rule);
                decide::match_all(&tables, &active, &mut buffers.newest);
                self.queue.release(&active.request);
                self.forward(now, &mut active, Forward::unbounded(by, Why::Stolen));
                left -= 1;
            }
            self.actives.insert(active);
        }
        self.buffers.order = order;
        self.release(now);
    }
}
