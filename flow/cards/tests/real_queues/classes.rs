//! Every marked packet is counted in its own class of the kernel.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

use meridian_cards::queues::{Class, Classes, EIGHT, mark};
use rustix::net::sockopt;
use socket2::SockRef;

use crate::pair::{DEVICE, Pair, V4, V6};

/// Packets of each leaf, as `tc -s class show` counts them.
fn packets(pair: &Pair) -> BTreeMap<String, u64> {
    let text = pair.run_tc(&format!("-s class show dev {DEVICE}"));
    let mut counts = BTreeMap::new();
    let mut class = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["class", "htb", name, ..] => class = (*name).to_owned(),
            ["Sent", _, "bytes", packets, "pkt", ..] => {
                counts.insert(class.clone(), packets.parse().expect("tc counts in digits"));
            }
            _ => {}
        }
    }
    counts
}

/// Sends until one class has counted 50 packets more than before, and returns that class. Inner
/// classes count what their leaves do, so they are left out.
fn lands_in(pair: &Pair, socket: &UdpSocket, to: SocketAddr) -> String {
    let before = packets(pair);
    for _ in 0..50 {
        socket.send_to(&[0; 100], to).expect("the link is up");
    }
    let inner = ["4d44:fd", "4d44:fe", "4d44:ff"];
    let after = packets(pair);
    let grown = after.into_iter().filter(|(name, count)| {
        !inner.contains(&name.as_str()) && count - before[name.as_str()] >= 50
    });
    let names: Vec<String> = grown.map(|(name, _)| name).collect();
    assert_eq!(names.len(), 1, "one class counts the packets: {names:?}");
    names[0].clone()
}

fn leaf(classes: Classes, class: Class) -> String {
    match classes {
        Classes::Eight => format!("4d44:{}", class.number + 1),
        Classes::Two if class.name == "collective" => "4d44:2".into(),
        Classes::Two => "4d44:7".into(),
    }
}

// By code point, over IPv4 and IPv6, with any bits of ECN; unmarked packets in a class of their own.
// Two classes put all KV of the eight into one.
#[test]
fn packets_are_classified_by_code_point() {
    for classes in [Classes::Two, Classes::Eight] {
        let pair = Pair::new();
        pair.shape(classes);
        for ends in [V4, V6] {
            let (socket, to) = pair.datagrams(ends);
            assert_eq!(lands_in(&pair, &socket, to), "4d44:9", "unmarked, {ends:?}");
            for class in EIGHT {
                mark(&socket, class).expect("it is an IP socket");
                assert_eq!(lands_in(&pair, &socket, to), leaf(classes, class), "{class:?}");
            }
        }
        // The code point alone: the priority that the kernel makes of a TOS is no class.
        let (socket, to) = pair.datagrams(V4);
        for class in EIGHT {
            for ecn in 0..4 {
                sockopt::set_ip_tos(&socket, class.byte() | ecn).expect("is a TOS");
                assert_eq!(lands_in(&pair, &socket, to), leaf(classes, class), "{class:?}");
            }
        }
        // Code points of others: default, RoCE's usual one, voice, control.
        for dscp in [0, 26, 46, 48] {
            sockopt::set_ip_tos(&socket, dscp << 2).expect("is a TOS");
            assert_eq!(lands_in(&pair, &socket, to), "4d44:9", "DSCP {dscp}");
        }
    }
}

// By the socket's priority alone. A class that two classes do not have falls back to the code point.
#[test]
fn packets_are_classified_by_priority() {
    let pair = Pair::new();
    pair.shape(Classes::Eight);
    let (socket, to) = pair.datagrams(V6);
    for class in EIGHT {
        let priority = 0x4d44_0000 | u32::from(class.number + 1);
        SockRef::from(&socket).set_priority(priority).expect("root may");
        assert_eq!(lands_in(&pair, &socket, to), leaf(Classes::Eight, class), "{class:?}");
    }
}
