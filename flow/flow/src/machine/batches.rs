//! Batches: they arrive, compute layer after layer, and depart; requests end.

use meridian_base::{BatchId, RequestId, Time};

use super::{Flows, Output};
use crate::batch::Batch;
use crate::refusal::{Refusal, Subject};
use crate::tables::NONE;
use crate::why::{Passed, PermitWhy};

impl Flows {
    pub(super) fn batch_arrived(&mut self, now: Time, batch: &Batch) {
        if let Err(why) = self.world.check_batch(batch) {
            return self.refuse(Subject::Batch(batch.id), why);
        }
        let at = self.world.enter_batch(now, batch);
        for member in &batch.requests {
            if let Err(why) = self.world.enter_member(now, at, member) {
                self.refuse(Subject::Request(member.id), why);
            }
        }
        if self.world.batch(at).is_empty() {
            self.world.leave_batch(at);
            return self.refuse(Subject::Batch(batch.id), Refusal::NoRequests);
        }
        if self.config.policy.needs.passes {
            self.world.wait_at_ports(at);
            self.pass(now);
            self.check_passing(now, at);
        }
    }

    /// Decides again which handoffs may pass early flows at the ports of a batch that arrived.
    fn check_passing(&mut self, now: Time, batch: u32) {
        let mut list = core::mem::take(&mut self.list);
        self.world.at_ports_of(batch, &mut list, |request| request.passes);
        for request in list.iter().copied() {
            self.world.requests[request as usize].passes = false;
        }
        for request in list.drain(..) {
            self.update(now, request);
            self.place_list(now, self.world.request(request).handoffs);
        }
        self.list = list;
    }

    pub(super) fn layer(&mut self, now: Time, id: BatchId, generation: u32, layer: u16) {
        let subject = Subject::Batch(id);
        let Some(row) = self.world.batches.get_mut(id.index()).filter(|row| row.live) else {
            return self.refuse(subject, Refusal::Unknown);
        };
        if generation < row.generation {
            return;
        }
        let layers = row.layers;
        if layer >= layers {
            return self.refuse(subject, Refusal::LayerBeyond { layer, layers });
        }
        let (again, current) = (generation > row.generation, row.layer);
        if !again && layer < current {
            let why = Refusal::LayerCycle { layer, current, generation };
            return self.refuse(subject, why);
        }
        if !again && row.computes && layer > current {
            // The mean of the estimated and the actual time.
            let took = now.since(row.layer_began) / u32::from(layer - current);
            row.pace = row.pace / 2 + took / 2;
        }
        (row.generation, row.layer, row.layer_began, row.computes) = (generation, layer, now, true);
        let reach = layer.saturating_add(u16::from(self.config.levels)).min(layers);
        let affected = if again { 0..layers } else { current..reach };
        self.check_urgency(now, id.0);
        self.place_layers(now, id.0, affected);
        for nth in 0..self.world.batch(id.0).requests.len() {
            let request = self.world.batch(id.0).requests[nth];
            if again {
                self.policy.restarted(&mut self.world, request);
            }
            self.world.requests[request as usize].started = true;
            self.update(now, request);
            if again {
                self.place_list(now, self.world.request(request).handoffs);
            }
        }
    }

    /// Checks whether the fetches of a batch became urgent, and when to check again.
    pub(super) fn check_urgency(&mut self, now: Time, batch: u32) {
        if !self.config.policy.needs.layers || self.world.batch(batch).urgent {
            return;
        }
        if !self.world.waits_for_fetch(batch) {
            return;
        }
        let at = self.world.urgent_at(now, batch);
        let row = &mut self.world.batches[batch as usize];
        if at <= now {
            row.urgent = true;
            let layers = row.layers;
            self.place_layers(now, batch, 0..layers);
        } else if row.red < Time::MAX && at < row.checks {
            row.checks = at;
            self.due.urgency(at, batch, row.sequence);
            if self.due.is_stale(self.world.arrived.len()) {
                let rows = &self.world.batches;
                self.due.sweep(|batch, sequence| {
                    let row = &rows[batch as usize];
                    row.live && row.sequence == sequence
                });
            }
        }
    }

