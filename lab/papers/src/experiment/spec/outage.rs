//! Outages: parts of the world that are lost for a part of a run.

use serde::{Deserialize, Serialize};

/// An outage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// What is lost.
    pub lost: Lost,
    /// Its start, as a share of the measured window, 0 to 1.
    pub from: f64,
    /// Its end, likewise.
    pub until: f64,
}

/// What is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// The gateways of this region.
    Gateways(String),
    /// Its gateways and its replicas.
    Region(String),
    /// The messages between it and every other region.
    Links(String),
}

impl Lost {
    /// The region.
    #[must_use]
    pub fn region(&self) -> &str {
        match self {
            Lost::Gateways(region) | Lost::Region(region) | Lost::Links(region) => region,
        }
    }
}
