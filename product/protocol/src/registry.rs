//! The registry's records: JSON values under the keys of a store.
//!
//! Desired records are written by operators and stay until an operator changes them. Observed
//! records are written by gateways about themselves and about replicas. Each is tied to the lease
//! of the gateway that wrote it, so it disappears when it is no longer renewed.

mod api;
mod check;
mod distances;
mod follow;
mod hosted;
mod kept;
mod names;
mod needs;
mod public;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::admin::AddReplica;
use crate::policy::Policy;

pub use api::{Announce, Export, Imported, Leased, Load, RegionStatus, Renew, RoleStatus, Status};
pub use distances::{Distances, distances};
pub use follow::{Beat, Change, Snapshot, Update};
pub use hosted::{Hosted, HostedRecord};
pub use kept::{Kept, NotKept};
pub use names::{NameRow, Names};
pub use needs::{Work, advice_for};
pub use public::public_addresses;

/// The desired state of a replica or a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// Serve requests.
    #[default]
    Up,
    /// Finish current requests and take no new ones.
    Draining,
    /// Removed. The record stays, so a gateway whose own file still lists the replica leaves it
    /// out.
    Removed,
}

impl Wanted {
    /// Its name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Wanted::Up => "up",
            Wanted::Draining => "draining",
            Wanted::Removed => "removed",
        }
    }
}

/// `desired/region/NAME`: a region and its policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Labels that rules refer to, such as `jurisdiction: eu`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The policy with its weights; the gateways' own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The desired state. Draining forwards every new request to other regions.
    #[serde(default)]
    pub wanted: Wanted,
    /// Round trips in ms from gateways here to other regions, used until they are measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rtt_ms: BTreeMap<String, f64>,
    /// Regions whose gateways may adopt the replicas while none of its own gateways is alive; any
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopters: Option<Vec<String>>,
}

/// `desired/replica/NAME`: a replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replica {
    /// Its region.
    pub region: String,
    /// Its address and models, as in a gateway's configuration.
    pub spec: AddReplica,
    /// Labels that rules refer to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The desired state.
    #[serde(default)]
    pub wanted: Wanted,
}

impl Replica {
    /// Whether it is part of the fleet (not removed).
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.wanted != Wanted::Removed
    }
}

/// `observed/gateway/NAME`: a gateway that is alive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gateway {
    /// Its region.
    pub region: String,
    /// Address for clients.
    pub address: String,
    /// Address for peers, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_address: Option<String>,
    /// Addresses at which clients reach it, if they differ from the one above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub public: Vec<IpAddr>,
    /// The program's version.
    pub version: String,
    /// Measured round trips in ms to the regions of its peers. Updated only when one changes by a
    /// quarter, since assignments depend on them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rtt_ms: BTreeMap<String, f64>,
    /// It shuts down: its record is about to disappear.
    #[serde(default, skip_serializing_if = "is_false")]
    pub leaving: bool,
}

/// `observed/load/NAME`: what a gateway last reported, for control planes that share a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Requests in its queue.
    pub held: u32,
    /// The replicas that it serves, by name.
    pub replicas: BTreeMap<String, Load>,
}

/// `observed/replica/NAME/GATEWAY`: a replica as one gateway sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// `unproven`, `up`, `down` or `draining`.
    pub state: String,
    /// Why it is in that state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// It belongs to another region, none of whose gateways is alive.
    #[serde(default, skip_serializing_if = "is_false")]
    pub adopted: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(is: &bool) -> bool {
    !*is
}

#[cfg(test)]
mod tests {
    use super::*;

    // The short form of a record is enough, absent fields get their defaults, and a misspelt key is
    // refused.
    #[test]
    fn records_are_short_and_strict() {
        let text = r#"{"region":"eu","spec":{"url":"http://10.0.0.1:8000"}}"#;
        let replica: Replica = serde_json::from_str(text).unwrap();
        assert_eq!(replica.wanted, Wanted::Up);
        let again = serde_json::to_string(&replica).unwrap();
        assert_eq!(serde_json::from_str::<Replica>(&again).unwrap(), replica);
        let misspelt = text.replace("spec", "specs");
        assert!(serde_json::from_str::<Replica>(&misspelt).is_err());
        let region: Region = serde_json::from_str(r#"{"policy":"chwbl"}"#).unwrap();
        assert_eq!(region.policy.map(|policy| policy.name), Some("chwbl".to_owned()));
    }

    // A gateway's record has no list of public addresses if there are none, and may have fields of a
    // later version: control planes and gateways are not upgraded at the same time.
    #[test]
    fn gateways_of_other_versions() {
        let text = r#"{"region":"eu","address":"http://10.0.0.1:80","version":"1"}"#;
        let gateway: Gateway = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&gateway).unwrap(), text);
        let public = text.replace("\"version\"", r#""public":["203.0.113.7"],"version""#);
        let gateway: Gateway = serde_json::from_str(&public).unwrap();
        assert_eq!(gateway.public, [IpAddr::from([203, 0, 113, 7])]);
        assert_eq!(serde_json::to_string(&gateway).unwrap(), public);
        let later = text.replace("version", "later");
        let later = later.replace('}', r#","version":"2"}"#);
        assert!(serde_json::from_str::<Gateway>(&later).is_ok());
    }
}
