//! The coordinator's word on a batch, which replaces the node's own order and pruning.
//!
//! A node orders its batches by what it knows: its own requests. That order stands until a verdict
//! arrives, and for as long as none does.

use meridian_base::{RequestId, Time};

use super::{Flows, Output};
use crate::coordinator::Verdict;
use crate::pass;
use crate::tables::{NONE, Standing};
use crate::why::PruneWhy;

impl Flows {
    pub(super) fn verdict(&mut self, now: Time, verdict: &Verdict) {
        let row = self.world.batches.get_mut(verdict.batch.index());
        let row = row.filter(|row| row.live && row.number == verdict.number);
        // The coordinator has not heard of all requests that the node knows itself.
        let row = row.filter(|row| row.requests.len() <= verdict.requests as usize);
        let Some(row) = row.filter(|_| self.config.policy.needs.passes) else { return };
        (row.told, row.red) = (true, verdict.red);
        let (at, layers) = (verdict.batch.0, row.layers);
        if pass::rank(&self.config, &mut self.world, now, at) {
            self.place_layers(now, at, 0..layers);
        }
        self.check_urgency(now, at);
        if self.config.terms.prune {
            for nth in 0..self.world.batch(at).requests.len() {
                let request = self.world.batch(at).requests[nth];
                self.judge(now, request, &verdict.pruned);
            }
        }
    }

    /// Prunes or reinstates one request of the batch.
    fn judge(&mut self, now: Time, request: u32, pruned: &[(RequestId, PruneWhy)]) {
        let row = self.world.request(request);
        let (id, standing) = (row.id, row.standing);
        let found = pruned.iter().find(|(one, _)| *one == id);
        let (to, output) = match (standing, found) {
            (Standing::In | Standing::Spared, Some((_, why))) => {
                let lever = pass::lever(self.config.can_defer, &self.world, row);
                (Standing::Pruned, Output::Pruned { request: id, lever, why: *why })
            }
            (Standing::Pruned, None) => (Standing::In, Output::Reinstated(id)),
            _ => return,
        };
        let row = &mut self.world.requests[request as usize];
        (row.standing, row.strikes, row.look_again) = (to, 0, Time::ZERO);
        row.counted |= to == Standing::Pruned;
        self.outputs.push_back(output);
        assert_ne!(row.batch, NONE, "a batch has its own requests");
        self.place_list(now, self.world.request(request).handoffs);
    }
}
