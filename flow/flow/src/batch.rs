//! A batch as the driver describes it: its requests, their objectives, and their planned transfers.
//!
//! The plan is an estimate (for mixtures of experts from past routing), used by feasibility and by
//! the minimal link utilisation of layers that are not computed yet. Without a plan the machine
//! knows only the submitted flows. That is enough for an engine that moves its KV once, after the
//! prefill.

use alloc::vec::Vec;
use meridian_base::{BatchId, Duration, PortId, RequestId, Time};

/// A batch whose service starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Its row, chosen by the driver, free until the batch has departed.
    pub id: BatchId,
    /// Distinguishes it from earlier batches in the row: it grows with each, and is the same on every
    /// node that takes part in the batch.
    pub number: u64,
    /// Layers of the model, at least 1.
    pub layers: u16,
    /// Estimated time of one layer's computation; the observed pace replaces it.
    pub layer_time: Duration,
    /// Bytes of all its collectives that this node sends, by port.
    pub collectives: Vec<(PortId, u64)>,
    /// Its requests that this node sends bytes of. May be empty for a batch with collectives.
    pub requests: Vec<Member>,
}

/// One request of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The request.
    pub id: RequestId,
    /// When its first token is due (TTFT); `None` for best effort.
    pub deadline: Option<Time>,
    /// The objective behind the deadline: its length from the request's arrival.
    pub slo: Duration,
    /// The time that decode needs after the last byte, before the first token.
    pub decode: Duration,
    /// Its planned transfers, by port; may be empty.
    pub plan: Vec<PortPlan>,
}

/// A request's planned transfers over a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPlan {
    /// The port.
    pub port: PortId,
    /// Bytes of stage 1, all layers.
    pub reuse: u64,
    /// Bytes of stage 3, all layers, equally from each.
    pub handoff: u64,
}
