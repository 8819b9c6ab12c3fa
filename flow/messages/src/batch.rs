//! A batch as an engine reports it to the gate, and a node to the coordinator.

use serde::{Deserialize, Serialize};

/// A batch that starts to compute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Its number: the same on all nodes that take part in it, and never used again.
    pub batch: u64,
    /// Layers of the model.
    #[serde(default = "one")]
    pub layers: u16,
    /// Estimated microseconds to compute one layer.
    #[serde(default)]
    pub layer_us: f64,
    /// Bytes of its collectives that this node sends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<PortBytes>,
    /// Its requests that this node transfers bytes of.
    #[serde(default)]
    pub requests: Vec<Request>,
}

/// A request of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Its number: the same on all nodes.
    pub request: u64,
    /// Milliseconds until its first token is due; absent for best effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_left_ms: Option<f64>,
    /// Its whole TTFT objective, milliseconds; what is left of it by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_ms: Option<f64>,
    /// Milliseconds that decode needs after the last byte.
    #[serde(default)]
    pub decode_ms: f64,
    /// Its planned transfers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PortPlan>,
}

/// Bytes that cross a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortBytes {
    /// The port.
    pub port: String,
    /// Bytes.
    pub bytes: u64,
}

/// A request's planned transfers over a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortPlan {
    /// The port.
    pub port: String,
    /// Bytes of cached KV that are fetched.
    #[serde(default)]
    pub reuse: u64,
    /// Bytes of KV that go to decode.
    #[serde(default)]
    pub handoff: u64,
}

fn one() -> u16 {
    1
}
