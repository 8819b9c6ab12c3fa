//! Records the flows at one port, with their reasons.

use meridian_base::Time;

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
    /// Whether the last slice still lasts.
    open: bool,
}

impl Watching {
    pub(crate) fn new(watch: Watch) -> Watching {
        Watching { watch, slices: Vec::new(), open: false }
    }

    /// Records the port after its rates were settled.
    pub(crate) fn look(&mut self, now: Time, wires: &Wires) {
        let until = self.watch.from + self.watch.span;
        if now < self.watch.from || (now > until && !self.open) {
            return;
        }
        let holders = wires.at(self.watch.port);
        if let Some(last) = self.slices.last_mut().filter(|_| self.open) {
            let rate = |one: &Holding| (one.flow, one.rate);
            if now <= until && last.holders.iter().map(rate).eq(holders.iter().map(rate)) {
                return;
            }
            last.to = now.min(until);
        }
        self.open = now <= until && self.slices.len() < MOST;
        if self.open {
            self.slices.push(Slice { from: now, to: now, holders });
        }
    }

    /// The recorded slices, without instants and idle times.
    pub(crate) fn slices(mut self) -> Vec<Slice> {
        self.slices.retain(|slice| slice.to > slice.from && !slice.holders.is_empty());
        self.slices
    }
}
