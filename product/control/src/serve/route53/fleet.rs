//! The regions with the addresses that Route 53 can check and hand out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use meridian_config as config;
use meridian_protocol::registry::{Gateway, Wanted, public_addresses};

use crate::registry::View;
use crate::route53::Fleet;

/// The fleet as the registry shows it with the gateways that `left` in order, and those that cannot be
/// used.
pub(super) fn fleet<'a>(
    config: &config::Route53,
    view: &View,
    left: impl Iterator<Item = &'a Gateway>,
) -> (Fleet, Vec<String>) {
    let (mut fleet, mut problems) = (Fleet::new(), Vec::new());
    for (name, kept) in &view.regions {
        fleet.entry(name.clone()).or_default().open = kept.record.wanted == Wanted::Up;
    }
    for (name, kept) in &view.gateways {
        let gateway = &kept.record;
        let is_new = !fleet.contains_key(&gateway.region);
        let region = fleet.entry(gateway.region.clone()).or_default();
        region.open |= is_new;
        if !config.regions.contains_key(&gateway.region) {
            problems.push(format!(
                "gateway {name}: its region {} is not in route53.regions; add it with its AWS region",
                gateway.region
            ));
            continue;
        }
        let addresses = public_addresses(gateway);
        if addresses.is_empty() {
            problems.push(format!(
                "gateway {name}: it has no address for clients; set `public` in its section `control`"
            ));
        }
        for address in addresses {
            if !is_public(address) {
                problems.push(format!(
                    "gateway {name}: {address} is a private address, which Route 53 cannot check; set `public` in its section `control`"
                ));
            } else if gateway.leaving {
                region.leaving.insert(address);
            } else {
                region.living.insert(address);
            }
        }
    }
    for gateway in left {
        let is_new = !fleet.contains_key(&gateway.region);
        let region = fleet.entry(gateway.region.clone()).or_default();
        region.open |= is_new;
        region.leaving.extend(public_addresses(gateway));
    }
    (fleet, problems)
}

/// Whether Route 53's checkers may reach an address.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let is_shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            let is_local = v4.is_private() || v4.is_loopback() || v4.is_link_local();
            !(is_local || is_shared || v4.is_multicast() || v4 == Ipv4Addr::UNSPECIFIED)
        }
        IpAddr::V6(v6) => {
            let is_local = v6.is_unique_local() || v6.is_loopback() || v6.is_unicast_link_local();
            !(is_local || v6.is_multicast() || v6 == Ipv6Addr::UNSPECIFIED)
        }
    }
}

#[cfg(test)]
mod tests {
    use meridian_protocol::registry::Region;

    use super::*;
    use crate::registry::Kept;
    use crate::store::Revision;

    fn kept<R>(record: R) -> Kept<R> {
        Kept { record, at: Revision(1) }
    }

    // Drained regions are closed, and regions without a record are open. Private addresses and unlisted
    // regions are left out with a reason.
    #[test]
    fn fleet_of_a_registry() {
        let yaml = "{zone: Z1, name: a.b, regions: {eu: eu-central-1, us: us-east-1}}";
        let yaml = format!("version: 1\nstore: a\nroute53: {yaml}\n");
        let config = config::Control::read(&yaml).unwrap().route53.unwrap();
        let mut view = View::default();
        let drained = Region { wanted: Wanted::Draining, ..Region::default() };
        view.regions.insert("us".into(), kept(drained));
        for (name, region, public, leaving) in [
            ("eu-1", "eu", "203.0.113.1", false),
            ("eu-2", "eu", "10.0.0.1", false),
            ("eu-3", "eu", "2001:db8::3", true),
            ("uk-1", "uk", "203.0.113.9", false),
            ("us-1", "us", "100.64.0.1", false),
        ] {
            let public = vec![public.parse().unwrap()];
            let gateway = Gateway { region: region.into(), public, leaving, ..Gateway::default() };
            view.gateways.insert(name.into(), kept(gateway));
        }
        let left = Gateway {
            region: "eu".into(),
            public: vec!["203.0.113.4".parse().unwrap()],
            ..Gateway::default()
        };
        let alone = fleet(&config, &View::default(), core::iter::once(&left)).0;
        assert!(
            alone["eu"].open && alone["eu"].leaving.len() == 1,
            "without a record of the region"
        );
        let (fleet, problems) = fleet(&config, &view, core::iter::once(&left));
        let eu = &fleet["eu"];
        assert!(eu.open && !fleet["us"].open && fleet["us"].living.is_empty());
        assert_eq!(eu.living, ["203.0.113.1".parse().unwrap()].into());
        let leaving = ["2001:db8::3", "203.0.113.4"].map(|ip| ip.parse().unwrap());
        assert_eq!(eu.leaving, leaving.into());
        let of = |name: &str| problems.iter().find(|p| p.contains(name)).unwrap().clone();
        assert!(
            of("eu-2").contains("10.0.0.1 is a private address") && of("us-1").contains("100.64")
        );
        assert!(of("uk-1").contains("is not in route53.regions"), "{problems:?}");
        assert_eq!(problems.len(), 3);
    }
}
