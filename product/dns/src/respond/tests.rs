use std::sync::Arc;
mod sizes;

use std::fmt::Write;

use hickory_proto::op::{Edns, MessageType, OpCode};
use hickory_proto::rr::rdata::opt::EdnsCode;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use proptest::prelude::*;

use super::*;
use crate::fleet::Region;
use crate::map::entries_of_text;
use crate::zone::Settings;

const CLIENTS: &str = "10.1.0.0/16 eu\n10.1.7.0/24 us\n10.2.0.0/16 us\n2001:db8:1::/48 eu";

fn region(addresses: &[&str], rtt_ms: &[(&str, f64)]) -> Region {
    let gateways =
        (1..).zip(addresses).map(|(n, at)| (format!("gw-{n}"), vec![at.parse().unwrap()]));
    let rtt_ms = rtt_ms.iter().map(|(to, ms)| ((*to).to_owned(), *ms));
    Region { open: true, gateways: gateways.collect(), rtt_ms: rtt_ms.collect() }
}

fn state() -> State {
    let server = |name: &str, ips: &[&str]| {
        (name.to_owned(), ips.iter().map(|ip| ip.parse().unwrap()).collect())
    };
    let nameservers = [
        server("ns1", &["198.51.100.53", "2001:db8::53"]),
        server("a.dns.llm.example.org", &["203.0.113.53"]),
        server("ns.example.net", &[]),
    ];
    let zone = "llm.example.org".to_owned();
    let settings = Settings { zone, nameservers: nameservers.into(), ..Settings::default() };
    let regions = [
        ("ap", region(&["203.0.113.1"], &[])),
        ("eu", region(&["192.0.2.1", "192.0.2.2", "2001:db8:e::1"], &[("us", 90.0)])),
        ("us", region(&["198.51.100.1"], &[])),
    ];
    let regions = regions.map(|(name, region)| (name.to_owned(), region)).into();
    State {
        zone: Zone::new(&settings).unwrap(),
        map: Arc::new(
            ClientMap::new(entries_of_text("clients", CLIENTS).unwrap(), Some("us")).unwrap(),
        ),
        fleet: Fleet { regions },
    }
}

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(op::Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

/// A question with a subnet, such as `10.1.0.0/16`.
fn with_subnet(mut message: Message, subnet: &str) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    edns.options_mut().insert(EdnsOption::Subnet(subnet.parse().unwrap()));
    message.set_edns(edns);
    message
}

fn reply(state: &State, message: &Message) -> (Reply, Message) {
    let source = "10.2.0.53".parse().unwrap();
    let bytes = message.to_vec().unwrap();
    let reply = respond(state, &bytes, source, Transport::Udp, 0).unwrap();
    let read = Message::from_vec(&reply.bytes).unwrap();
    assert_eq!((read.metadata.id, read.metadata.message_type), (7, MessageType::Response));
    assert!(!read.metadata.recursion_available);
    (reply, read)
}

fn records(text: &mut String, section: &str, records: &[Record]) {
    for Record { name, ttl, data, .. } in records {
        let data = match data {
            RData::SOA(soa) => format!("{} {} min {}", soa.mname, soa.rname, soa.minimum),
            data => data.to_string(),
        };
        write!(text, "\n{section} {name} {ttl} {data}").unwrap();
    }
}

/// The answer as text: code, bits, scope and records.
fn told(state: &State, message: &Message) -> String {
    let (reply, read) = reply(state, message);
    let mut text = format!("{} {}", reply.kind.name(), reply.outcome.name());
    if let Some(region) = &reply.region {
        write!(text, " {region}").unwrap();
    }
    if read.metadata.authoritative {
        text += " aa";
    }
    if read.metadata.truncation {
        text += " tc";
    }
    if let Some(edns) = &read.edns
        && let Some(EdnsOption::Subnet(subnet)) = edns.option(EdnsCode::Subnet)
    {
        let (address, scope) = (subnet.addr(), subnet.scope_prefix());
        write!(text, " {address}/{}/{scope}", subnet.source_prefix()).unwrap();
    }
    assert_eq!(read.metadata.response_code, reply.outcome.code());
    records(&mut text, "an", &read.answers);
    records(&mut text, "au", &read.authorities);
    records(&mut text, "ad", &read.additionals);
    text
}

fn asked(name: &str, kind: RecordType) -> String {
    told(&state(), &question(name, kind))
}

const NEGATIVE: &str =
    "au llm.example.org. 5 a.dns.llm.example.org. hostmaster.llm.example.org. min 5";

