//! Which region serves a client, and why.
//!
//! The client's own region serves it if it is open and has a living gateway with an address of the
//! family that the question asks for. Otherwise the nearest other such region does, by the round
//! trip from the client's region. An unknown distance counts as the farthest, and ties go to the
//! name that sorts first, as for the adoption of replicas.
//!
//! A client that no prefix contains belongs to the default region, and so does one whose prefix
//! names a region that the fleet does not know. Without a default region it gets the addresses of
//! all open regions: nothing says which one is near, all of them can serve it, and a client that
//! tries one address after the other survives the loss of any region.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::fleet::{Family, Fleet};
use crate::map::ClientMap;

/// The decision for one client, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<'a> {
    /// The client's region.
    pub home: Home<'a>,
    /// The region that serves it.
    pub serves: Serves<'a>,
    /// The regions that would come before the serving one but can't serve, the nearest first, and
    /// why. For a client without a region, all that can't serve.
    pub passed_over: Vec<(&'a str, PassedOver)>,
    /// Length in bits of the shortest prefix of the client whose addresses all get this answer.
    pub scope: u8,
}

/// The region of a client, and how it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home<'a> {
    /// The region of the longest prefix that contains the client.
    Prefix {
        /// The prefix.
        prefix: IpNet,
        /// Its region.
        region: &'a str,
    },
    /// The default region; no prefix contains the client.
    Default {
        /// The default region.
        region: &'a str,
    },
    /// The prefix names a region that the fleet does not know.
    Unknown {
        /// The prefix.
        prefix: IpNet,
        /// The unknown region.
        named: &'a str,
        /// The default region, if there is one.
        region: Option<&'a str>,
    },
    /// No prefix contains the client, and there is no default region.
    Nowhere,
}

impl<'a> Home<'a> {
    /// The region, if the client has one.
    #[must_use]
    pub fn region(&self) -> Option<&'a str> {
        match *self {
            Home::Prefix { region, .. } | Home::Default { region } => Some(region),
            Home::Unknown { region, .. } => region,
            Home::Nowhere => None,
        }
    }
}

/// What the client gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Serves<'a> {
    /// The gateways of one region.
    Region {
        /// Its name.
        name: &'a str,
        /// The round trip from the client's region in ms, 0 if it is that region; `None` if
        /// unknown.
        distance_ms: Option<f64>,
        /// The addresses of its gateways, each once, in order.
        addresses: Vec<IpAddr>,
    },
    /// The gateways of every open region, for a client without a region.
    Every {
        /// Their names.
        names: Vec<&'a str>,
        /// The addresses of their gateways, each once, in order.
        addresses: Vec<IpAddr>,
    },
    /// Nothing in this family, though open regions have gateways with addresses of the other one.
    OtherFamily,
    /// Nothing: no open region has a living gateway with an address.
    NoGateway,
}

/// Why a region can't serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedOver {
    /// The fleet does not know it.
    Unknown,
    /// It is not open.
    Draining,
    /// None of its gateways is alive.
    NoGateway,
    /// None of its gateways has an address of the family.
    NoAddress,
}

impl PassedOver {
    /// The reason in words.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            PassedOver::Unknown => "unknown region",
            PassedOver::Draining => "draining",
            PassedOver::NoGateway => "no living gateway",
            PassedOver::NoAddress => "no address of that family",
        }
    }
}

/// Decides which region serves `client` with addresses of `family`. The client's own family does
/// not matter: a resolver may ask over IPv4 for addresses of IPv6.
#[must_use]
pub fn answer<'a>(
    map: &'a ClientMap,
    fleet: &'a Fleet,
    client: IpAddr,
    family: Family,
) -> Answer<'a> {
    let found = map.find(client);
    let home = match (found.prefix, found.region) {
        (Some(prefix), Some(named)) if !fleet.regions.contains_key(named) => {
            Home::Unknown { prefix, named, region: map.default_region() }
        }
        (Some(prefix), Some(region)) => Home::Prefix { prefix, region },
        (_, Some(region)) => Home::Default { region },
        (_, None) => Home::Nowhere,
    };
    let (serves, passed_over) = match home.region() {
        Some(region) => nearest(fleet, region, family),
        None => every(fleet, family),
    };
    // The same nothing for all clients is true for all of them.
    let same_for_all = matches!(serves, Serves::OtherFamily | Serves::NoGateway);
    let scope = if same_for_all { 0 } else { found.scope };
    Answer { home, serves, passed_over, scope }
}

/// The addresses with which a region can serve, or why it can't.
fn usable(fleet: &Fleet, name: &str, family: Family) -> Result<Vec<IpAddr>, PassedOver> {
    let region = fleet.regions.get(name).ok_or(PassedOver::Unknown)?;
    if !region.open {
        return Err(PassedOver::Draining);
    }
    if region.gateways.is_empty() {
        return Err(PassedOver::NoGateway);
    }
    let addresses = region.addresses(family);
    if addresses.is_empty() { Err(PassedOver::NoAddress) } else { Ok(addresses) }
}

/// Who serves, and the regions that were passed over, the nearest first.
pub type Decision<'a> = (Serves<'a>, Vec<(&'a str, PassedOver)>);

/// Decides which region serves the clients of the region `home`.
#[must_use]
pub fn nearest<'a>(fleet: &'a Fleet, home: &'a str, family: Family) -> Decision<'a> {
    let mut passed_over = Vec::new();
    match usable(fleet, home, family) {
        Ok(addresses) => {
            let serves = Serves::Region { name: home, distance_ms: Some(0.0), addresses };
            return (serves, passed_over);
        }
        Err(why) => passed_over.push((home, why)),
    }
    let others = fleet.regions.keys().filter(|name| *name != home);
    let mut others: Vec<(f64, &str)> = others
        .map(|name| (fleet.distance_ms(home, name).unwrap_or(f64::INFINITY), name.as_str()))
        .collect();
    others.sort_by(|(a, first), (b, second)| a.total_cmp(b).then(first.cmp(second)));
    for (distance, name) in others {
        match usable(fleet, name, family) {
            Ok(addresses) => {
                let distance_ms = distance.is_finite().then_some(distance);
                return (Serves::Region { name, distance_ms, addresses }, passed_over);
            }
            Err(why) => passed_over.push((name, why)),
        }
    }
    (nothing(fleet), passed_over)
}

fn every(fleet: &Fleet, family: Family) -> Decision<'_> {
    let (mut names, mut addresses, mut passed_over) = (Vec::new(), Vec::new(), Vec::new());
    for name in fleet.regions.keys() {
        match usable(fleet, name, family) {
            Ok(more) => {
                names.push(name.as_str());
                addresses.extend(more);
            }
            Err(why) => passed_over.push((name.as_str(), why)),
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    let serves = if names.is_empty() { nothing(fleet) } else { Serves::Every { names, addresses } };
    (serves, passed_over)
}

/// What is left if no region can serve in a family.
fn nothing(fleet: &Fleet) -> Serves<'static> {
    let mut open = fleet.regions.values().filter(|region| region.open);
    if open.any(|region| region.has_address()) { Serves::OtherFamily } else { Serves::NoGateway }
}

#[cfg(test)]
mod tests;
