//! Templates for switches: code point to queue to scheduler.
//!
//! A switch has eight queues and needs some for control and for unmarked traffic, so the eight
//! classes share five: the upper three bits of their code points, which is the map that most
//! switches have anyway. Queues share by weight, which keeps the floor that strict priority would
//! take away: collectives get their weight whenever they need it, and all that the others leave.

mod cumulus;
mod eos;
mod junos;
mod nxos;
mod sonic;
#[cfg(test)]
mod tests;

use super::class::{Class, Classes, EIGHT};
use super::shape::{ShapeError, leaves_enough};
use super::text::Percent;

/// An operating system of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    Sonic,
    Cumulus,
    Eos,
    Nxos,
    Junos,
}

/// The shares of a port.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    classes: Classes,
    floor: Percent,
    unmarked: Percent,
}

/// A queue of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) number: u8,
    /// Share of the port in percent.
    pub(crate) weight: u8,
    /// Code points of its packets; empty for unmarked traffic.
    pub(crate) dscps: Vec<u8>,
    /// The names of its classes.
    pub(crate) holds: String,
}

/// The parts of the floor that queues 4 to 1 get with eight classes, in tenths.
const PARTS: [(u8, u8); 4] = [(4, 4), (3, 3), (2, 2), (1, 1)];

impl Weights {
    /// Weights for `floor` and `unmarked` percent.
    ///
    /// # Errors
    ///
    /// When they leave too little to collectives.
    pub fn new(classes: Classes, floor: Percent, unmarked: Percent) -> Result<Weights, ShapeError> {
        leaves_enough(floor, unmarked)?;
        Ok(Weights { classes, floor, unmarked })
    }

    /// The queues in use, the most urgent first; their weights are 100 together.
    pub(crate) fn queues(self) -> Vec<Queue> {
        let (floor, unmarked) = (self.floor.get(), self.unmarked.get());
        let lower: Vec<(u8, u8)> = match self.classes {
            Classes::Two => vec![(super::KV.queue(), floor)],
            // A weight of 0 would be no service at all.
            Classes::Eight => PARTS.map(|(queue, part)| (queue, (floor * part / 10).max(1))).into(),
        };
        let used: u8 = lower.iter().map(|(_, weight)| weight).sum();
        let upper = (super::COLLECTIVE.queue(), 100 - unmarked - used);
        let mut queues: Vec<Queue> = [upper]
            .into_iter()
            .chain(lower)
            .map(|(number, weight)| self.queue(number, weight))
            .collect();
        let holds = "unmarked traffic".into();
        queues.push(Queue { number: 0, weight: unmarked, dscps: Vec::new(), holds });
        queues
    }

    fn queue(self, number: u8, weight: u8) -> Queue {
        let is_here = |class: &&Class| self.classes.fold(**class).queue() == number;
        // With two classes, critical handoffs count as KV.
        let here: Vec<&Class> = EIGHT.iter().filter(is_here).collect();
        let names: Vec<&str> = here.iter().map(|class| class.name).collect();
        let dscps = here.iter().map(|class| class.dscp).collect();
        Queue { number, weight, dscps, holds: names.join(", ") }
    }
}

impl Vendor {
    /// The template for one port, to be repeated for the others.
    #[must_use]
    pub fn template(self, weights: Weights) -> String {
        let queues = weights.queues();
        match self {
            Vendor::Sonic => sonic::template(&queues),
            Vendor::Cumulus => cumulus::template(&queues),
            Vendor::Eos => eos::template(&queues),
            Vendor::Nxos => nxos::template(&queues),
            Vendor::Junos => junos::template(&queues),
        }
    }
}

/// `a, b, c` of numbers, with a separator of the vendor's.
fn join(numbers: &[u8], separator: &str) -> String {
    numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(separator)
}
