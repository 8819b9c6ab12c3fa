//! Sources of replicas in a gateway's status.

use serde::{Deserialize, Serialize};

/// A source of replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its kind and its name, as configured.
    pub name: String,
    /// Replicas it contributes now.
    pub replicas: usize,
    /// Failed polls.
    pub failures: u64,
    /// Seconds since the last successful poll; none before the first.
    pub good_s: Option<f64>,
    /// Why the newest poll failed. The earlier result stays in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Replicas that are left out, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Number of replicas left out because the gateway has `limits.replicas` already.
    #[serde(default)]
    pub left_out: usize,
    /// The endpoints of a Kubernetes cluster in the newest list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<EndpointCounts>,
}

/// Endpoints of a Kubernetes cluster by their readiness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointCounts {
    /// These get requests, if the gateway's own probes succeed.
    pub ready: usize,
    /// These get no new requests for now.
    pub not_ready: usize,
    /// These finish their requests and go.
    pub terminating: usize,
}
