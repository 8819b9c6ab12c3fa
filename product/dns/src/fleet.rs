//! The fleet as the name server sees it: regions, their living gateways and the distances between
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The family of an address, and of the records that hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4, in A records.
    V4,
    /// IPv6, in AAAA records.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Bits of an address.
    #[must_use]
    pub fn width(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }
}

/// All regions by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// The regions, also those without a living gateway.
    pub regions: BTreeMap<String, Region>,
}

/// A region.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Whether it takes new requests. A region that drains is not open.
    pub open: bool,
    /// The public addresses of each living gateway, by its name.
    pub gateways: BTreeMap<String, Vec<IpAddr>>,
    /// Round trips in ms to other regions. A negative or infinite one counts as unknown.
    pub rtt_ms: BTreeMap<String, f64>,
}

impl Default for Region {
    fn default() -> Region {
        Region { open: true, gateways: BTreeMap::new(), rtt_ms: BTreeMap::new() }
    }
}

impl Region {
    /// The addresses of its gateways in one family, each once, in order.
    #[must_use]
    pub fn addresses(&self, family: Family) -> Vec<IpAddr> {
        let all = self.gateways.values().flatten().copied();
        let of_family: BTreeSet<IpAddr> = all.filter(|ip| Family::of(*ip) == family).collect();
        of_family.into_iter().collect()
    }

    /// Whether a gateway has an address of either family.
    pub(crate) fn has_address(&self) -> bool {
        self.gateways.values().any(|addresses| !addresses.is_empty())
    }
}

impl Fleet {
    /// The round trip between two regions in ms: the shorter one, if both of them know one.
    #[must_use]
    pub fn distance_ms(&self, from: &str, to: &str) -> Option<f64> {
        if from == to {
            return Some(0.0);
        }
        let one_way = |from: &str, to: &str| {
            let ms = *self.regions.get(from)?.rtt_ms.get(to)?;
            (ms.is_finite() && ms >= 0.0).then_some(ms)
        };
        match (one_way(from, to), one_way(to, from)) {
            (Some(there), Some(back)) => Some(there.min(back)),
            (there, back) => there.or(back),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two gateways behind one address give it once: a set of records has no duplicates (RFC 2181,
    // section 5).
    #[test]
    fn an_address_appears_once() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let gateways =
            [("b", vec![ip("192.0.2.2"), ip("2001:db8::1")]), ("a", vec![ip("192.0.2.2")])];
        let gateways = gateways.map(|(name, ips)| (name.to_owned(), ips)).into();
        let region = Region { gateways, ..Region::default() };
        assert_eq!(region.addresses(Family::V4), [ip("192.0.2.2")]);
        assert_eq!(region.addresses(Family::V6), [ip("2001:db8::1")]);
    }

    // A distance that one side knows holds for both, and a figure that is no round trip counts as
    // unknown.
    #[test]
    fn distances_hold_in_both_directions() {
        let region = |rtts: &[(&str, f64)]| Region {
            rtt_ms: rtts.iter().map(|(to, ms)| ((*to).to_owned(), *ms)).collect(),
            ..Region::default()
        };
        let regions = [
            ("eu", region(&[("us", 90.0), ("ap", f64::NAN)])),
            ("us", region(&[("eu", 85.0), ("sa", -1.0)])),
            ("ap", region(&[])),
        ];
        let regions = regions.map(|(name, region)| (name.to_owned(), region)).into();
        let fleet = Fleet { regions };
        assert_eq!(fleet.distance_ms("eu", "us"), Some(85.0));
        assert_eq!(fleet.distance_ms("us", "eu"), Some(85.0));
        assert_eq!(fleet.distance_ms("ap", "eu"), None);
        assert_eq!(fleet.distance_ms("us", "sa"), None);
        assert_eq!(fleet.distance_ms("sa", "sa"), Some(0.0));
    }
}
