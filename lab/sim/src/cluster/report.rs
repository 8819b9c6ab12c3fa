//! The results of a run.

use meridian_base::{Duration, PortId, Time};
use meridian_fabric::PortName;
use meridian_flow::{Stage, Why};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its pool's index in the setup.
    pub pool: u32,
    /// When it arrived.
    pub at: Time,
    /// Tokens of its prompt.
    pub tokens: u32,
    /// Tokens that were fetched or already there.
    pub matched: u32,
    /// Whether it is in the tight tier.
    pub tight: bool,
    /// Its TTFT at low load.
    pub alone: Duration,
    /// When its first token was due.
    pub due: Time,
    /// When its first token arrived.
    pub first: Time,
}

impl Record {
    /// From its arrival to its first token.
    #[must_use]
    pub fn ttft(&self) -> Duration {
        self.first.since(self.at)
    }

    /// Seconds before its deadline, negative if it was late.
    #[must_use]
    pub fn earliness(&self) -> f64 {
        self.due.as_secs_f64() - self.first.as_secs_f64()
    }

    /// Whether it was in time.
    #[must_use]
    pub fn in_time(&self) -> bool {
        self.first <= self.due
    }
}

/// A running mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    /// Values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

impl Mean {
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
    }

    /// The mean, `None` without values.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// The flows at the watched port during an interval without changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// From when.
    pub from: Time,
    /// Until when.
    pub to: Time,
    /// The flows at the port, by precedence.
    pub holders: Vec<Holding>,
}

/// A flow at the watched port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holding {
    /// How many flows of the run started before it, which identifies it.
    pub flow: u64,
    /// Its stage.
    pub stage: Stage,
    /// Its request, or its batch's replica for a collective.
    pub owner: u32,
    /// Its layer.
    pub layer: u16,
    /// Its level and class.
    pub level: u8,
    /// Its rate in bytes a second.
    pub rate: f64,
    /// The reason for its place.
    pub why: Why,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Every request, in the order of arrival.
    pub records: Vec<Record>,
    /// By pool, seconds that computation waited for an exchange.
    pub exchanges: Vec<Mean>,
    /// By pool, seconds that a layer waited for its fetch, if it waited.
    pub stalls: Vec<Mean>,
    /// Batches, and flows that were carried.
    pub batches: u64,
    /// Flows that were carried.
    pub flows: u64,
    /// Events of the run: computations, ends of flows, updates of the machine.
    pub events: u64,
    /// Requests given up as infeasible or pruned.
    pub demoted: u64,
    /// When the last request ended.
    pub end: Time,
    /// The busiest ports relative to their rates: id, name, and the share of the rate over the
    /// whole run.
    pub busiest: Vec<(PortId, PortName, f64)>,
    /// The flows at the watched port.
    pub slices: Vec<Slice>,
    /// Bytes carried over all ports of cards, in and out.
    pub carried: f64,
}

/// A flow that was listed explicitly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// When it could start.
    pub began: Time,
    /// When its last byte arrived.
    pub ended: Time,
}

/// The result of a run of listed flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenReport {
    /// By flow.
    pub flows: Vec<Ran>,
    /// The flows in the order in which they started.
    pub began: Vec<u32>,
    /// When the last one ended.
    pub end: Time,
    /// Requests given up as infeasible or pruned.
    pub given_up: u64,
    /// Bytes that each port carried.
    pub carried: Vec<f64>,
    /// The flows at the watched port.
    pub slices: Vec<Slice>,
}
