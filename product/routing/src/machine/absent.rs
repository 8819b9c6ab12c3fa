//! Queued requests whose model has no replica: they wait apart, until one serves it.
//!
//! No capacity can release them, and a release looks only at the first requests of the queue. Among
//! the others they would keep these from being looked at.

use alloc::vec::Vec;

use super::Routing;
use crate::request::Request;

impl Routing {
    /// Whether only a new replica can release a request that is queued.
    pub(super) fn is_absent(&self, request: &Request) -> bool {
        let may_leave = self.regions.are_open() && request.peers != 0 && request.hops == 0;
        self.fleet.serving(request.model).is_none() && !may_leave
    }

    /// Sorts the queue again, after the replicas or their models changed.
    pub(super) fn sort_queue(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let mut ids = Vec::new();
        self.queue.all(&mut ids);
        for id in ids {
            if let Some(active) = self.actives.get(id) {
                let is_absent = self.is_absent(&active.request);
                self.queue.place(&active.request, active.arrived, is_absent);
            }
        }
    }

    /// The models of the queued requests, one for each.
    pub fn held_models(&self) -> impl Iterator<Item = meridian_base::ModelId> {
        let mut ids = Vec::new();
        self.queue.all(&mut ids);
        ids.into_iter().filter_map(|id| Some(self.actives.get(id)?.request.model))
    }
}