// Without a subnet the resolver's own address counts; with one, the client's. The scope minds the
// more specific prefix inside the client's own.
#[test]
fn the_apex_leads_to_the_nearest_region() {
    assert_eq!(
        asked("llm.example.org.", RecordType::A),
        "A answer us aa\nan llm.example.org. 10 198.51.100.1"
    );
    let eu = |subnet: &str| {
        told(&state(), &with_subnet(question("llm.example.org.", RecordType::AAAA), subnet))
    };
    let record = "\nan llm.example.org. 10 2001:db8:e::1";
    assert_eq!(eu("10.1.128.0/24"), format!("AAAA answer eu aa 10.1.128.0/24/17{record}"));
    assert_eq!(eu("10.1.6.0/24"), format!("AAAA answer eu aa 10.1.6.0/24/24{record}"));
    assert_eq!(eu("2001:db8:1::/56"), format!("AAAA answer eu aa 2001:db8:1::/56/48{record}"));
    assert_eq!(eu("0.0.0.0/0"), format!("AAAA answer eu aa 0.0.0.0/0/0{record}"));
}

// The name of a region leads to its gateways and never to others: also while it drains, and not at
// all while none is alive. The scope is 0: the answer does not depend on the client.
#[test]
fn a_region_has_a_name() {
    let mut state = state();
    let ask = |state: &State, kind| {
        told(state, &with_subnet(question("us.llm.example.org.", kind), "10.1.0.0/16"))
    };
    let answer = "A answer us aa 10.1.0.0/16/0\nan us.llm.example.org. 10 198.51.100.1";
    assert_eq!(ask(&state, RecordType::A), answer);
    assert_eq!(ask(&state, RecordType::AAAA), format!("AAAA nodata aa 10.1.0.0/16/0\n{NEGATIVE}"));
    state.fleet.regions.get_mut("us").unwrap().open = false;
    assert_eq!(ask(&state, RecordType::A), answer);
    state.fleet.regions.get_mut("us").unwrap().gateways.clear();
    assert_eq!(ask(&state, RecordType::A), "A servfail 10.1.0.0/16/0");
}

// Without a living gateway in any open region the name fails, whatever the family; the zone's own
// records remain.
#[test]
fn a_fleet_without_gateways_fails() {
    let mut state = state();
    for region in state.fleet.regions.values_mut() {
        region.gateways.retain(|_, addresses| addresses[0].is_ipv6());
    }
    let ask = |state: &State, kind| told(state, &question("llm.example.org.", kind));
    assert_eq!(ask(&state, RecordType::A), format!("A nodata aa\n{NEGATIVE}"));
    state.fleet.regions.get_mut("eu").unwrap().open = false;
    assert_eq!(ask(&state, RecordType::A), "A servfail");
    assert_eq!(ask(&state, RecordType::AAAA), "AAAA servfail");
    assert_eq!(ask(&state, RecordType::MX), format!("other nodata aa\n{NEGATIVE}"));
    assert!(ask(&state, RecordType::SOA).starts_with("SOA answer aa"));
}

// Start of authority, name servers, and the addresses of those inside the zone.
#[test]
fn the_zones_own_records() {
    assert_eq!(
        asked("llm.example.org.", RecordType::SOA),
        "SOA answer aa\nan llm.example.org. 3600 a.dns.llm.example.org. \
         hostmaster.llm.example.org. min 5"
    );
    assert_eq!(
        asked("llm.example.org.", RecordType::NS),
        "NS answer aa\n\
         an llm.example.org. 3600 a.dns.llm.example.org.\n\
         an llm.example.org. 3600 ns.example.net.\n\
         an llm.example.org. 3600 ns1.llm.example.org.\n\
         ad a.dns.llm.example.org. 3600 203.0.113.53\n\
         ad ns1.llm.example.org. 3600 198.51.100.53\n\
         ad ns1.llm.example.org. 3600 2001:db8::53"
    );
    assert_eq!(
        asked("ns1.llm.example.org.", RecordType::AAAA),
        "AAAA answer aa\nan ns1.llm.example.org. 3600 2001:db8::53"
    );
    let nodata = format!("AAAA nodata aa\n{NEGATIVE}");
    assert_eq!(asked("a.dns.llm.example.org.", RecordType::AAAA), nodata);
}

// A name between the zone and a name server exists (RFC 8020); others do not, also below a region.
#[test]
fn names_that_do_not_exist() {
    assert_eq!(asked("dns.llm.example.org.", RecordType::A), format!("A nodata aa\n{NEGATIVE}"));
    for name in ["mars.llm.example.org.", "x.eu.llm.example.org.", "*.llm.example.org."] {
        assert_eq!(asked(name, RecordType::A), format!("A nxdomain aa\n{NEGATIVE}"), "{name}");
    }
}

