//! The scripts as text. `UPDATE_EXPECT=1` rewrites them; read the difference as a review.

use expect_test::{Expect, expect};

use super::*;

fn shape(
    kind: Kind,
    classes: Classes,
    rate: Option<&str>,
    shares: [&str; 2],
) -> Result<Shape, ShapeError> {
    let shares = shares.map(|share| share.parse().unwrap());
    Shape::new("eth0", kind, classes, rate.map(|rate| rate.parse().unwrap()), shares)
}

/// The commands but for the filters of all classes after the second.
fn check(kind: Kind, classes: Classes, rate: Option<&str>, expected: &Expect) {
    let script = shape(kind, classes, rate, ["10%", "5%"]).unwrap().script();
    let filters = |line: &&str| line.starts_with("filter ");
    let shown = script.commands().filter(|line| !filters(line));
    let first = script.commands().filter(filters).take(4);
    let text: Vec<&str> = shown.chain(first).collect();
    expected.assert_eq(&(text.join("\n") + "\n"));
}

// Two classes: guarantees add up to the line, and collectives come first in line for the rest.
#[test]
fn two_classes_as_htb() {
    check(
        Kind::Htb,
        Classes::Two,
        Some("25Gbps"),
        &expect![[r#"
        qdisc replace dev eth0 root handle 4d44: htb default 9
        class add dev eth0 parent 4d44: classid 4d44:ff htb rate 25000mbit ceil 25000mbit burst 3125000 cburst 3125000 quantum 65664
        class add dev eth0 parent 4d44:ff classid 4d44:2 htb rate 21250mbit ceil 25000mbit burst 2656250 cburst 3125000 quantum 65664 prio 1
        class add dev eth0 parent 4d44:ff classid 4d44:7 htb rate 2500mbit ceil 25000mbit burst 312500 cburst 3125000 quantum 65664 prio 6
        class add dev eth0 parent 4d44:ff classid 4d44:9 htb rate 1250mbit ceil 25000mbit burst 156250 cburst 3125000 quantum 65664 prio 6
        filter add dev eth0 parent 4d44: protocol all pref 10 u32 match u16 0x40bc 0xf0fc at 0 flowid 4d44:7
        filter add dev eth0 parent 4d44: protocol all pref 10 u32 match u16 0x6bc0 0xffc0 at 0 flowid 4d44:7
        filter add dev eth0 parent 4d44: protocol all pref 10 u32 match u16 0x40ac 0xf0fc at 0 flowid 4d44:2
        filter add dev eth0 parent 4d44: protocol all pref 10 u32 match u16 0x6ac0 0xffc0 at 0 flowid 4d44:2
    "#]],
    );
}

// Eight classes: two groups with the same guarantees, and leaves in order.
#[test]
fn eight_classes_as_htb() {
    check(
        Kind::Htb,
        Classes::Eight,
        Some("25Gbps"),
        &expect![[r#"
        qdisc replace dev eth0 root handle 4d44: htb default 9
        class add dev eth0 parent 4d44: classid 4d44:ff htb rate 25000mbit ceil 25000mbit burst 3125000 cburst 3125000 quantum 65664
        class add dev eth0 parent 4d44:ff classid 4d44:fe htb rate 21250mbit ceil 25000mbit burst 2656250 cburst 3125000 quantum 65664
        class add dev eth0 parent 4d44:ff classid 4d44:fd htb rate 2500mbit ceil 25000mbit burst 312500 cburst 3125000 quantum 65664
        class add dev eth0 parent 4d44:fe classid 4d44:1 htb rate 25mbit ceil 25000mbit burst 65664 cburst 3125000 quantum 65664 prio 0
        class add dev eth0 parent 4d44:fe classid 4d44:2 htb rate 25mbit ceil 25000mbit burst 65664 cburst 3125000 quantum 65664 prio 1
        class add dev eth0 parent 4d44:fd classid 4d44:3 htb rate 25mbit ceil 25000mbit burst 65664 cburst 3125000 quantum 65664 prio 2
        class add dev eth0 parent 4d44:fd classid 4d44:4 htb rate 25mbit ceil 25000mbit burst 65664 cburst 3125000 quantum 65664 prio 3
        class add dev eth0 parent 4d44:fd classid 4d44:5 htb rate 25mbit ceil 25000mbit burst 65664 cburst 3125000 quantum 65664 prio 4
        class add dev eth0 parent 4d44:fd classid 4d44:6 htb rate 25mbit ceil 25000mbit burst 65664 cburst 3125000 quantum 65664 prio 5
        class add dev eth0 parent 4d44:fd classid 4d44:7 htb rate 25mbit ceil 25000mbit burst 65664 cburst 3125000 quantum 65664 prio 6
        class add dev eth0 parent 4d44:fd classid 4d44:8 htb rate 25mbit ceil 25000mbit burst 65664 cburst 3125000 quantum 65664 prio 7
        class add dev eth0 parent 4d44:ff classid 4d44:9 htb rate 1250mbit ceil 25000mbit burst 156250 cburst 3125000 quantum 65664 prio 6
        filter add dev eth0 parent 4d44: protocol all pref 10 u32 match u16 0x40bc 0xf0fc at 0 flowid 4d44:1
        filter add dev eth0 parent 4d44: protocol all pref 10 u32 match u16 0x6bc0 0xffc0 at 0 flowid 4d44:1
        filter add dev eth0 parent 4d44: protocol all pref 10 u32 match u16 0x40ac 0xf0fc at 0 flowid 4d44:2
        filter add dev eth0 parent 4d44: protocol all pref 10 u32 match u16 0x6ac0 0xffc0 at 0 flowid 4d44:2
    "#]],
    );
}

// ets: the shares are weights; eight classes are strict within a group.
#[test]
fn classes_as_ets() {
    check(
        Kind::Ets,
        Classes::Two,
        None,
        &expect![[r#"
        qdisc replace dev eth0 root handle 4d45: ets bands 3 quanta 128690 15140 7570 priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2
        filter add dev eth0 parent 4d45: protocol all pref 10 u32 match u16 0x40bc 0xf0fc at 0 flowid 4d45:2
        filter add dev eth0 parent 4d45: protocol all pref 10 u32 match u16 0x6bc0 0xffc0 at 0 flowid 4d45:2
        filter add dev eth0 parent 4d45: protocol all pref 10 u32 match u16 0x40ac 0xf0fc at 0 flowid 4d45:1
        filter add dev eth0 parent 4d45: protocol all pref 10 u32 match u16 0x6ac0 0xffc0 at 0 flowid 4d45:1
    "#]],
    );
    check(
        Kind::Ets,
        Classes::Eight,
        None,
        &expect![[r#"
        qdisc replace dev eth0 root handle 4d45: ets bands 3 quanta 128690 15140 7570 priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2
        qdisc add dev eth0 parent 4d45:1 handle 4d46: ets bands 2 strict 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
        qdisc add dev eth0 parent 4d45:2 handle 4d47: ets bands 6 strict 6 priomap 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5
        filter add dev eth0 parent 4d45: protocol all pref 10 u32 match u16 0x40bc 0xf0fc at 0 flowid 4d45:1
        filter add dev eth0 parent 4d45: protocol all pref 10 u32 match u16 0x6bc0 0xffc0 at 0 flowid 4d45:1
        filter add dev eth0 parent 4d45: protocol all pref 10 u32 match u16 0x40ac 0xf0fc at 0 flowid 4d45:1
        filter add dev eth0 parent 4d45: protocol all pref 10 u32 match u16 0x6ac0 0xffc0 at 0 flowid 4d45:1
    "#]],
    );
}

// Every code point has two filters, whatever the number of classes; ets has two more for its group.
#[test]
fn every_code_point_is_filtered() {
    for (kind, rate, classes, each) in [
        (Kind::Htb, Some("1Gbps"), Classes::Two, 2),
        (Kind::Htb, Some("1Gbps"), Classes::Eight, 2),
        (Kind::Ets, None, Classes::Two, 2),
        (Kind::Ets, None, Classes::Eight, 4),
    ] {
        let script = shape(kind, classes, rate, ["10%", "5%"]).unwrap().script().to_string();
        for class in EIGHT {
            let values = [0x4000 | u16::from(class.byte()), 0x6000 | u16::from(class.dscp) << 6];
            let found = values.map(|value| script.matches(&format!("{value:#06x} ")).count());
            assert_eq!(found.iter().sum::<usize>(), each, "{kind:?} {classes:?} {class:?}");
        }
    }
}

// Impossible rules are refused with the field and the remedy.
#[test]
fn impossible_rules_are_refused() {
    let refused =
        |kind, rate, shares| shape(kind, Classes::Two, rate, shares).unwrap_err().to_string();
    assert!(refused(Kind::Htb, None, ["10%", "5%"]).contains("needs the rate"));
    assert!(refused(Kind::Ets, Some("1Gbps"), ["10%", "5%"]).contains("takes no rate"));
    assert!(refused(Kind::Htb, Some("1Gbps"), ["40%", "11%"]).contains("40%"));
    for device in ["", "a b", "-x", "eth0;reboot", "a/b", "sixteen-letters!", "eth0\n"] {
        let shares = ["10%", "5%"].map(|share| share.parse().unwrap());
        let error = Shape::new(device, Kind::Ets, Classes::Two, None, shares).unwrap_err();
        assert_eq!(error, ShapeError::Device(device.into()));
    }
}
