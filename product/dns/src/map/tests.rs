use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn map(lines: &str, default: Option<&str>) -> ClientMap {
    ClientMap::new(entries_of_text("clients", lines).unwrap(), default).unwrap()
}

fn said(lines: &str) -> Vec<String> {
    let made = entries_of_text("clients", lines).and_then(|entries| ClientMap::new(entries, None));
    made.map_or_else(|all| all.iter().map(ToString::to_string).collect(), |_| vec![])
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Region, prefix and scope of an address, as text.
fn found(map: &ClientMap, client: &str) -> String {
    let Found { region, prefix, scope } = map.find(ip(client));
    let prefix = prefix.map_or_else(|| "default".to_owned(), |prefix| prefix.to_string());
    format!("{} {prefix} /{scope}", region.unwrap_or("-"))
}

// The longest prefix wins in both families, a single address is a prefix of its own, and comments
// and empty lines are ignored.
#[test]
fn the_longest_prefix_wins() {
    let map = map(
        "10.0.0.0/8 us # all\n\n10.1.0.0/16 eu\n10.1.2.3 ap\n2001:db8::/32 eu\n2001:db8:1::/48 us",
        None,
    );
    assert_eq!(map.len(), 5);
    assert_eq!(found(&map, "10.2.0.1"), "us 10.0.0.0/8 /15");
    assert_eq!(found(&map, "10.1.9.9"), "eu 10.1.0.0/16 /21");
    assert_eq!(found(&map, "10.1.2.3"), "ap 10.1.2.3/32 /32");
    assert_eq!(found(&map, "11.0.0.1"), "- default /8");
    assert_eq!(found(&map, "2001:db8:1::1"), "us 2001:db8:1::/48 /48");
    assert_eq!(found(&map, "2001:db8:2::1"), "eu 2001:db8::/32 /47");
}

// The example of RFC 7871, section 7.2.1: the parts of 1.2.0.0/20 around 1.2.3.0/24.
#[test]
fn a_longer_prefix_divides_a_wider_one() {
    let map = map("1.2.0.0/20 a\n1.2.3.0/24 b", None);
    let scope = |client: &str| map.find(ip(client)).scope;
    let clients = ["1.2.0.1", "1.2.2.1", "1.2.3.1", "1.2.4.1", "1.2.8.1"];
    assert_eq!(clients.map(scope), [23, 24, 24, 22, 21]);
}

// Neighbours with one region are one scope, also a prefix of the default region and the addresses
// around it. A family without prefixes has the scope 0.
#[test]
fn scopes_are_as_wide_as_possible() {
    let map = map("10.0.0.0/9 eu\n10.128.0.0/9 eu\n10.7.0.0/16 eu\n12.0.0.0/8 us", Some("us"));
    assert_eq!(found(&map, "10.7.1.1"), "eu 10.7.0.0/16 /8");
    assert_eq!(found(&map, "12.1.1.1"), "us 12.0.0.0/8 /6");
    assert_eq!(found(&map, "192.0.2.1"), "us default /1");
    assert_eq!(found(&map, "2001:db8::1"), "us default /0");
    assert_eq!(map.default_region(), Some("us"));
}

// Every mistake has its line, the value and what to write instead.
#[test]
fn mistakes_have_a_remedy() {
    assert_eq!(
        said("10.0.0.0/8\n10.1.0.0/16 eu x"),
        [
            "clients:1: 10.0.0.0/8: not two words; write `PREFIX REGION`, such as `10.1.0.0/16 eu`",
            "clients:2: 10.1.0.0/16 eu x: not two words; write `PREFIX REGION`, such as \
             `10.1.0.0/16 eu`",
        ]
    );
    assert_eq!(
        said("10.0.0.0/33 eu\n10.1.2.3/16 eu\n::ffff:10.0.0.0/104 eu"),
        [
            "clients:1: 10.0.0.0/33: not a prefix; write an address and a length, such as \
             10.1.0.0/16 or 2001:db8::/32",
            "clients:2: 10.1.2.3/16: it has bits beyond its length; write 10.1.0.0/16 or \
             10.1.2.3/32",
            "clients:3: ::ffff:10.0.0.0/104: clients of IPv4 are not found under their addresses \
             in IPv6; write 10.0.0.0/8",
        ]
    );
}

// A prefix may be repeated with its region, not with another one.
#[test]
fn a_prefix_has_one_region() {
    assert_eq!(said("10.0.0.0/8 eu\n10.0.0.0/8 eu"), [""; 0]);
    assert_eq!(
        said("10.0.0.0/8 eu\n12.0.0.0/8 eu\n10.0.0.0/8 us"),
        ["clients:3: 10.0.0.0/8 us: clients:1 has the prefix for eu; leave one of them out, or \
          write longer prefixes inside it"]
    );
}

// A file of the wrong form is reported in a few lines.
#[test]
fn many_mistakes_are_counted() {
    let all = said(&"nonsense\n".repeat(1000));
    assert_eq!(all.len(), 21);
    assert_eq!(all[20], "and: 980 more problems: not listed; mend those above first");
}

/// Prefixes of a family, crowded so that they nest: few different bits at the start, any length.
fn nets(family: Family) -> impl Strategy<Value = Vec<(u128, u8, u8)>> {
    let width = family.width();
    let one = (any::<u128>(), 0..=width, 0..4_u8, any::<bool>());
    let one = one.prop_map(move |(bits, length, region, crowded)| {
        let crowd = if crowded { 0x0101_0300 << 96 | 1 } else { u128::MAX };
        let family_bits = mask(width);
        (bits & crowd & family_bits & mask(length), length, region)
    });
    vec(one, 0..12)
}

fn address(family: Family, bits: u128) -> IpAddr {
    prefix(family, MapRow { start: bits & mask(family.width()), length: family.width(), region: 0 })
        .addr()
}

/// The naive twin: the last of the longest entries that contain the address.
fn naive(rows: &[(u128, u8, u8)], bits: u128) -> Option<(u8, u8)> {
    let inside = rows.iter().filter(|(start, length, _)| bits & mask(*length) == *start);
    inside.max_by_key(|(_, length, _)| *length).map(|(_, length, region)| (*length, *region))
}

/// Whether all addresses of a prefix have one region: the region changes only where an entry starts
/// or ends.
fn uniform(
    rows: &[(u128, u8, u8)],
    bits: u128,
    length: u8,
    region_of: impl Fn(u128) -> u8,
) -> bool {
    let start = bits & mask(length);
    let last = start | !mask(length);
    let edges =
        rows.iter().flat_map(|(from, length, _)| [*from, (*from | !mask(*length)).wrapping_add(1)]);
    let inside = edges.filter(|edge| (start..=last).contains(edge));
    inside.chain([start]).all(|edge| region_of(edge) == region_of(bits))
}

fn agrees(family: Family, rows: &[(u128, u8, u8)], probes: &[u128], default: u8) {
    // A prefix has one region: the first that was drawn.
    let mut once: Vec<(u128, u8, u8)> = Vec::new();
    for row in rows {
        if !once.iter().any(|(start, length, _)| (*start, *length) == (row.0, row.1)) {
            once.push(*row);
        }
    }
    let text: Vec<(String, String)> = once
        .iter()
        .map(|(start, length, region)| {
            let net = prefix(family, MapRow { start: *start, length: *length, region: 0 });
            (net.to_string(), format!("r{region}"))
        })
        .collect();
    let entries = text.iter().map(|(prefix, region)| Entry {
        place: Place::Field("clients"),
        prefix,
        region,
    });
    let map = ClientMap::new(entries, Some(&format!("r{default}"))).unwrap();
    let region_of = |bits| naive(&once, bits).map_or(default, |(_, region)| region);
    let edges = once.iter().flat_map(|(start, length, _)| [*start, *start | !mask(*length)]);
    for bits in probes.iter().copied().chain(edges).map(|bits| bits & mask(family.width())) {
        let Found { region, prefix, scope } = map.find(address(family, bits));
        assert_eq!(region, Some(format!("r{}", region_of(bits)).as_str()));
        assert_eq!(
            prefix.map(|net| net.prefix_len()),
            naive(&once, bits).map(|(length, _)| length)
        );
        assert!(uniform(&once, bits, scope, region_of), "/{scope} has two regions");
        let wider =
            scope.checked_sub(1).is_some_and(|wider| uniform(&once, bits, wider, region_of));
        assert!(!wider, "/{scope} could be wider");
    }
}

proptest! {
    // Region, prefix and scope are those of a naive search: all addresses in the scope have the
    // region of the client, and one bit less would include an address of another region.
    #[test]
    fn the_map_agrees_with_a_naive_search_in_ipv4(
        rows in nets(Family::V4), probes in vec(any::<u128>(), 8), default in 0..4_u8
    ) {
        agrees(Family::V4, &rows, &probes, default);
    }

    // The same in IPv6.
    #[test]
    fn the_map_agrees_with_a_naive_search_in_ipv6(
        rows in nets(Family::V6), probes in vec(any::<u128>(), 8), default in 0..4_u8
    ) {
        agrees(Family::V6, &rows, &probes, default);
    }

    // No text makes the reader of a file panic.
    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-f:./ #\\n]{0,60}") {
        let _ = entries_of_text("clients", &text).and_then(|entries| ClientMap::new(entries, None));
    }
}
