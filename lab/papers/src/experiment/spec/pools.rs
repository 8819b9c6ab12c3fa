//! Pools: groups of replicas that compute prompts or write answers, and the network between them.

use meridian_protocol::admin::RoleName;
use serde::{Deserialize, Serialize};

/// The part of requests that a group's replicas take, and how they move KV.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// `prefill` or `decode`.
    pub role: RoleName,
    /// Rate of a replica's network card in each direction, in 10^9 bits per second.
    #[serde(default = "card")]
    pub gbps: f64,
    /// Its rack, by its place in the fleet's `racks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<usize>,
}

/// As `meridian_sim::Transfer`.
fn card() -> f64 {
    100.0
}
