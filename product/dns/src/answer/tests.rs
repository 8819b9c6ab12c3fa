use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::fleet::Region;
use crate::map::entries_of_text;

fn map(lines: &str, default: Option<&str>) -> ClientMap {
    ClientMap::new(entries_of_text("clients", lines).unwrap(), default).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn region(addresses: &[&str], rtt_ms: &[(&str, f64)]) -> Region {
    let gateways = (1..).zip(addresses).map(|(n, at)| (format!("gw-{n}"), vec![ip(at)]));
    let rtt_ms = rtt_ms.iter().map(|(to, ms)| ((*to).to_owned(), *ms));
    Region { open: true, gateways: gateways.collect(), rtt_ms: rtt_ms.collect() }
}

/// Three regions on a line: eu and us are near, ap is far from eu.
fn fleet() -> Fleet {
    let regions = [
        ("ap", region(&["203.0.113.1"], &[("us", 150.0)])),
        (
            "eu",
            region(&["192.0.2.1", "192.0.2.2", "2001:db8:e::1"], &[("us", 90.0), ("ap", 220.0)]),
        ),
        ("us", region(&["198.51.100.1", "2001:db8:a::1"], &[])),
    ];
    Fleet { regions: regions.map(|(name, region)| (name.to_owned(), region)).into() }
}

fn edit(fleet: &mut Fleet, name: &str, edit: impl FnOnce(&mut Region)) {
    edit(fleet.regions.get_mut(name).unwrap());
}

/// The decision as a table would print it.
fn told(map: &ClientMap, fleet: &Fleet, client: &str, family: Family) -> String {
    let answer = answer(map, fleet, ip(client), family);
    let home = match answer.home {
        Home::Prefix { prefix, region } => format!("{region} by {prefix}"),
        Home::Default { region } => format!("{region} by default"),
        Home::Unknown { prefix, named, .. } => format!("unknown {named} by {prefix}"),
        Home::Nowhere => "nowhere".to_owned(),
    };
    let serves = match &answer.serves {
        Serves::Region { name, distance_ms, addresses } => {
            let ms = distance_ms.map_or("?".to_owned(), |ms| ms.to_string());
            format!("{name} at {ms} ms with {}", addresses.len())
        }
        Serves::Every { names, addresses } => format!("{names:?} with {}", addresses.len()),
        other => format!("{other:?}"),
    };
    let passed = answer.passed_over.iter();
    let passed: Vec<_> = passed.map(|(name, why)| format!("{name}: {}", why.reason())).collect();
    format!("{home}; {serves}; [{}]; /{}", passed.join(", "), answer.scope)
}

const LINES: &str = "10.1.0.0/16 eu\n10.2.0.0/16 us\n10.3.0.0/16 ap\n10.9.0.0/16 mars";

// The own region serves while it can. Then the nearest one does, over distances that either side
// knows, and those before it are listed with the reason.
#[test]
fn the_nearest_region_takes_over() {
    let (map, mut fleet) = (map(LINES, Some("us")), fleet());
    let eu = |fleet: &Fleet| told(&map, fleet, "10.1.2.3", Family::V4);
    assert_eq!(eu(&fleet), "eu by 10.1.0.0/16; eu at 0 ms with 2; []; /16");
    edit(&mut fleet, "eu", |region| region.open = false);
    assert_eq!(eu(&fleet), "eu by 10.1.0.0/16; us at 90 ms with 1; [eu: draining]; /16");
    edit(&mut fleet, "us", |region| region.gateways.clear());
    assert_eq!(
        eu(&fleet),
        "eu by 10.1.0.0/16; ap at 220 ms with 1; [eu: draining, us: no living gateway]; /16"
    );
}

// A region without an address of the family is passed over. If no region has one, there is nothing
// in this family, which is different from no gateway at all; both hold for every client.
#[test]
fn families_are_served_apart() {
    let (map, mut fleet) = (map(LINES, None), fleet());
    assert_eq!(
        told(&map, &fleet, "10.3.2.3", Family::V6),
        "ap by 10.3.0.0/16; us at 150 ms with 1; [ap: no address of that family]; /16"
    );
    edit(&mut fleet, "eu", |region| region.open = false);
    edit(&mut fleet, "us", |region| region.gateways.clear());
    let told = |fleet: &Fleet, family| told(&map, fleet, "10.1.2.3", family);
    assert_eq!(
        told(&fleet, Family::V6),
        "eu by 10.1.0.0/16; OtherFamily; [eu: draining, us: no living gateway, ap: no address of \
         that family]; /0"
    );
    edit(&mut fleet, "ap", |region| region.gateways.clear());
    assert_eq!(
        told(&fleet, Family::V4),
        "eu by 10.1.0.0/16; NoGateway; [eu: draining, us: no living gateway, ap: no living \
         gateway]; /0"
    );
}

// Clients that no prefix contains, and those of an unknown region, belong to the default one.
// Without it they get all open regions.
#[test]
fn unmapped_clients() {
    let (with, without, mut fleet) = (map(LINES, Some("ap")), map(LINES, None), fleet());
    let told = |map, fleet: &Fleet, client| told(map, fleet, client, Family::V4);
    assert_eq!(told(&with, &fleet, "8.8.8.8"), "ap by default; ap at 0 ms with 1; []; /7");
    assert_eq!(
        told(&with, &fleet, "10.9.0.1"),
        "unknown mars by 10.9.0.0/16; ap at 0 ms with 1; []; /16"
    );
    edit(&mut fleet, "eu", |region| region.open = false);
    assert_eq!(
        told(&without, &fleet, "8.8.8.8"),
        "nowhere; [\"ap\", \"us\"] with 2; [eu: draining]; /7"
    );
    assert_eq!(
        told(&without, &fleet, "10.9.0.1"),
        "unknown mars by 10.9.0.0/16; [\"ap\", \"us\"] with 2; [eu: draining]; /16"
    );
}

// Unknown distances come last, by name; a default region that the fleet does not know is reported.
#[test]
fn unknown_distances_come_last() {
    let mut fleet = fleet();
    fleet.regions.insert("aa".to_owned(), region(&["203.0.113.9"], &[]));
    edit(&mut fleet, "eu", |region| region.open = false);
    edit(&mut fleet, "us", |region| region.open = false);
    edit(&mut fleet, "ap", |region| region.open = false);
    assert_eq!(
        told(&map(LINES, None), &fleet, "10.1.2.3", Family::V4),
        "eu by 10.1.0.0/16; aa at ? ms with 1; [eu: draining, us: draining, ap: draining]; /16"
    );
    assert_eq!(
        told(&map("", Some("moon")), &fleet, "10.1.2.3", Family::V4),
        "moon by default; aa at ? ms with 1; [moon: unknown region]; /0"
    );
}

fn any_region() -> impl Strategy<Value = Region> {
    let addresses = vec(prop_oneof![Just("192.0.2.1"), Just("2001:db8::1")], 0..2);
    let gateways = btree_map("gw[1-3]", addresses, 0..3);
    let rtt_ms = btree_map("[a-d]", -1.0..100.0_f64, 0..4);
    (any::<bool>(), gateways, rtt_ms).prop_map(|(open, gateways, rtt_ms)| {
        let of = |(name, at): (String, Vec<&str>)| (name, at.into_iter().map(ip).collect());
        Region { open, gateways: gateways.into_iter().map(of).collect(), rtt_ms }
    })
}

proptest! {
    // In any fleet the serving region can serve, no nearer one can, and nothing is served only if
    // no region can.
    #[test]
    fn no_nearer_region_could_serve(
        regions in btree_map("[a-d]", any_region(), 0..5), is_6 in any::<bool>()
    ) {
        let regions: BTreeMap<String, Region> = regions;
        let fleet = Fleet { regions };
        let map = map("10.0.0.0/8 a", Some("b"));
        let family = if is_6 { Family::V6 } else { Family::V4 };
        let can = |name: &str| fleet.regions.get(name).is_some_and(|region| {
            region.open && !region.addresses(family).is_empty()
        });
        let decided = answer(&map, &fleet, ip("10.1.1.1"), family);
        let home = decided.home.region().unwrap();
        let rank = |name: &str| (fleet.distance_ms(home, name).unwrap_or(f64::MAX), name.to_owned());
        match decided.serves {
            Serves::Region { name, addresses, .. } => {
                prop_assert!(can(name));
                prop_assert_eq!(addresses, fleet.regions[name].addresses(family));
                let others = fleet.regions.keys().filter(|other| can(other) && *other != name);
                for other in others {
                    prop_assert!(name == home || (other != home && rank(name) < rank(other)));
                }
                for (passed, _) in &decided.passed_over {
                    prop_assert!(!can(passed));
                }
            }
            Serves::Every { .. } => prop_assert!(false, "there is a default region"),
            Serves::OtherFamily | Serves::NoGateway => {
                prop_assert!(!fleet.regions.keys().any(|name| can(name)));
                prop_assert_eq!(decided.scope, 0);
            }
        }
    }
}