    /// Places the early flows of some layers again. After a layer starts, these are the flows of
    /// layers it passed and of those within reach of the levels; in a new generation all, since
    /// flows may fall back.
    pub(super) fn place_layers(&mut self, now: Time, batch: u32, layers: core::ops::Range<u16>) {
        if self.config.policy.needs.layers {
            for layer in layers {
                self.place_list(now, self.world.first_of_layer(batch, layer));
            }
        }
    }

    pub(super) fn batch_departed(&mut self, now: Time, id: BatchId) {
        if self.world.batches.get(id.index()).is_none_or(|row| !row.live) {
            return self.refuse(Subject::Batch(id), Refusal::Unknown);
        }
        let mut list = core::mem::take(&mut self.list);
        self.world.early_flows(id.0, &mut list);
        for flow in list.drain(..) {
            let port = self.world.flow(flow).ports.as_slice()[0];
            self.forget(now, flow);
            self.release(now, port, PermitWhy::First);
        }
        self.list = list;
        for nth in 0..self.world.batch(id.0).requests.len() {
            let request = self.world.batch(id.0).requests[nth];
            let row = &mut self.world.requests[request as usize];
            row.batch = NONE;
            let incarnation = row.incarnation;
            let mut at = row.handoffs;
            while at != NONE {
                self.world.flows[at as usize].batch = NONE;
                at = self.world.after(at);
            }
            if self.config.policy.needs.updates {
                self.due.update(now, request, incarnation);
            }
        }
        let mut list = core::mem::take(&mut self.list);
        self.world.at_ports_of(id.0, &mut list, |request| !request.passes);
        self.world.leave_batch(id.0);
        for request in list.drain(..) {
            if self.world.is_critical(request) {
                self.update(now, request);
            }
        }
        self.list = list;
        self.pass(now);
    }

    pub(super) fn ended(&mut self, now: Time, id: RequestId) {
        let Some(request) = self.world.find_request(id) else {
            return self.refuse(Subject::Request(id), Refusal::Unknown);
        };
        let batch = self.world.request(request).batch;
        let mut list = core::mem::take(&mut self.list);
        if batch != NONE {
            self.world.batches[batch as usize].requests.retain(|one| *one != request);
            self.world.early_flows(batch, &mut list);
            list.retain(|flow| self.world.flow(*flow).request == request);
        }
        self.world.collect(self.world.request(request).handoffs, &mut list);
        for flow in list.drain(..) {
            let port = self.world.flow(flow).ports.as_slice()[0];
            self.forget(now, flow);
            self.release(now, port, PermitWhy::First);
        }
        self.list = list;
        self.world.end_request(request);
    }

    /// Reorders the batches and reports the results.
    fn pass(&mut self, now: Time) {
        if !self.config.policy.needs.passes {
            return;
        }
        let (mut moved, mut passed) =
            (core::mem::take(&mut self.moved), core::mem::take(&mut self.passed));
        self.policy.pass(&mut self.world, now, &mut moved, &mut passed);
        for batch in moved.drain(..) {
            let layers = self.world.batch(batch).layers;
            self.place_layers(now, batch, 0..layers);
            self.check_urgency(now, batch);
        }
        for event in passed.drain(..) {
            let (request, output) = match event {
                Passed::Pruned { request, lever, why } => {
                    let id = self.world.request(request).id;
                    (request, Output::Pruned { request: id, lever, why })
                }
                Passed::Reinstated { request } => {
                    (request, Output::Reinstated(self.world.request(request).id))
                }
            };
            self.outputs.push_back(output);
            self.world.requests[request as usize].look_again = Time::ZERO;
            self.place_list(now, self.world.request(request).handoffs);
        }
        (self.moved, self.passed) = (moved, passed);
    }
}
