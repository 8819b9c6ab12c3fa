//! What a gateway tells the control plane of itself, and what it hears.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Gateway, Seen};
use crate::config::Span;

/// `POST /admin/gateways/NAME`: a gateway says that it lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Announce {
    /// Its record.
    pub gateway: Gateway,
    /// How long it counts as alive without a renewal.
    pub lease: Span,
}

/// `PUT /admin/gateways/NAME`: it still lives, and this is how it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The lease, as it was granted.
    pub lease: String,
    /// Requests that it holds.
    #[serde(default)]
    pub held: u32,
    /// The replicas that it serves, by name.
    #[serde(default)]
    pub replicas: BTreeMap<String, Load>,
    /// Round trips in ms that it measured, by region.
    #[serde(default)]
    pub rtt_ms: BTreeMap<String, f64>,
}

/// A replica's load as one gateway sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// What is written down of it when it changes.
    pub seen: Seen,
    /// Smoothed utilisation, 0 to 1.
    #[serde(default)]
    pub utilisation: f32,
    /// In its batch.
    #[serde(default)]
    pub running: u32,
    /// Accepted and not in its batch.
    #[serde(default)]
    pub pending: u32,
}

/// The answer to both: the lease, and how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leased {
    /// Its name.
    pub lease: String,
    /// How long it lasts from when the question was asked.
    pub ttl_ms: u64,
}

/// `GET /admin/status` of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Names the store.
    pub store: String,
    /// Its newest revision.
    pub revision: u64,
    /// Seconds since the process started.
    pub uptime_s: f64,
    /// Followers of the watch now.
    pub followers: usize,
    /// Every region that has a record, a replica or a gateway.
    pub regions: BTreeMap<String, RegionStatus>,
    /// Records that can't be read, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unreadable: BTreeMap<String, String>,
}

/// A region in the control plane's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionStatus {
    /// What is wanted of it.
    pub wanted: String,
    /// Its living gateways.
    pub gateways: Vec<String>,
    /// Replicas that are to serve.
    pub replicas: u32,
    /// Of those, the ones that some gateway sees up.
    pub up: u32,
    /// Replicas that its load asks for; `None`: nobody has told of its load.
    pub needed: Option<u32>,
    /// The work behind that, in replicas that are fully used.
    pub work: Option<f64>,
    /// Requests held by its gateways.
    pub held: u32,
}
