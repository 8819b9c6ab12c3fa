//! Everything behind a gate's lock: the machine, and what its rows are to the client.

use std::task::Waker;

use meridian_base::{BatchId, FlowId, PortId, RequestId, Time};
use meridian_flow::{Flow, Flows, Input, Output, PermitWhy, Refusal};
use meridian_messages as flow;

use crate::batches::Batches;
use crate::counts::Status;
use crate::error::GateError;
use crate::permit::{Handle, Permit};
use crate::slots::{Life, Slots};

/// The machine and its names.
pub(crate) struct GateState {
    pub(crate) machine: Flows,
    ports: Vec<String>,
    pub(crate) batches: Batches,
    pub(crate) slots: Slots,
    pub(crate) counts: Status,
}

impl GateState {
    pub(crate) fn new(machine: Flows, ports: Vec<String>) -> GateState {
        let limits = machine.config().limits;
        GateState {
            machine,
            ports,
            batches: Batches::new(limits.batches),
            slots: Slots::new(limits.flows),
            counts: Status::default(),
        }
    }

    /// Passes an input to the machine and carries out its outputs.
    pub(crate) fn act(&mut self, now: Time, input: Input) -> Result<(), Refusal> {
        self.catch_up(now);
        self.machine.handle(now, input);
        self.carry_out(now)
    }

    /// Does the machine's timed work that is due.
    pub(crate) fn catch_up(&mut self, now: Time) {
        if self.machine.poll_timeout().is_some_and(|due| due <= now) {
            self.machine.handle_timeout(now);
            // Timed work refuses nothing.
            let _ = self.carry_out(now);
        }
    }

    fn carry_out(&mut self, now: Time) -> Result<(), Refusal> {
        let mut refused = Ok(());
        while let Some(output) = self.machine.poll() {
            self.counts.note(&output);
            match output {
                Output::Refused { why, .. } => refused = Err(why),
                Output::Placed { flow, place, why } => {
                    if let Some(slot) = self.slots.of(flow) {
                        (slot.level, slot.why) = (place.level, Some(why));
                    }
                }
                Output::Permit { flow, bytes, traffic, why } => {
                    self.grant(now, flow, bytes, traffic, why);
                }
                Output::Pruned { .. } | Output::Demoted { .. } | Output::Reinstated(_) => {}
            }
        }
        refused
    }

    fn grant(&mut self, now: Time, flow: FlowId, bytes: u32, traffic: u8, why: PermitWhy) {
        let Some(slot) = self.slots.of(flow) else { return };
        let waited = now.since(slot.asked.unwrap_or(now));
        let (level, placed) = (slot.level, slot.why);
        slot.grant(Permit { bytes, traffic, why, waited, level, placed });
        self.counts.permitted(slot.stage, bytes, waited, why);
        self.ask_ahead(now, flow);
    }

    /// Asks for the transfer's next chunk, unless it waits for one or has enough.
    fn ask_ahead(&mut self, now: Time, flow: FlowId) {
        let chunk = self.machine.config().chunk;
        // A flow can get a permit and end in one step: its batch departs, and the others of the batch
        // leave their window to it first.
        if self.machine.place(flow).is_none() {
            return;
        }
        let Some(slot) = self.slots.of(flow) else { return };
        let Some(bytes) = slot.next_ask(chunk) else { return };
        slot.asked = Some(now);
        slot.unasked -= u64::from(bytes);
        // It is not refused: the flow is live and does not wait.
        self.machine.handle(now, Input::Ask { flow, bytes });
    }

    pub(crate) fn port(&self, name: &str) -> Option<PortId> {
        let at = self.ports.iter().position(|one| one == name)?;
        u32::try_from(at).ok().map(PortId)
    }

    /// Announces a batch. The oldest one makes way for it if the tables are full.
    pub(crate) fn batch(&mut self, now: Time, batch: &flow::Batch) -> Result<(), GateError> {
        loop {
            let made = self.batches.translate(now, batch, |name| self.port(name))?;
            let refused = match made {
                Some(made) => {
                    let row = made.id;
                    let refused = self.act(now, Input::BatchArrived(made)).err();
                    if refused.is_some() {
                        self.undo(now, row, batch);
                    }
                    refused
                }
                None => Some(Refusal::Full { field: "batches", limit: 0 }),
            };
            match refused {
                None => break self.batches.begin(now, batch),
                Some(Refusal::Full { .. }) if self.abandon_oldest(now) => {}
                Some(why) => return Err(GateError::Refused(why)),
            }
        }
        Ok(())
    }

    /// Removes what the machine has entered of a batch of which it refused a part. A request that
    /// the gate knows is another batch's.
    fn undo(&mut self, now: Time, row: BatchId, batch: &flow::Batch) {
        // Refused where it was not entered.
        let _ = self.act(now, Input::BatchDeparted(row));
        for one in &batch.requests {
            if !self.batches.knows(one.request) {
                let _ = self.act(now, Input::Ended(RequestId(one.request)));
            }
        }
    }

