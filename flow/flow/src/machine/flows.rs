//! The life of a flow: submitted, placed, placed again, ended.

use meridian_base::{FlowId, Time};

use super::{Flows, Output};
use crate::limits::MOST_BYTES;
use crate::place::{Place, TRAFFIC_CLASSES};
use crate::policy::Others;
use crate::refusal::{Refusal, Subject};
use crate::stage::{Flow, Owner, Ports, Stage};
use crate::tables::{FlowRow, NONE, Standing};
use crate::why::{PermitWhy, Why};

/// Rates that differ by less than this share are the same rate.
const SAME_RATE: f64 = 0.01;

impl Flows {
    pub(super) fn submit(&mut self, now: Time, flow: &Flow) {
        match self.enter(now, flow) {
            Ok(()) => {
                self.place_first(now, flow.id.0);
                if flow.stage == Stage::Reuse {
                    self.check_urgency(now, self.world.flow(flow.id.0).batch);
                }
            }
            Err(why) => self.refuse(Subject::Flow(flow.id), why),
        }
    }

    /// Checks a flow and adds it to the tables.
    fn enter(&mut self, now: Time, flow: &Flow) -> Result<(), Refusal> {
        let (id, limits) = (flow.id, self.config.limits);
        let limit = u64::from(limits.flows);
        if u64::from(id.0) >= limit {
            let (field, value) = ("limits.flows", u64::from(id.0));
            return Err(Refusal::BeyondTable { field, value, limit });
        }
        if self.world.flow(id.0).live {
            return Err(Refusal::Taken);
        }
        if flow.bytes == 0 {
            return Err(Refusal::NoBytes);
        }
        if flow.bytes > MOST_BYTES {
            return Err(Refusal::TooLarge { bytes: flow.bytes, most: MOST_BYTES });
        }
        self.check_ports(&flow.ports)?;
        let (batch, request) = self.owner(flow)?;
        if batch != NONE && flow.layer >= self.world.batch(batch).layers {
            let layers = self.world.batch(batch).layers;
            return Err(Refusal::LayerBeyond { layer: flow.layer, layers });
        }
        let uses = self.uses_for(now, flow, request)?;
        let before = self.world.flow(id.0);
        self.world.flows[id.index()] = FlowRow {
            live: true,
            stage: flow.stage,
            lift: 0,
            layer: flow.layer,
            incarnation: before.incarnation.wrapping_add(1),
            batch,
            request,
            size: flow.bytes,
            left: flow.bytes,
            submitted: now,
            waits_since: now,
            ports: flow.ports,
            uses,
            ..before.clone()
        };
        self.world.link(id.0);
        if flow.stage.is_early() && self.config.policy.needs.passes {
            for port in flow.ports.as_slice() {
                self.world.wait_at(batch, *port, flow.stage == Stage::Collective);
            }
        }
        Ok(())
    }

    fn check_ports(&self, ports: &Ports) -> Result<(), Refusal> {
        let ports = ports.as_slice();
        if ports.is_empty() {
            return Err(Refusal::NoPorts);
        }
        for (at, port) in ports.iter().enumerate() {
            if ports[..at].contains(port) {
                return Err(Refusal::PortTwice(*port));
            }
        }
        self.world.known(ports.iter().copied())
    }

    /// Rows of the flow's batch and request, `NONE` if it has none.
    fn owner(&self, flow: &Flow) -> Result<(u32, u32), Refusal> {
        let early = flow.stage.is_early();
        match flow.owner {
            Owner::Request(id) => {
                let unknown = Refusal::UnknownOwner(Subject::Request(id));
                let request = self.world.find_request(id).ok_or(unknown)?;
                let batch = self.world.request(request).batch;
                if early && batch == NONE { Err(Refusal::Departed) } else { Ok((batch, request)) }
            }
            Owner::Batch(id) if early => {
                let live = self.world.batches.get(id.index()).is_some_and(|row| row.live);
                let unknown = Refusal::UnknownOwner(Subject::Batch(id));
                if live { Ok((id.0, NONE)) } else { Err(unknown) }
            }
            Owner::Batch(id) => Err(Refusal::HandoffOfBatch(id)),
        }
    }

