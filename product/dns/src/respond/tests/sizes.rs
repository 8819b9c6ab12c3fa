//! Sizes of answers, and the order of addresses.

use std::collections::BTreeSet;

use hickory_proto::op::Edns;
use hickory_proto::rr::RecordType;

use super::*;

/// A region with many gateways.
fn crowded(count: u8) -> State {
    let mut state = state();
    let ips: Vec<String> = (0..count).map(|n| format!("192.0.2.{n}")).collect();
    let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
    state.fleet.regions.insert("us".to_owned(), region(&ips, &[]));
    state
}

fn ask_sized(state: &State, payload: Option<u16>, transport: Transport) -> (usize, bool, usize) {
    let mut message = question("llm.example.org.", RecordType::A);
    if let Some(payload) = payload {
        let mut edns = Edns::new();
        edns.set_max_payload(payload);
        message.set_edns(edns);
    }
    let source = "10.2.0.53".parse().unwrap();
    let reply = respond(state, &message.to_vec().unwrap(), source, transport, 0).unwrap();
    let read = Message::from_vec(&reply.bytes).unwrap();
    assert_eq!(reply.truncated, read.metadata.truncation);
    assert_eq!(read.edns.is_some(), payload.is_some());
    (reply.bytes.len(), reply.truncated, read.answers.len())
}

// An answer over the sender's size, or over 1232 bytes, is truncated to no records at all; TCP
// has them. (hickory compresses the first 120 names of a message only.)
#[test]
fn large_answers_are_truncated() {
    let state = crowded(60);
    let size = 33 + 60 * 16;
    assert_eq!(ask_sized(&state, None, Transport::Udp), (33, true, 0));
    assert_eq!(ask_sized(&state, Some(800), Transport::Udp), (44, true, 0));
    assert_eq!(ask_sized(&state, Some(4096), Transport::Udp), (size + 11, false, 60));
    assert_eq!(ask_sized(&crowded(200), Some(4096), Transport::Udp), (44, true, 0));
    assert_eq!(ask_sized(&crowded(200), None, Transport::Tcp), (4448, false, 200));
    assert_eq!(ask_sized(&crowded(29), None, Transport::Udp), (33 + 29 * 16, false, 29));
    assert_eq!(ask_sized(&crowded(30), None, Transport::Udp), (33, true, 0));
}

// The most addresses fit over TCP, also with the longest name; a larger region gives others in each
// answer.
#[test]
fn the_largest_answer_fits() {
    let zone = [vec!["z".repeat(61); 3].join("."), "org".to_owned()].join(".");
    let nameservers = [("ns1".to_owned(), vec!["192.0.2.53".parse().unwrap()])].into();
    let settings = Settings { zone: zone.clone(), nameservers, ..Settings::default() };
    let mut state = State { zone: Zone::new(&settings).unwrap(), ..state() };
    let ips: Vec<String> = (0..300).map(|n| format!("2001:db8::{n:x}")).collect();
    let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
    let name = "r".repeat(63);
    state.fleet.regions.insert(name.clone(), region(&ips, &[]));
    let bytes = question(&format!("{name}.{zone}."), RecordType::AAAA).to_vec().unwrap();
    let mut seen = BTreeSet::new();
    for turn in 0..20 {
        let source = "10.2.0.53".parse().unwrap();
        let reply = respond(&state, &bytes, source, Transport::Tcp, turn).unwrap();
        let read = Message::from_vec(&reply.bytes).unwrap();
        assert_eq!((reply.truncated, read.answers.len()), (false, 256));
        seen.extend(read.answers.iter().map(|one| one.data.to_string()));
    }
    assert_eq!(seen.len(), 300);
}

// Addresses beside an answer are left out before the answer itself: they can be asked for.
#[test]
fn glue_is_left_out_first() {
    let nameservers =
        (0..20).map(|n| (format!("ns{n}"), vec![format!("2001:db8::{n}").parse().unwrap()]));
    let zone = "llm.example.org".to_owned();
    let settings = Settings { zone, nameservers: nameservers.collect(), ..Settings::default() };
    let state = State { zone: Zone::new(&settings).unwrap(), ..state() };
    let (reply, read) = reply(&state, &question("llm.example.org.", RecordType::NS));
    assert!(!reply.truncated && reply.bytes.len() <= 512);
    assert_eq!((read.answers.len(), read.additionals.len()), (20, 0));
}

// Each gateway comes first about equally often, also for clients that ask in pairs.
#[test]
fn addresses_rotate() {
    let state = crowded(4);
    let bytes = question("llm.example.org.", RecordType::A).to_vec().unwrap();
    let first = |turn| {
        let source = "10.2.0.53".parse().unwrap();
        let reply = respond(&state, &bytes, source, Transport::Udp, turn).unwrap();
        let read = Message::from_vec(&reply.bytes).unwrap();
        let all: BTreeSet<String> = read.answers.iter().map(|one| one.data.to_string()).collect();
        assert_eq!(all.len(), 4);
        read.answers[0].data.to_string()
    };
    for step in [1, 2] {
        let firsts: Vec<String> = (0..1000).map(|n| first(n * step)).collect();
        for n in 0..4 {
            let address = format!("192.0.2.{n}");
            let count = firsts.iter().filter(|first| **first == address).count();
            assert!((200..300).contains(&count), "{address}: {count}");
        }
    }
}
