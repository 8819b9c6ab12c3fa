//! Reasons for decisions, with their numbers. Every decision has one.

use core::fmt;
use meridian_base::{Duration, PortId};

/// The reason for a flow's place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The policy does not distinguish flows.
    Equal,
    /// By its stage only.
    Stage,
    /// The smallest goes first.
    Size {
        /// Its bytes.
        bytes: u64,
    },
    /// The earliest deadline goes first.
    Deadline,
    /// Limited to the minimum rate that meets its deadline.
    LeastRate {
        /// Bytes a second.
        rate: f64,
    },
    /// By its distance from the computation.
    Rli {
        /// Layers until its data is needed.
        rli: u16,
    },
    /// By its distance from the computation, and behind collectives: its batch has time.
    Waits {
        /// Layers until its data is needed.
        rli: u16,
    },
    /// Its request needs the top threshold's share of a port, but the flows that it would pass have
    /// no time.
    HeldBack {
        /// The minimal link utilisation, infinite if no rate is enough.
        mlu: f64,
        /// The port with the largest need.
        port: PortId,
    },
    /// By the share of a port that its request needs.
    Mlu {
        /// The minimal link utilisation, infinite if no rate is enough.
        mlu: f64,
        /// The port with the largest need.
        port: PortId,
    },
    /// Its request can't be in time, even alone on the port.
    Infeasible {
        /// The minimal link utilisation.
        mlu: f64,
        /// The port with the largest need.
        port: PortId,
    },
    /// Its request was pruned so that others can be in time.
    Pruned,
    /// Its deadline has passed.
    Late,
    /// It made no progress for too long.
    Aged {
        /// Levels that it rose for that.
        lift: u8,
    },
}

impl Why {
    /// A stable word for metric labels.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Why::Equal => "equal",
            Why::Stage => "stage",
            Why::Size { .. } => "size",
            Why::Deadline => "deadline",
            Why::LeastRate { .. } => "least_rate",
            Why::Rli { .. } => "rli",
            Why::Waits { .. } => "waits",
            Why::HeldBack { .. } => "held_back",
            Why::Mlu { .. } => "mlu",
            Why::Infeasible { .. } => "infeasible",
            Why::Pruned => "pruned",
            Why::Late => "late",
            Why::Aged { .. } => "aged",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Size { bytes } => write!(f, "size {bytes}"),
            Why::LeastRate { rate } => write!(f, "least rate {rate:.0}"),
            Why::Rli { rli } => write!(f, "rli {rli}"),
            Why::Waits { rli } => write!(f, "rli {rli}, behind collectives"),
            Why::HeldBack { mlu, port } => write!(f, "held back: mlu {mlu:.3} at {port}"),
            Why::Mlu { mlu, port } => write!(f, "mlu {mlu:.3} at {port}"),
            Why::Infeasible { mlu, port } => write!(f, "infeasible: mlu {mlu:.3} at {port}"),
            Why::Aged { lift } => write!(f, "aged {lift}"),
            other => f.write_str(other.word()),
        }
    }
}

/// Why a permit was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitWhy {
    /// The port had free window.
    Free,
    /// It was the first of the waiting flows.
    First,
    /// The gate failed open: the flow waited as long as a collective may, or its port had stalled.
    FailOpen,
}

/// The driver's remedy for the requests that a pruned request delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lever {
    /// No fetch has started: take the request out of the batch, or recompute its prefix.
    Defer,
    /// It computes with the batch: only its handoff can go behind all others. This saves nothing of
    /// the batch's collectives.
    DemoteHandoff,
}

/// The result of a pass for a pruned request's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneWhy {
    /// The bottleneck.
    pub port: PortId,
    /// By how much the batch would have ended after its loose deadline.
    pub late_by: Duration,
    /// Bytes that pruning removes from the bottleneck.
    pub bytes: u64,
}

/// The effect of a pass on a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passed {
    Pruned { request: u32, lever: Lever, why: PruneWhy },
    Reinstated { request: u32 },
}
