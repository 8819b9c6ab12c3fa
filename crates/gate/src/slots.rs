//! The transfers under way and their waiting clients, by row.

use std::task::Waker;

use meridian_base::{FlowId, Time};
use meridian_flow::{Flow, Level, Output, Owner, PermitWhy, Stage, Why};

use crate::gate::{Handle, Permit};

/// All rows.
#[derive(Debug)]
pub(crate) struct Slots {
    rows: Vec<Slot>,
    free: Vec<u32>,
}

/// One row.
#[derive(Debug)]
pub(crate) struct Slot {
    generation: u32,
    pub(crate) state: State,
    /// When it asked.
    pub(crate) asked: Time,
    /// Its place when it was last placed.
    pub(crate) level: Level,
    pub(crate) why: Option<Why>,
    pub(crate) stage: Stage,
    pub(crate) owner: Option<Owner>,
}

/// What a transfer's client does.
#[derive(Debug)]
pub(crate) enum State {
    /// The row is free.
    Free,
    /// It sends, or does nothing.
    Sends,
    /// It waits for a permit.
    Waits(Waker),
    /// Its permit has come and was not taken yet.
    Granted(Permit),
    /// The machine has ended it with its request or batch.
    Ended,
}

impl Slots {
    pub(crate) fn new(rows: u32) -> Slots {
        Slots { rows: Vec::new(), free: (0..rows).rev().collect() }
    }

    /// The row that the next transfer gets.
    pub(crate) fn next(&self) -> Option<FlowId> {
        self.free.last().copied().map(FlowId)
    }

    /// Takes the row of [`Self::next`].
    pub(crate) fn begin(&mut self, flow: &Flow) -> Handle {
        self.free.pop();
        let row = flow.id.0;
        if row as usize == self.rows.len() {
            self.rows.push(Slot {
                generation: 0,
                state: State::Free,
                asked: Time::ZERO,
                level: Level(0),
                why: None,
                stage: flow.stage,
                owner: None,
            });
        }
        let slot = &mut self.rows[row as usize];
        slot.generation = (slot.generation + 1) & Handle::GENERATIONS;
        slot.state = State::Sends;
        (slot.stage, slot.owner) = (flow.stage, Some(flow.owner));
        Handle::of(slot.generation, row)
    }

    /// The row of a transfer that is under way.
    pub(crate) fn get(&mut self, handle: Handle) -> Option<(FlowId, &mut Slot)> {
        let slot = self.rows.get_mut(handle.row() as usize)?;
        let live = slot.generation == handle.generation() && !matches!(slot.state, State::Free);
        live.then_some((FlowId(handle.row()), slot))
    }

    pub(crate) fn end(&mut self, flow: FlowId) {
        let slot = &mut self.rows[flow.index()];
        slot.state = State::Free;
        self.free.push(flow.0);
    }

    /// Notes an output of the machine about a flow: its place, or its permit.
    pub(crate) fn note(&mut self, now: Time, output: &Output) {
        match output {
            Output::Placed { flow, place, why } => {
                if let Some(slot) = self.rows.get_mut(flow.index()) {
                    (slot.level, slot.why) = (place.level, Some(*why));
                }
            }
            Output::Permit { flow, bytes, traffic, why } => {
                self.grant(now, *flow, *bytes, *traffic, *why);
            }
            _ => {}
        }
    }

    fn grant(&mut self, now: Time, flow: FlowId, bytes: u32, traffic: u8, why: PermitWhy) {
        let slot = &mut self.rows[flow.index()];
        let waited = now.since(slot.asked);
        let permit = Permit { bytes, traffic, why, waited, level: slot.level, placed: slot.why };
        if let State::Waits(waker) = std::mem::replace(&mut slot.state, State::Granted(permit)) {
            waker.wake();
        }
    }

    /// Ends the transfers that are not `alive` any more, and wakes their clients.
    pub(crate) fn sweep(&mut self, alive: impl Fn(FlowId) -> bool) {
        for (row, slot) in (0..).zip(&mut self.rows) {
            if matches!(slot.state, State::Free | State::Ended) || alive(FlowId(row)) {
                continue;
            }
            if let State::Waits(waker) = std::mem::replace(&mut slot.state, State::Ended) {
                waker.wake();
            }
        }
    }

    /// Wakes every client that waits: the gate has failed.
    pub(crate) fn wake_all(&mut self) {
        for slot in &mut self.rows {
            if let State::Waits(waker) = std::mem::replace(&mut slot.state, State::Ended) {
                waker.wake();
            }
        }
    }
}
