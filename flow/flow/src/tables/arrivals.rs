//! Entering and removing batches, with their requests and planned transfers.

use meridian_base::{PortId, Time};

use super::{RequestRow, World};
use crate::batch::{Batch, Member};
use crate::refusal::Refusal;

impl World {
    /// Whether the batch can be entered.
    pub(crate) fn check_batch(&self, batch: &Batch) -> Result<(), Refusal> {
        let (id, limits) = (batch.id, self.limits);
        let limit = u64::from(limits.batches);
        if u64::from(id.0) >= limit {
            let (field, value) = ("limits.batches", u64::from(id.0));
            return Err(Refusal::BeyondTable { field, value, limit });
        }
        if self.batch(id.0).live {
            return Err(Refusal::Taken);
        }
        if batch.layers == 0 || batch.layers > limits.layers {
            return Err(Refusal::Layers { value: batch.layers, most: limits.layers });
        }
        if batch.requests.is_empty() && batch.collectives.is_empty() {
            return Err(Refusal::NoRequests);
        }
        if batch.requests.len() > self.vacant_requests.len() {
            let limit = u64::from(limits.requests);
            return Err(Refusal::Full { field: "limits.requests", limit });
        }
        self.known(batch.collectives.iter().map(|(port, _)| *port))
    }

    /// Enters a batch that was checked, without its requests; returns its row.
    pub(crate) fn enter_batch(&mut self, now: Time, batch: &Batch) -> u32 {
        let (at, sequence) = (batch.id.0, self.next_sequence());
        let row = &mut self.batches[at as usize];
        assert!(!row.live, "a batch enters a row that is free");
        (row.live, row.computes, row.generation, row.layer) = (true, false, 0, 0);
        (row.layer_began, row.pace) = (now, batch.layer_time);
        (row.number, row.told) = (batch.number, false);
        // Without requests of its own the node can't tell how urgent the batch is, only that others
        // wait for it.
        (row.rank, row.red, row.loose, row.sequence) = (u64::MAX, now, Time::MAX, sequence);
        (row.urgent, row.checks) = (false, Time::MAX);
        row.set_layers(batch.layers);
        row.requests.clear();
        row.collectives.clear();
        row.collectives.extend_from_slice(&batch.collectives);
        self.arrived.push(at);
        at
    }

    /// Enters a request of a batch.
    pub(crate) fn enter_member(
        &mut self,
        now: Time,
        batch: u32,
        member: &Member,
    ) -> Result<u32, Refusal> {
        if self.find_request(member.id).is_some() {
            return Err(Refusal::Taken);
        }
        if let Some(deadline) = member.deadline.filter(|deadline| *deadline <= now) {
            return Err(Refusal::DeadlinePast { deadline, now });
        }
        self.check_plan(member)?;
        let row = RequestRow {
            live: true,
            id: member.id,
            batch,
            arrived: now,
            deadline: member.deadline,
            slo: member.slo,
            decode: member.decode,
            ..RequestRow::vacant()
        };
        let limit = u64::from(self.limits.requests);
        let full = Refusal::Full { field: "limits.requests", limit };
        let request = self.begin_request(row).ok_or(full)?;
        self.add_plan(request, member);
        self.batches[batch as usize].requests.push(request);
        self.budget.arrived(now);
        Ok(request)
    }

    /// Whether there is room for the planned transfers of a request.
    pub(crate) fn check_plan(&self, member: &Member) -> Result<(), Refusal> {
        self.known(member.plan.iter().map(|one| one.port))?;
        if member.plan.len() > self.room_for_uses() {
            let limit = u64::from(self.limits.uses);
            return Err(Refusal::Full { field: "limits.uses", limit });
        }
        Ok(())
    }

    /// Adds planned transfers that were checked to a request.
    pub(crate) fn add_plan(&mut self, request: u32, member: &Member) {
        let layers = u64::from(self.batch(self.request(request).batch).layers);
        for plan in &member.plan {
            let at = self.use_of(request, plan.port).expect("there is room for the plan");
            let one = &mut self.uses[at as usize];
            one.reuse = one.reuse.saturating_add(plan.reuse);
            one.coming = one.coming.saturating_add(plan.handoff);
            one.per_layer = one.coming.div_ceil(layers);
        }
    }

    /// Removes a batch; its requests remain.
    pub(crate) fn leave_batch(&mut self, batch: u32) {
        self.leave_ports(batch);
        let was_live = core::mem::replace(&mut self.batches[batch as usize].live, false);
        assert!(was_live, "a batch leaves once");
        let before = self.arrived.len();
        self.arrived.retain(|one| *one != batch);
        assert!(self.arrived.len() + 1 == before, "a batch is once in the order of arrival");
    }

    /// Whether every port is known.
    pub(crate) fn known(&self, mut ports: impl Iterator<Item = PortId>) -> Result<(), Refusal> {
        let dead = |port: &PortId| self.rates.get(port.index()).is_none_or(|rate| *rate <= 0.0);
        ports.find(dead).map_or(Ok(()), |port| Err(Refusal::UnknownPort(port)))
    }
}
