//! `GET /admin/route53`: the records in the hosted zone of AWS Route 53.

use serde::{Deserialize, Serialize};

/// What the control plane knows of the hosted zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosted {
    /// Id of the hosted zone.
    pub zone: String,
    /// The name that clients use.
    pub name: String,
    /// Whether this control plane is the leader, which makes the changes.
    pub leads: bool,
    /// How long ago it last saw the records as the fleet needs them, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_order_ms_ago: Option<u64>,
    /// Why the newest attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Gateways and names that are left out, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Its records in the zone, as it last read or wrote them.
    pub records: Vec<HostedRecord>,
}

/// One record that Meridian made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedRecord {
    /// Its name.
    pub name: String,
    /// `A` or `AAAA`.
    pub kind: String,
    /// The set identifier.
    pub id: String,
    /// An address, or the name of a region.
    pub answer: String,
    /// The AWS region of a latency record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_region: Option<String>,
    /// Id of its health check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<String>,
}
