//! The records of an answer.

use std::net::IpAddr;

use hickory_proto::op::{self, OpCode};
use hickory_proto::rr::{DNSClass, Record, RecordType};

use super::State;
use crate::answer::{Serves, answer};
use crate::fleet::{Family, Region};
use crate::names::{self, What};
use crate::outcome::Outcome;
use crate::query::Query;
use crate::records;

/// Most addresses in an answer: with the longest name they fit into a message over TCP, of which
/// hickory compresses the first 120 names. A region with more gateways gives others in each answer.
const MOST_ADDRESSES: usize = 256;

/// What an answer says.
pub(super) struct Content<'a> {
    pub(super) outcome: Outcome,
    /// The region whose gateways are in the answer.
    pub(super) region: Option<&'a str>,
    /// SCOPE PREFIX-LENGTH, if the query has a subnet. 0 unless the answer depends on the client.
    pub(super) scope: u8,
    pub(super) answers: Vec<Record>,
    pub(super) authorities: Vec<Record>,
    pub(super) additionals: Vec<Record>,
}

impl<'a> Content<'a> {
    pub(super) fn new(state: &'a State, query: &Query, source: IpAddr, turn: u64) -> Content<'a> {
        if query.head.op_code != OpCode::Query {
            return Content::empty(Outcome::NotImplemented);
        }
        let Some(question) = query.question.as_ref().filter(|_| query.well_formed) else {
            return Content::empty(Outcome::Malformed);
        };
        if query.edns.as_ref().is_some_and(|edns| edns.version > 0) {
            return Content::empty(Outcome::BadVersion);
        }
        if question.query_class != DNSClass::IN {
            return Content::empty(Outcome::Refused);
        }
        let subnet = query.edns.as_ref().and_then(|edns| edns.subnet.as_ref());
        // A socket for both families reports clients of IPv4 under addresses of IPv6.
        let client = subnet.and_then(|subnet| subnet.client());
        let client = client.unwrap_or_else(|| source.to_canonical());
        of_question(state, question, client, turn)
    }

    fn empty(outcome: Outcome) -> Content<'a> {
        let (answers, authorities, additionals) = (Vec::new(), Vec::new(), Vec::new());
        Content { outcome, region: None, scope: 0, answers, authorities, additionals }
    }

    fn records(answers: Vec<Record>) -> Content<'a> {
        Content { answers, ..Content::empty(Outcome::Answer) }
    }

    /// The name or the type does not exist.
    fn negative(outcome: Outcome, state: &State, question: &op::Query) -> Content<'a> {
        let authorities = vec![records::negative(&state.zone, &question.name)];
        Content { authorities, ..Content::empty(outcome) }
    }

    /// Addresses, in an order that changes from query to query.
    fn gateways(
        state: &State,
        question: &op::Query,
        mut addresses: Vec<IpAddr>,
        turn: u64,
    ) -> Content<'a> {
        let count = u64::try_from(addresses.len().max(1)).unwrap_or(u64::MAX);
        let first = usize::try_from(mixed(turn) % count).unwrap_or(0);
        addresses.rotate_left(first);
        addresses.truncate(MOST_ADDRESSES);
        Content::records(records::addresses(&question.name, state.zone.ttl, &addresses))
    }
}

fn of_question<'a>(
    state: &'a State,
    question: &op::Query,
    client: IpAddr,
    turn: u64,
) -> Content<'a> {
    let zone = &state.zone;
    let what = names::find(zone, &state.fleet, &question.name);
    let family = match question.query_type {
        RecordType::A => Some(Family::V4),
        RecordType::AAAA => Some(Family::V6),
        _ => None,
    };
    match (what, question.query_type, family) {
        (What::Outside, ..) | (_, RecordType::AXFR | RecordType::IXFR, _) => {
            Content::empty(Outcome::Refused)
        }
        (What::Missing, ..) => Content::negative(Outcome::NxDomain, state, question),
        (_, RecordType::ANY, _) => Content::records(vec![records::any(&question.name)]),
        (What::Apex, RecordType::SOA, _) => {
            Content::records(vec![records::soa(zone, &question.name)])
        }
        (What::Apex, RecordType::NS, _) => {
            let answers = records::servers(zone, &question.name);
            Content { additionals: records::glue(zone), ..Content::records(answers) }
        }
        (What::Apex, _, Some(family)) => nearest(state, question, client, family, turn),
        (What::Region(name, region), _, Some(family)) => {
            own(state, question, (name, region), family, turn)
        }
        (What::Server(server), _, Some(family)) => {
            let addresses = records::of_family(&server.addresses, family);
            if addresses.is_empty() {
                return Content::negative(Outcome::NoData, state, question);
            }
            let ttl = crate::zone::STABLE_TTL;
            Content::records(records::addresses(&question.name, ttl, &addresses))
        }
        _ => Content::negative(Outcome::NoData, state, question),
    }
}

/// The zone's own name: the region that serves this client.
fn nearest<'a>(
    state: &'a State,
    question: &op::Query,
    client: IpAddr,
    family: Family,
    turn: u64,
) -> Content<'a> {
    let decided = answer(&state.map, &state.fleet, client, family);
    let (region, addresses) = match decided.serves {
        Serves::Region { name, addresses, .. } => (Some(name), addresses),
        Serves::Every { addresses, .. } => (None, addresses),
        Serves::OtherFamily => return Content::negative(Outcome::NoData, state, question),
        Serves::NoGateway => return Content::empty(Outcome::ServFail),
    };
    let scope = decided.scope;
    Content { region, scope, ..Content::gateways(state, question, addresses, turn) }
}

/// The name of one region: its gateways and no others, also while it drains. Its clients must not
/// leave the region, so another one can't take them, and a gateway that refuses a request says why.
fn own<'a>(
    state: &State,
    question: &op::Query,
    (name, region): (&'a str, &Region),
    family: Family,
    turn: u64,
) -> Content<'a> {
    let addresses = region.addresses(family);
    if !addresses.is_empty() {
        let content = Content::gateways(state, question, addresses, turn);
        return Content { region: Some(name), ..content };
    }
    if region.has_address() {
        return Content::negative(Outcome::NoData, state, question);
    }
    Content::empty(Outcome::ServFail)
}

/// A number without the pattern of consecutive ones (the finalizer of SplitMix64). Clients ask for
/// A and AAAA in turn, so with two gateways a plain counter would give each A question the same
/// order.
fn mixed(turn: u64) -> u64 {
    let mut z = turn.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
