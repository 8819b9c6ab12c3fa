//! Reasons, with their numbers. Every choice carries one.

use core::fmt;
use meridian_base::{Duration, PortId};

/// Why a flow stands where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The policy does not tell flows apart.
    Equal,
    /// By its stage alone.
    Stage,
    /// The smallest goes first.
    Size {
        /// Its bytes.
        bytes: u64,
    },
    /// The earliest deadline goes first.
    Deadline,
    /// Held to the least rate that meets its deadline.
    LeastRate {
        /// Bytes a second.
        rate: f64,
    },
    /// By its distance from the computation.
    Rli {
        /// Layers until its data is needed.
        rli: u16,
    },
    /// By the share of a port that its request needs.
    Mlu {
        /// The minimal link utilisation, infinite where nothing is enough.
        mlu: f64,
        /// The port that needs most.
        port: PortId,
    },
    /// Its request can't be in time, even alone on the port.
    Infeasible {
        /// The minimal link utilisation.
        mlu: f64,
        /// The port that needs most.
        port: PortId,
    },
    /// Its request was pruned to let others be in time.
    Pruned,
    /// Its deadline is over.
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
    /// The port had room.
    Free,
    /// It was the first of those that waited.
    First,
    /// It waited as long as a collective may: the gate fails open.
    FailOpen,
}

/// What the driver can do for those that a pruned request stands in the way of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lever {
    /// Nothing has been fetched: take the request out of the batch, or recompute its prefix.
    Defer,
    /// It computes with the batch: only its handoff can be put behind all others. Nothing of the
    /// batch's collectives is saved.
    DemoteHandoff,
}

/// What a pass found about a pruned request's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneWhy {
    /// The bottleneck.
    pub port: PortId,
    /// By how much the batch would have ended after its loose deadline.
    pub late_by: Duration,
    /// Bytes that it takes off the bottleneck.
    pub bytes: u64,
}
