//! The peers of a gateway, in its status.

use serde::{Deserialize, Serialize};

use super::Forwards;
use crate::intervals::Standing;

/// One peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its region.
    pub region: String,
    /// Address that the gateway connects to.
    pub address: String,
    /// `up`, `lost` while it may come back, or `gone`.
    pub state: String,
    /// Up or down, since when and why, with its downtime; none before the first connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// Whether the two gateways share prefixes: they need the same secret and block size.
    pub prefixes: bool,
    /// Digests received since the start.
    pub digests: u64,
    /// Smoothed round trip.
    pub rtt_ms: f32,
    /// Requests queued there.
    pub held: u32,
    /// Its replicas that can take another request now.
    pub eligible: u32,
    /// Its replicas that are in service.
    pub usable: u32,
    /// Mean utilisation of the replicas in service, 0 to 1.
    pub utilisation: f32,
    /// Milliseconds since its newest digest; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_age_ms: Option<f64>,
    /// The models it serves. None if it does not report them; it may then serve any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Requests forwarded to it.
    pub sent: Forwards,
    /// Requests forwarded from it.
    pub taken: Forwards,
    /// For a gateway of the same region, which gets no requests from this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sibling: Option<Sibling>,
    /// Why it is not up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What two gateways of one region tell each other about their requests, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sibling {
    /// Records that this gateway told.
    pub told: u64,
    /// Their bytes.
    pub told_bytes: u64,
    /// Records that the other one told.
    pub heard: u64,
    /// Their bytes.
    pub heard_bytes: u64,
}
