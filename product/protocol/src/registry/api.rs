//! Messages between a gateway and the control plane.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Gateway, Region, Replica, Seen, advice_for};
use crate::units::Span;

/// `POST /admin/gateways/NAME`: registers a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Announce {
    /// Its record.
    pub gateway: Gateway,
    /// How long it counts as alive without a renewal.
    pub lease: Span,
}

/// `PUT /admin/gateways/NAME`: renews the lease and reports the gateway's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The lease, as it was granted.
    pub lease: String,
    /// Requests in its queue.
    #[serde(default)]
    pub held: u32,
    /// The replicas that it serves, by name.
    #[serde(default)]
    pub replicas: BTreeMap<String, Load>,
    /// Round trips in ms that the gateway measured, by region.
    #[serde(default)]
    pub rtt_ms: BTreeMap<String, f64>,
}

/// A replica's load as one gateway sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The part that is stored when it changes.
    pub seen: Seen,
    /// Smoothed utilisation, 0 to 1.
    #[serde(default)]
    pub utilisation: f32,
    /// In its batch.
    #[serde(default)]
    pub running: u32,
    /// Accepted, not in its batch yet.
    #[serde(default)]
    pub pending: u32,
}

/// The answer to both: the lease and its duration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leased {
    /// Its name.
    pub lease: String,
    /// Its duration, counted from when the request was sent.
    pub ttl_ms: u64,
}

/// `GET /admin/export` and `POST /admin/import`: everything that operators wrote. What gateways
/// observe comes back by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// Version of the form: 1.
    pub version: u32,
    /// The store that it is from, and its revision; an import does not read them.
    #[serde(default)]
    pub store: String,
    /// The revision.
    #[serde(default)]
    pub revision: u64,
    /// The regions by name.
    pub regions: BTreeMap<String, Region>,
    /// The replicas by name, including removed ones.
    pub replicas: BTreeMap<String, Replica>,
}

/// The answer to an import: how many records it added, changed, and found equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// New records.
    pub added: usize,
    /// Records that were different.
    pub changed: usize,
    /// Records that were the same.
    pub same: usize,
}

/// `GET /admin/status` of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Identifies the store.
    pub store: String,
    /// Its newest revision.
    pub revision: u64,
    /// Seconds since the process started.
    pub uptime_s: f64,
    /// Current followers of the watch.
    pub followers: usize,
    /// Where the store is: a file, or the etcd member in use.
    #[serde(default)]
    pub place: String,
    /// The control plane that does what only one of them may do; absent while none is elected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Every region that has a record, a replica or a gateway.
    pub regions: BTreeMap<String, RegionStatus>,
    /// Records that can't be read, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unreadable: BTreeMap<String, String>,
}

/// A region in the control plane's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionStatus {
    /// The region's desired state.
    pub wanted: String,
    /// Its gateways that are alive.
    pub gateways: Vec<String>,
    /// Replicas that should serve.
    pub replicas: u32,
    /// Of those, the ones that at least one gateway sees up.
    pub up: u32,
    /// Replicas that its load requires; `None` if no gateway has reported its load.
    pub needed: Option<u32>,
    /// The work behind that number, in fully used replicas.
    pub work: Option<f64>,
    /// Requests queued in its gateways.
    pub held: u32,
    /// The same numbers by the role of the replicas: `both`, `prefill` and `decode`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, RoleStatus>,
}

/// The replicas of a region with one role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleStatus {
    /// Replicas that should serve.
    pub replicas: u32,
    /// Of those, the ones that at least one gateway sees up.
    pub up: u32,
    /// Replicas that the load of this role requires; `None` if no gateway has reported it.
    pub needed: Option<u32>,
    /// The work behind that number, in fully used replicas.
    pub work: Option<f64>,
}

impl RegionStatus {
    /// What to change over all models, by role, as in `2 more decode, 1 less prefill`; empty if
    /// nothing.
    #[must_use]
    pub fn advice(&self) -> String {
        let serving = self.roles.iter().filter(|(_, of)| of.replicas > 0);
        let one = |(role, of): (&String, &RoleStatus)| advice_for(role, of.up, of.needed?);
        serving.filter_map(one).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Roles with too few and with too many replicas are named; whole replicas, and roles without a
    // replica, are not.
    #[test]
    fn advice_by_role() {
        let role = |up, needed| RoleStatus { replicas: up, up, needed, ..RoleStatus::default() };
        let mut region = RegionStatus::default();
        region.roles.insert("both".to_owned(), role(2, Some(1)));
        region.roles.insert("prefill".to_owned(), role(0, Some(1)));
        assert_eq!(region.advice(), "");
        region.roles.insert("decode".to_owned(), role(2, Some(4)));
        region.roles.insert("prefill".to_owned(), role(3, Some(2)));
        assert_eq!(region.advice(), "2 more decode, 1 less prefill");
    }
}
