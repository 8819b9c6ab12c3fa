//! Queued requests whose model has no replica: they wait apart, until one serves it.
//!
//! No capacity can release them, and a release looks only at the first requests of the queue. Among
//! the others they would keep these from being looked at.
//!
//! If the model is scaled to zero, replicas that drain or are down count as gone, since others come in
//! their place. The time that such a request may wait for one ends when one takes requests, and the
//! usual time begins.

use alloc::vec::Vec;
use meridian_base::{ModelId, PeerId, ReplicaId, Time};

use super::Routing;
use crate::active::Active;
use crate::fleet::OwnReplicas;
use crate::held::Waited;
use crate::regions::Regions;
use crate::replica::Replica;
use crate::why::RejectWhy;

/// Whether only a new replica can release a request that is queued.
pub(super) fn is_absent(fleet: &OwnReplicas, regions: &Regions, active: &Active) -> bool {
    let request = &active.request;
    let may_leave = regions.are_open() && request.hops == 0;
    match request.scale_from_zero {
        None => fleet.serving(request.model).is_none() && !(may_leave && request.peers != 0),
        // A peer that is gone serves nothing.
        Some(_) => {
            let serves = |id: &PeerId| active.peers() & 1 << id.0 != 0;
            let is_there = fleet.is_there(request.model, active.permitted.places);
            !is_there && (!may_leave || !regions.ids().iter().any(serves))
        }
    }
}

impl Routing {
    /// Sorts the queue again, after the replicas, their models or the peers changed.
    pub(super) fn sort_queue(&mut self, now: Time) {
        if self.queue.is_empty() {
            return;
        }
        let mut ids = Vec::new();
        self.queue.all(&mut ids);
        let Routing { fleet, regions, actives, queue, .. } = self;
        for id in ids {
            let Some(active) = actives.get_mut(id) else { continue };
            regions.refresh(&mut active.permitted, &active.request);
            let is_absent = is_absent(fleet, regions, active);
            let waited = if is_absent { active.waited() } else { came(now, active) };
            if queue.place(&active.request, waited, is_absent) {
                active.waits_from = waited.from;
            }
        }
    }

    /// As [`OwnReplicas::update`]; sorts the queue if the replica takes requests from then on, or no
    /// longer.
    pub(super) fn update_and_sort<T>(
        &mut self,
        now: Time,
        id: ReplicaId,
        change: impl FnOnce(&mut Replica) -> T,
    ) -> Option<T> {
        let before = self.fleet.is_in_use(id);
        let changed = self.fleet.update(now, id, change);
        if self.fleet.is_in_use(id) != before {
            self.sort_queue(now);
        }
        changed
    }

    /// Refuses a request whose time in the queue is over.
    pub(super) fn expire(&mut self, now: Time, active: &Active) {
        let is_absent = self.queue.is_absent(&active.request);
        self.queue.remove(&active.request);
        let why = match active.request.scale_from_zero.filter(|_| is_absent) {
            Some(limit) => RejectWhy::NoReplicaInTime { limit },
            None => {
                let limit = self.config.held.max_wait;
                let closed = self.tables().closed_to(now, active);
                RejectWhy::HeldTooLong { limit, closed }
            }
        };
        self.refuse(now, active, why);
    }

    /// The models of the queued requests, one for each.
    pub fn held_models(&self) -> impl Iterator<Item = ModelId> {
        let mut ids = Vec::new();
        self.queue.all(&mut ids);
        ids.into_iter().filter_map(|id| Some(self.actives.get(id)?.request.model))
    }

    /// Checks that each queued request waits where [`is_absent`] says.
    pub(super) fn check_absent(&mut self) {
        let mut ids = Vec::new();
        self.queue.all(&mut ids);
        let Routing { fleet, regions, actives, queue, .. } = self;
        for id in ids {
            let Some(active) = actives.get_mut(id) else { continue };
            regions.refresh(&mut active.permitted, &active.request);
            let (is, should) =
                (queue.is_absent(&active.request), is_absent(fleet, regions, active));
            assert_eq!(is, should, "{id} waits among those without a replica if it has none");
        }
    }
}

/// The times of a request when a replica of its model takes requests: its usual time begins, if it has
/// not before.
fn came(now: Time, active: &Active) -> Waited {
    let Waited { since, from } = active.waited();
    let begins = active.request.scale_from_zero.is_some() && from == since;
    Waited { since, from: if begins { now } else { from } }
}