    /// The uses of a request's flow, with its bytes added.
    fn uses_for(
        &mut self,
        now: Time,
        flow: &Flow,
        request: u32,
    ) -> Result<[u32; Ports::MOST], Refusal> {
        let mut uses = [NONE; Ports::MOST];
        if request == NONE {
            return Ok(uses);
        }
        let ports = flow.ports.as_slice();
        if self.world.room_for_uses() < ports.len() {
            let limit = u64::from(self.config.limits.uses);
            return Err(Refusal::Full { field: "limits.uses", limit });
        }
        for (at, &port) in uses.iter_mut().zip(ports) {
            *at = self.world.use_of(request, port).expect("there is room for each port");
            if flow.stage == Stage::Handoff {
                let one = &mut self.world.uses[*at as usize];
                // Below the end of the type: see MOST_BYTES.
                one.released += flow.bytes;
                one.coming = one.coming.saturating_sub(flow.bytes);
            }
        }
        let row = &mut self.world.requests[request as usize];
        (row.started, row.look_again) = (true, now);
        Ok(uses)
    }

    fn place_first(&mut self, now: Time, flow: u32) {
        let others = self.policy.submitted(&mut self.world, now, flow);
        let (place, why) = self.decide(now, flow);
        let row = &mut self.world.flows[flow as usize];
        row.place = place;
        let incarnation = row.incarnation;
        if self.config.policy.needs.aging && !self.config.aging.is_zero() {
            self.due.age(now, flow, incarnation);
        }
        self.outputs.push_back(Output::Placed { flow: FlowId(flow), place, why });
        match others {
            Others::None => {}
            Others::Flow(other) => self.place_again(now, other),
            Others::Handoffs => {
                let request = self.world.flow(flow).request;
                self.place_list(now, self.world.request(request).handoffs);
            }
        }
    }

    /// The policy's place for a flow that is there.
    fn decide(&self, now: Time, flow: u32) -> (Place, Why) {
        assert!(self.world.flow(flow).live, "a flow that is placed is there");
        let (place, why) = self.policy.place(&self.world, now, flow);
        let is_rate = |rate: f64| rate > 0.0 && rate.is_finite();
        assert!(place.traffic < TRAFFIC_CLASSES, "a place has a traffic class that cards have");
        assert!(is_rate(f64::from(place.weight)), "a place has a share");
        assert!(place.rate.is_none_or(is_rate), "a limited flow has a rate");
        (place, why)
    }

    /// Asks the policy for the flow's place again and reports a change.
    pub(super) fn place_again(&mut self, now: Time, flow: u32) {
        let (place, why) = self.decide(now, flow);
        let row = &mut self.world.flows[flow as usize];
        if same(&row.place, &place) {
            return;
        }
        row.place = place;
        let port = row.ports.as_slice()[0];
        self.gates.moved(port.0, flow, &place);
        self.outputs.push_back(Output::Placed { flow: FlowId(flow), place, why });
    }

    /// Places all flows of a list again, from `head` on.
    pub(super) fn place_list(&mut self, now: Time, head: u32) {
        let mut at = head;
        while at != NONE {
            let next = self.world.after(at);
            self.place_again(now, at);
            at = next;
        }
    }

    /// Updates a request and its handoffs.
    pub(super) fn update(&mut self, now: Time, request: u32) {
        let before = self.world.request(request).standing;
        if !self.policy.update(&mut self.world, now, request) {
            return;
        }
        self.place_list(now, self.world.request(request).handoffs);
        let row = self.world.request(request);
        let (id, standing) = (row.id, row.standing);
        if standing == before {
            return;
        }
        let worst = self.world.worst_use(request);
        self.outputs.push_back(match (standing, worst) {
            // A spared request is not given up: only its flows are reported.
            (Standing::Spared, _) => return,
            (Standing::In, _) if before == Standing::Spared => return,
            (Standing::In, _) => Output::Reinstated(id),
            (Standing::Infeasible, Some(one)) => {
                let why = Why::Infeasible { mlu: one.need, port: one.port };
                Output::Demoted { request: id, why }
            }
            _ => Output::Demoted { request: id, why: Why::Late },
        });
    }

