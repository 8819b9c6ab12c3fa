//! The transfers under way and their waiting clients, by row.
//!
//! The gate asks ahead of a client: a client asks once it has sent its last chunk, and by then a
//! transfer with less precedence would have been given the room. So a transfer always has an ask at
//! the machine, until it has permits for [`AHEAD`] chunks that its client has not taken, or for all of
//! its bytes. A client that sends one chunk at a time leaves no gap to others then; one that stops
//! holds up its port until the permits expire.

use std::task::Waker;

use meridian_base::{FlowId, Time};
use meridian_flow::{Flow, Level, Stage, Why};

use crate::permit::{Handle, Permit};

/// Chunks that may be permitted and not taken before the gate stops asking.
const AHEAD: u64 = 2;

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
    pub(crate) life: Life,
    /// When the ask that waits at the machine was made.
    pub(crate) asked: Option<Time>,
    /// Bytes that no ask was for yet.
    pub(crate) unasked: u64,
    /// Bytes that are permitted and not taken.
    pub(crate) granted: Option<Permit>,
    /// The client that waits.
    pub(crate) waker: Option<Waker>,
    /// Its place when it was last placed.
    pub(crate) level: Level,
    pub(crate) why: Option<Why>,
    pub(crate) stage: Stage,
}

/// Whether a row is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is free.
    Free,
    /// Its transfer is under way.
    Live,
    /// The machine has ended its transfer with the request or batch, and the client does not know yet.
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
        let free = self.free.pop();
        assert!(free == Some(flow.id.0), "a transfer gets the row that was free next");
        let (row, at) = (flow.id.0, flow.id.index());
        let generation = self.rows.get(at).map_or(0, |slot| slot.generation) + 1;
        let slot = Slot {
            generation: generation & Handle::GENERATIONS,
            life: Life::Live,
            asked: None,
            unasked: flow.bytes,
            granted: None,
            waker: None,
            level: Level(0),
            why: None,
            stage: flow.stage,
        };
        let handle = Handle::of(slot.generation, row);
        match self.rows.get_mut(at) {
            Some(old) => {
                assert!(old.life == Life::Free, "a row has one transfer at a time");
                *old = slot;
            }
            None => {
                assert!(self.rows.len() == at, "the first time, rows are used in order");
                self.rows.push(slot);
            }
        }
        handle
    }

    /// The row of a transfer that the client has not ended.
    pub(crate) fn get(&mut self, handle: Handle) -> Option<(FlowId, &mut Slot)> {
        let slot = self.rows.get_mut(handle.row() as usize)?;
        let live = slot.generation == handle.generation() && slot.life != Life::Free;
        live.then_some((FlowId(handle.row()), slot))
    }

    /// The row of a flow of the machine.
    pub(crate) fn of(&mut self, flow: FlowId) -> Option<&mut Slot> {
        self.rows.get_mut(flow.index())
    }

    pub(crate) fn end(&mut self, flow: FlowId) {
        if let Some(slot) = self.rows.get_mut(flow.index()) {
            assert!(slot.life != Life::Free, "a transfer ends once");
            (slot.life, slot.waker, slot.granted) = (Life::Free, None, None);
            self.free.push(flow.0);
        }
    }

    /// Ends the transfers that are not `alive` any more, and wakes their clients.
    pub(crate) fn sweep(&mut self, alive: impl Fn(FlowId) -> bool) {
        for (row, slot) in (0..).zip(&mut self.rows) {
            if slot.life == Life::Live && !alive(FlowId(row)) {
                slot.ended();
            }
        }
    }

    /// Wakes every client that waits: the gate has failed.
    pub(crate) fn wake_all(&mut self) {
        self.rows.iter_mut().for_each(Slot::ended);
    }

    /// Clients that wait for a permit.
    pub(crate) fn waiting(&self) -> usize {
        self.rows.iter().filter(|slot| slot.waker.is_some()).count()
    }
}

impl Slot {
    /// Notes a permit, and wakes the client if it waits.
    pub(crate) fn grant(&mut self, permit: Permit) {
        assert!(self.asked.is_some(), "a permit answers an ask");
        self.asked = None;
        let before = self.granted.map_or(0, |granted| granted.bytes);
        self.granted = Some(Permit { bytes: before + permit.bytes, ..permit });
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The size of the next ask, if there should be one now.
    pub(crate) fn next_ask(&self, chunk: u32) -> Option<u32> {
        let granted = self.granted.map_or(0, |granted| u64::from(granted.bytes));
        let wants = self.life == Life::Live && self.asked.is_none() && self.unasked > 0;
        let wants = wants && granted < AHEAD * u64::from(chunk);
        wants.then(|| u32::try_from(self.unasked).unwrap_or(u32::MAX).min(chunk))
    }

    fn ended(&mut self) {
        if self.life == Life::Live {
            self.life = Life::Ended;
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
