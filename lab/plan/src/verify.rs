//! Compares measured rates between servers with a topology, and finds the links that are slower.
//!
//! The caller measures: one pair of cards after the other ([`pairs()`]), and, for the oversubscription
//! of a core, all at once ([`together`]). From the pairs that are slow, and those that are not,
//! [`slow`] infers which card, direction or switch they share. [`cost()`] says what that means for a
//! plan.
//!
//! It covers links between servers. NVLink, PCIe and the links between sockets are not measured.

mod core;
mod cost;
mod locate;
mod pairs;
mod place;

pub use core::{Uplink, together, uplinks};
pub use cost::{Cost, Figures, cost, with_measured};
pub use locate::{Slow, Untested, slow, untested};
pub use pairs::{Measured, Pair, Port, compared, pairs, port};
pub use place::Place;

/// A pair, or an uplink, that carries less than this share of what the topology says is slow.
/// Transfers that are well get 0.94 of a link's rate over TCP with frames of 1,500 bytes, and the
/// topology counts on 0.9.
pub const SLOW: f64 = 0.8;

/// If the ends of a stream compute, or wait for a processor, for this share of the time, the
/// processor and not the link may be the limit.
pub const BUSY: f64 = 0.8;

#[cfg(test)]
mod tests;