    pub(super) fn completed(&mut self, now: Time, id: FlowId, bytes: u64) {
        let subject = Subject::Flow(id);
        let Some(row) = self.world.flows.get_mut(id.index()).filter(|row| row.live) else {
            return self.refuse(subject, Refusal::Unknown);
        };
        let (left, reported) = (row.left, bytes);
        let bytes = bytes.min(left);
        row.left -= bytes;
        row.waits_since = now;
        let (class, ports, uses, stage) = (row.place.class, row.ports, row.uses, row.stage);
        let over = row.left == 0;
        self.count(now, stage, class, &ports, &uses, bytes);
        let port = ports.as_slice()[0];
        self.gates.completed(port.0, id.0, bytes);
        self.stalls.active(now, port);
        if over {
            let (batch, layer) = (self.world.flow(id.0).batch, self.world.flow(id.0).layer);
            self.forget(now, id.0);
            if stage == Stage::Reuse && batch != NONE && layer <= self.world.batch(batch).layer {
                // A layer computes once its last fetch has arrived.
                self.world.batches[batch as usize].layer_began = now;
            }
        }
        self.release(now, port, PermitWhy::First);
        if reported > left {
            self.refuse(subject, Refusal::TooManyBytes { bytes: reported, left });
        }
    }

    /// Adds completed bytes to loads and uses.
    fn count(
        &mut self,
        now: Time,
        stage: Stage,
        class: u8,
        ports: &Ports,
        uses: &[u32; Ports::MOST],
        bytes: u64,
    ) {
        let loads = self.config.policy.needs.loads;
        for (port, &at) in ports.as_slice().iter().zip(uses) {
            if loads {
                self.world.port_load.add(port.index(), class, now, bytes);
            }
            if at == NONE {
                continue;
            }
            let one = &mut self.world.uses[at as usize];
            match stage {
                Stage::Handoff => {
                    assert!(
                        one.released >= bytes,
                        "bytes that handoffs complete at a port were submitted there"
                    );
                    one.released -= bytes;
                    if loads {
                        self.world.own_load.add(at as usize, class, now, bytes);
                    }
                }
                Stage::Reuse => one.reuse = one.reuse.saturating_sub(bytes),
                Stage::Collective => {}
            }
        }
    }

    pub(super) fn withdrawn(&mut self, now: Time, id: FlowId, unused: u64) {
        let Some(row) = self.world.flows.get(id.index()).filter(|row| row.live) else {
            return self.refuse(Subject::Flow(id), Refusal::Unknown);
        };
        let port = row.ports.as_slice()[0];
        self.gates.release(port.0, id.0, unused);
        self.forget(now, id.0);
        self.release(now, port, PermitWhy::First);
    }

    /// Removes a flow everywhere, even with bytes left.
    pub(super) fn forget(&mut self, now: Time, flow: u32) {
        let other = if self.config.policy.needs.heads {
            self.policy.ended(&self.world, now, flow)
        } else {
            None
        };
        let row = self.world.flow(flow);
        let (port, left) = (row.ports.as_slice()[0], row.left);
        if row.stage == Stage::Handoff {
            for at in row.uses.into_iter().filter(|at| *at != NONE) {
                let one = &mut self.world.uses[at as usize];
                assert!(one.released >= left, "the bytes left of a handoff count at its ports");
                one.released -= left;
            }
        }
        self.gates.forget(port.0, flow, left == 0);
        self.world.unlink(flow);
        if let Some(other) = other {
            self.place_again(now, other);
        }
    }
}

/// Whether the difference is irrelevant to every driver.
fn same(a: &Place, b: &Place) -> bool {
    let rates = match (a.rate, b.rate) {
        (None, None) => true,
        (Some(a), Some(b)) => (a - b).abs() <= SAME_RATE * a,
        _ => false,
    };
    let key = |place: &Place| (place.level, place.traffic, place.class, place.order);
    rates && a.weight == b.weight && key(a) == key(b)
}
