//! Why an input is refused. Each reason names the field, the value and the remedy.

use core::fmt;
use meridian_base::{BatchId, FlowId, PortId, RequestId, Time};

/// The object of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A flow.
    Flow(FlowId),
    /// A request.
    Request(RequestId),
    /// A batch.
    Batch(BatchId),
    /// A port.
    Port(PortId),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Flow(id) => id.fmt(f),
            Subject::Request(id) => id.fmt(f),
            Subject::Batch(id) => id.fmt(f),
            Subject::Port(id) => id.fmt(f),
        }
    }
}

/// Why the input was refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// A flow without size.
    NoBytes,
    /// A flow of more bytes than the machine can add up.
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// A flow that crosses no port.
    NoPorts,
    /// A flow that crosses a port twice.
    PortTwice(PortId),
    /// A port that was never registered.
    UnknownPort(PortId),
    /// A port without a rate.
    DeadPort(f64),
    /// An id beyond its table.
    BeyondTable {
        /// The limit's field.
        field: &'static str,
        /// The id.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// A table is full.
    Full {
        /// The limit's field.
        field: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The id is in use.
    Taken,
    /// No such flow, request or batch.
    Unknown,
    /// A flow's owner is not registered.
    UnknownOwner(Subject),
    /// A flow of stage 1 or 2 of a request whose batch has departed.
    Departed,
    /// A handoff that belongs to no single request.
    HandoffOfBatch(BatchId),
    /// A batch without requests.
    NoRequests,
    /// A batch without layers, or with too many.
    Layers {
        /// The number given.
        value: u16,
        /// The most.
        most: u16,
    },
    /// A layer that the model does not have.
    LayerBeyond {
        /// The layer.
        layer: u16,
        /// The model's number of layers.
        layers: u16,
    },
    /// A layer before the current one in the same generation: layers would run in a cycle.
    LayerCycle {
        /// The layer.
        layer: u16,
        /// The current layer.
        current: u16,
        /// The generation.
        generation: u32,
    },
    /// A deadline that has passed before the request starts.
    DeadlinePast {
        /// The deadline.
        deadline: Time,
        /// Now.
        now: Time,
    },
    /// More bytes completed than the flow had.
    TooManyBytes {
        /// The bytes reported.
        bytes: u64,
        /// The bytes left.
        left: u64,
    },
    /// A flow that asks for 0 bytes.
    NoChunk,
    /// A flow that asks while it already waits.
    AskedTwice,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoBytes => write!(f, "bytes is 0: submit a flow with its size"),
            Refusal::TooLarge { bytes, most } => {
                write!(f, "bytes is {bytes}: a flow has {most} at most, so split it")
            }
            Refusal::NoPorts => write!(f, "ports is empty: name the ports, the sender's first"),
            Refusal::PortTwice(port) => write!(f, "ports names {port} twice: name it once"),
            Refusal::UnknownPort(port) => {
                write!(f, "ports names {port}, which was not described: send its rate first")
            }
            Refusal::DeadPort(rate) => write!(
                f,
                "bytes_per_second is {rate}: a port has a rate above 0; leave a dead one out"
            ),
            Refusal::BeyondTable { field, value, limit } => {
                write!(f, "id {value} is not below {field} = {limit}: raise it, or reuse ids")
            }
            Refusal::Full { field, limit } => {
                write!(f, "{field} = {limit} are in use: raise it, or end what is over")
            }
            Refusal::Taken => write!(f, "id is in use: end what has it, or take a free one"),
            Refusal::Unknown => write!(f, "id is unknown: it was never started, or it has ended"),
            Refusal::UnknownOwner(owner) => {
                write!(f, "owner {owner} is unknown: announce its batch first")
            }
            Refusal::Departed => {
                write!(f, "stage is early and the batch has departed: only handoffs remain")
            }
            Refusal::HandoffOfBatch(batch) => write!(
                f,
                "owner {batch} of a handoff: it has a request's deadline, submit one a request"
            ),
            Refusal::NoRequests => {
                write!(f, "requests is empty: a batch has requests or collectives")
            }
            Refusal::Layers { value, most } => {
                write!(f, "layers is {value}: use 1 to limits.layers = {most}")
            }
            Refusal::LayerBeyond { layer, layers } => {
                write!(f, "layer is {layer} of a model of {layers}: layers count from 0")
            }
            Refusal::LayerCycle { layer, current, generation } => write!(
                f,
                "layer {layer} comes after layer {current} in generation {generation}, so layers \
                 run in a cycle: count up, or begin a new generation for a new chunk"
            ),
            Refusal::DeadlinePast { deadline, now } => write!(
                f,
                "deadline {deadline} is not after {now}: send none to have it served best effort"
            ),
            Refusal::TooManyBytes { bytes, left } => {
                write!(f, "bytes is {bytes}, and the flow had {left} left: it counts as over")
            }
            Refusal::NoChunk => write!(f, "bytes is 0: ask for at least one byte"),
            Refusal::AskedTwice => write!(f, "already waits for a permit: ask again after it"),
        }
    }
}

impl core::error::Error for Refusal {}