    fn abandon_oldest(&mut self, now: Time) -> bool {
        let Some((batch, computes, requests)) = self.batches.oldest() else { return false };
        self.counts.abandoned += 1;
        if computes {
            let _ = self.departed(now, batch);
        }
        for request in requests {
            let _ = self.ended(now, request);
        }
        true
    }

    pub(crate) fn departed(&mut self, now: Time, batch: u64) -> Result<BatchId, GateError> {
        let row = self.batches.row(batch).ok_or(GateError::UnknownBatch(batch))?;
        let done = self.act(now, Input::BatchDeparted(row));
        self.batches.departed(batch);
        self.sweep();
        done.map(|()| row).map_err(GateError::Refused)
    }

    pub(crate) fn ended(&mut self, now: Time, request: u64) -> Result<(), GateError> {
        if !self.batches.knows(request) {
            return Err(GateError::UnknownRequest(request));
        }
        let done = self.act(now, Input::Ended(RequestId(request)));
        self.batches.ended(request);
        self.sweep();
        done.map_err(GateError::Refused)
    }

    /// Wakes the clients of transfers that ended with their request or batch.
    fn sweep(&mut self) {
        let machine = &self.machine;
        self.slots.sweep(|flow| machine.place(flow).is_some());
    }

    pub(crate) fn submit(
        &mut self,
        now: Time,
        flow: impl FnOnce(FlowId) -> Flow,
    ) -> Result<Handle, GateError> {
        let limit = self.machine.config().limits.flows;
        let flow = flow(self.slots.next().ok_or(GateError::Full(limit))?);
        // First, since the machine places it at once.
        let handle = self.slots.begin(&flow);
        match self.act(now, Input::Submit(flow)) {
            Ok(()) => Ok(handle),
            Err(why) => {
                self.slots.end(flow.id);
                Err(GateError::Refused(why))
            }
        }
    }

    /// Takes a permit of up to `bytes` if there is one; otherwise `waker` is woken when it comes.
    pub(crate) fn take(
        &mut self,
        now: Time,
        handle: Handle,
        bytes: u32,
        waker: &Waker,
    ) -> Result<Option<Permit>, GateError> {
        let chunk = self.machine.config().chunk;
        let (flow, slot) = self.slots.get(handle).ok_or(GateError::UnknownTransfer)?;
        if bytes == 0 {
            return Err(GateError::Refused(Refusal::NoChunk));
        }
        if slot.granted.is_none() {
            self.ask_ahead(now, flow);
            // Timed work and asks refuse nothing here.
            let _ = self.carry_out(now);
        }
        let (_, slot) = self.slots.get(handle).ok_or(GateError::UnknownTransfer)?;
        let Some(granted) = &mut slot.granted else {
            if slot.life != Life::Live {
                return Err(GateError::UnknownTransfer);
            }
            // The gate asks ahead until every byte has been asked for.
            if slot.asked.is_none() {
                return Err(GateError::AllPermitted);
            }
            slot.waker = Some(waker.clone());
            return Ok(None);
        };
        let permit = Permit { bytes: granted.bytes.min(bytes).min(chunk), ..*granted };
        assert!(permit.bytes > 0, "a permit has bytes");
        granted.bytes -= permit.bytes;
        granted.waited = std::time::Duration::ZERO;
        if granted.bytes == 0 {
            slot.granted = None;
        }
        self.ask_ahead(now, flow);
        let _ = self.carry_out(now);
        Ok(Some(permit))
    }

    pub(crate) fn completed(
        &mut self,
        now: Time,
        handle: Handle,
        bytes: u64,
    ) -> Result<(), GateError> {
        let (flow, slot) = self.slots.get(handle).ok_or(GateError::UnknownTransfer)?;
        if slot.life == Life::Ended {
            self.slots.end(flow);
            return Err(GateError::UnknownTransfer);
        }
        let done = self.act(now, Input::Completed { flow, bytes });
        if self.machine.place(flow).is_none() {
            self.slots.end(flow);
        }
        done.map_err(GateError::Refused)
    }

    pub(crate) fn withdrawn(&mut self, now: Time, handle: Handle) -> Result<(), GateError> {
        let (flow, slot) = self.slots.get(handle).ok_or(GateError::UnknownTransfer)?;
        // Asked ahead, and not taken.
        let unused = slot.granted.map_or(0, |granted| u64::from(granted.bytes));
        if self.machine.place(flow).is_some() {
            // Its row is known, so it is not refused.
            let _ = self.act(now, Input::Withdrawn { flow, unused });
        }
        self.slots.end(flow);
        Ok(())
    }
}
