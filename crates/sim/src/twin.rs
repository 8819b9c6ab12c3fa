//! A run as the twin of a live one: what a gateway with real sockets does on top of its machine.
//!
//! The machines are the same on both sides, their drivers are not. Timers of a process fire on
//! whole ticks of its clock, not at the nanosecond; an engine takes each arrival by itself, makes
//! every decode step, and tells its load in the header of every answer. None of this changes what
//! an experiment shows, and all of it costs time, so a run does it only when it is to be compared
//! with a live one, decision by decision (`crates/bench/tests/parity.rs`).
//!
//! It knows what the drivers do, not how long sockets take: that is part of the network's RTT.

mod digests;
mod timers;

use meridian_base::{Duration, Time};
use meridian_routing::Digest;

/// What a live run's drivers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Everything happens on a multiple of this, never early: 1 ms for tokio's timers.
    pub tick: Duration,
    /// The seed of all gateways' machines, which have one secret.
    pub gateway_seed: u64,
    /// Answers carry the engine's load in their headers (ORCA).
    pub headers: bool,
}

/// When a gateway's process publishes its digest: it looks when something happened, at most once in
/// `on_change`, and publishes a digest that differs from the last, or any once `every` is over.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    looked: Time,
    published: Time,
    /// The next look that was entered.
    due: Option<Time>,
    last: Digest,
}
