//! Records of the zone.
//!
//! Owners are cut from the question's name, so they keep its case: resolvers vary the case of a
//! question and compare it with the answer to detect forged ones.

use std::net::IpAddr;

use hickory_proto::rr::rdata::{A, AAAA, HINFO, NS};
use hickory_proto::rr::{Name, RData, Record};

use crate::fleet::Family;
use crate::zone::{STABLE_TTL, Zone};

/// The addresses as records of a name.
pub(crate) fn addresses(name: &Name, ttl: u32, addresses: &[IpAddr]) -> Vec<Record> {
    let record = |ip: &IpAddr| {
        let data = match *ip {
            IpAddr::V4(ip) => RData::A(A(ip)),
            IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
        };
        Record::from_rdata(name.clone(), ttl, data)
    };
    addresses.iter().map(record).collect()
}

/// The start of authority, as an answer.
pub(crate) fn soa(zone: &Zone, question: &Name) -> Record {
    Record::from_rdata(apex(zone, question), STABLE_TTL, RData::SOA(zone.soa.clone()))
}

/// The start of authority beside a negative answer: its time to live is that of the answer, the
/// smaller of the record's own and its MINIMUM field (RFC 2308, section 3).
pub(crate) fn negative(zone: &Zone, question: &Name) -> Record {
    let mut soa = soa(zone, question);
    soa.ttl = STABLE_TTL.min(zone.negative_ttl);
    soa
}

/// The name servers.
pub(crate) fn servers(zone: &Zone, question: &Name) -> Vec<Record> {
    let names = zone.servers.iter().map(|server| RData::NS(NS(server.name.clone())));
    names.map(|data| Record::from_rdata(apex(zone, question), STABLE_TTL, data)).collect()
}

/// The addresses of the name servers inside the zone.
pub(crate) fn glue(zone: &Zone) -> Vec<Record> {
    let records = zone.servers.iter();
    records.flat_map(|server| addresses(&server.name, STABLE_TTL, &server.addresses)).collect()
}

/// The answer to a question for any type: a record that says so (RFC 8482, section 4.2).
pub(crate) fn any(question: &Name) -> Record {
    let data = HINFO::new("RFC8482".to_owned(), String::new());
    Record::from_rdata(question.clone(), STABLE_TTL, RData::HINFO(data))
}

/// The addresses of one family.
pub(crate) fn of_family(addresses: &[IpAddr], family: Family) -> Vec<IpAddr> {
    addresses.iter().copied().filter(|ip| Family::of(*ip) == family).collect()
}

fn apex(zone: &Zone, question: &Name) -> Name {
    question.trim_to(zone.name.iter().count())
}
