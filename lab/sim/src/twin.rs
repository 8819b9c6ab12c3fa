//! A run as the twin of a live one: imitates the drivers around a gateway's machine.
//!
//! The machines are the same on both sides, their drivers are not. Timers of a process fire on
//! whole ticks of its clock, not at the nanosecond; an engine handles each arrival separately,
//! makes every decode step, and reports its load in the header of every answer. None of this
//! changes an experiment's result, and all of it costs time, so a run does it only for a comparison
//! with a live one, decision by decision (`lab/perf/tests/parity`).
//!
//! It imitates the drivers, not the time of sockets, which is part of the network's RTT.

use meridian_base::{Duration, Time};
use meridian_routing::Digest;

/// The behaviour of a live run's drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Every event happens on a multiple of this, never early: 1 ms for tokio's timers.
    pub tick: Duration,
    /// The seed of all gateways' machines, which share one secret.
    pub gateway_seed: u64,
    /// Answers carry the engine's load in their headers (ORCA).
    pub headers: bool,
}

/// When a gateway's process publishes its digest. It checks after each change, at most once in
/// `on_change`, and publishes a digest that differs from the last, or any once `every` has passed.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    pub(crate) looked: Time,
    pub(crate) published: Time,
    /// The next scheduled check.
    pub(crate) due: Option<Time>,
    pub(crate) last: Digest,
}
