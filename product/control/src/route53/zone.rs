//! What is in a hosted zone, as far as it matters here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use meridian_config::Scheme;

/// The type of a record with addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// IPv4.
    A,
    /// IPv6.
    Aaaa,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::A, Kind::Aaaa];

    /// The type for an address.
    pub(crate) fn of(address: &IpAddr) -> Kind {
        if address.is_ipv4() { Kind::A } else { Kind::Aaaa }
    }

    /// Its name in a zone.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::A => "A",
            Kind::Aaaa => "AAAA",
        }
    }
}

/// What tells records apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Without the final dot.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The set identifier.
    pub(crate) id: String,
}

/// The rest of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A latency record: an alias of a region's name.
    Region { aws: String, target: String },
    /// A multivalue record: an address with the id of its health check.
    Gateway { address: IpAddr, ttl: u32, check: String },
    /// A form that Meridian does not write: another program has changed the record.
    Other,
}

/// The settings of a health check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Probe {
    pub(crate) address: IpAddr,
    pub(crate) scheme: Scheme,
    pub(crate) port: u16,
    pub(crate) path: String,
    /// For the header `Host`, and for SNI.
    pub(crate) host: String,
    /// Seconds.
    pub(crate) interval: u32,
    pub(crate) failures: u32,
}

/// The own records and health checks, and where others are in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) records: BTreeMap<Key, Body>,
    /// Names and types at which there is a record of another owner.
    pub(crate) foreign: BTreeSet<(String, Kind)>,
    /// The own health checks by id; none for settings that Meridian does not write.
    pub(crate) checks: BTreeMap<String, Option<Probe>>,
    /// Health checks of records of other owners.
    pub(crate) used_by_others: BTreeSet<String>,
}

/// A change of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Creates or replaces it.
    Upsert(Key, Body),
    /// Deletes it.
    Delete(Key),
}

impl Zone {
    /// Makes a change here, too.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Upsert(key, body) => drop(self.records.insert(key.clone(), body.clone())),
            Change::Delete(key) => drop(self.records.remove(key)),
        }
    }

    /// The health checks that records use.
    pub(crate) fn used(&self) -> BTreeSet<&str> {
        let own = self.records.values().filter_map(|body| match body {
            Body::Gateway { check, .. } => Some(check.as_str()),
            Body::Region { .. } | Body::Other => None,
        });
        own.chain(self.used_by_others.iter().map(String::as_str)).collect()
    }
}