// Names outside the zone, transfers and other classes are refused, other operations are not
// implemented, and a question for any type gets one small record (RFC 8482).
#[test]
fn what_is_not_served() {
    for name in ["example.org.", "xllm.example.org.", "."] {
        assert_eq!(asked(name, RecordType::A), "A refused", "{name}");
    }
    assert_eq!(asked("llm.example.org.", RecordType::AXFR), "other refused");
    assert_eq!(asked("llm.example.org.", RecordType::IXFR), "other refused");
    let mut chaos = question("llm.example.org.", RecordType::TXT);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(told(&state(), &chaos), "other refused");
    for code in [OpCode::Notify, OpCode::Update, OpCode::Status, OpCode::Unknown(6)] {
        let mut message = question("llm.example.org.", RecordType::SOA);
        message.metadata.op_code = code;
        assert_eq!(told(&state(), &message), "SOA notimp");
    }
    assert_eq!(
        asked("eu.llm.example.org.", RecordType::ANY),
        "ANY answer aa\nan eu.llm.example.org. 3600 RFC8482 "
    );
    assert_eq!(
        asked("no.llm.example.org.", RecordType::ANY),
        format!("ANY nxdomain aa\n{NEGATIVE}")
    );
}

// The question comes back in its own case, in the owners of all records too.
#[test]
fn the_case_of_a_question_is_kept() {
    let (_, read) = reply(&state(), &question("eU.lLm.ExamPLE.org.", RecordType::A));
    assert_eq!(read.queries[0].name.to_ascii(), "eU.lLm.ExamPLE.org.");
    assert_eq!(read.answers[0].name.to_ascii(), "eU.lLm.ExamPLE.org.");
    let (_, read) = reply(&state(), &question("No.lLm.ExamPLE.org.", RecordType::A));
    assert_eq!(read.authorities[0].name.to_ascii(), "lLm.ExamPLE.org.");
}

// EDNS: the bits that are copied, the size that this server takes, and a later version's refusal. A
// query without it gets an answer without it.
#[test]
fn edns_is_answered() {
    let mut message = question("llm.example.org.", RecordType::A);
    message.metadata.checking_disabled = true;
    let (_, read) = reply(&state(), &message);
    assert!(read.edns.is_none() && read.metadata.recursion_desired);
    assert!(read.metadata.checking_disabled && !read.metadata.authentic_data);
    let mut edns = Edns::new();
    edns.set_dnssec_ok(true);
    message.set_edns(edns.clone());
    let (_, read) = reply(&state(), &message);
    let answered = read.edns.unwrap();
    assert!(answered.flags().dnssec_ok);
    assert_eq!(answered.max_payload(), 1232);
    edns.set_version(1);
    message.set_edns(edns);
    let (reply, read) = reply(&state(), &message);
    assert_eq!(reply.outcome, Outcome::BadVersion);
    // 16, which hickory reads as another code with this number.
    assert_eq!(u16::from(read.metadata.response_code), 16);
    assert_eq!(read.edns.unwrap().version(), 0);
}

// A malformed subnet is a format error with an OPT record and without the option.
#[test]
fn a_malformed_subnet_is_a_format_error() {
    let mut message = question("llm.example.org.", RecordType::A);
    let mut edns = Edns::new();
    edns.options_mut().insert(EdnsOption::Unknown(8, vec![0, 1, 16, 0, 10, 1, 1]));
    message.set_edns(edns);
    let (reply, read) = reply(&state(), &message);
    assert_eq!(reply.outcome, Outcome::Malformed);
    assert!(read.edns.unwrap().options().as_ref().is_empty());
}

proptest! {
    // No bytes make it panic, and an answer is never larger than allowed, nor much larger than the
    // query unless it has records.
    #[test]
    fn any_bytes_are_answered(
        mut bytes in prop::collection::vec(any::<u8>(), 0..120), whole in any::<bool>()
    ) {
        if whole && bytes.len() > 12 {
            bytes[2] &= 0x07;
            let additionals = bytes[11] % 3;
            bytes[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, additionals]);
        }
        let source = "10.2.0.53".parse().unwrap();
        if let Some(reply) = respond(&state(), &bytes, source, Transport::Udp, 0) {
            prop_assert!(reply.bytes.len() <= 1232);
            prop_assert_eq!(&reply.bytes[..2], &bytes[..2]);
            Message::from_vec(&reply.bytes).unwrap();
        }
    }

    // Clients in the scope of an answer get the same answer.
    #[test]
    fn a_scope_has_one_answer(client in any::<u32>(), other in any::<u32>(), near in any::<bool>()) {
        let state = state();
        let client = if near { client % 0x0004_0000 + 0x0a00_0000 } else { client };
        let ask = |ip: u32| {
            let subnet = format!("{}/32", std::net::Ipv4Addr::from(ip));
            let (reply, read) = reply(&state, &with_subnet(question("llm.example.org.", RecordType::A), &subnet));
            let edns = read.edns.unwrap();
            let Some(EdnsOption::Subnet(subnet)) = edns.option(EdnsCode::Subnet) else { panic!() };
            (reply.region, subnet.scope_prefix())
        };
        let (region, scope) = ask(client);
        let mask = u32::MAX.checked_shl(32 - u32::from(scope)).unwrap_or(0);
        prop_assert_eq!(ask(client & mask | other & !mask), (region, scope));
    }
}
