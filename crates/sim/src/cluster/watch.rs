//! Records the flows at one port, with their reasons.

use meridian_base::{FlowId, Time};

use super::report::{Holding, Slice};
use super::setup::Watch;
use super::wires::Wires;

/// Most slices that are kept.
const MOST: usize = 100_000;

/// A port under watch.
#[derive(Debug)]
pub(crate) struct Watching {
    watch: Watch,
    slices: Vec<Slice>,
    now: Vec<(FlowId, f64)>,
    open: bool,
}

impl Watching {
    pub(crate) fn new(watch: Watch) -> Watching {
        Watching { watch, slices: Vec::new(), now: Vec::new(), open: false }
    }

    /// Records the port after its rates were settled.
    pub(crate) fn look(&mut self, now: Time, wires: &Wires) {
        let until = self.watch.from + self.watch.span;
        if now < self.watch.from || (now > until && !self.open) {
            return;
        }
        let there = wires.at(self.watch.port);
        let seen: Vec<(FlowId, f64)> = there.iter().map(|(id, rate, _)| (*id, *rate)).collect();
        if seen == self.now && now <= until {
            return;
        }
        if let Some(last) = self.slices.last_mut().filter(|_| self.open) {
            last.to = now.min(until);
        }
        self.now = seen;
        self.open = now <= until && self.slices.len() < MOST;
        if self.open {
            let holder = |(_, rate, carried): &(FlowId, f64, super::wires::Carried)| Holding {
                flow: carried.nth_flow,
                stage: carried.stage,
                owner: carried.owner,
                layer: carried.layer,
                level: carried.place.level.0,
                rate: *rate,
                why: carried.why,
            };
            let holders = there.iter().map(holder).collect();
            self.slices.push(Slice { from: now, to: now, holders });
        }
    }

    /// The recorded slices, without instants and idle times.
    pub(crate) fn slices(mut self) -> Vec<Slice> {
        self.slices.retain(|slice| slice.to > slice.from && !slice.holders.is_empty());
        self.slices
    }
}
