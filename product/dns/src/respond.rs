//! The answer to one query, from bytes to bytes.
//!
//! A pure function of the state, the query, its sender and a number that rotates the addresses. It
//! has neither a clock nor a socket, and no bytes make it panic.
//!
//! **Without a living gateway** the answer is SERVFAIL, and not an empty one: a resolver keeps an
//! empty answer, and passes it to clients, until its time to live is over. After SERVFAIL it asks
//! the zone's other name servers and may serve the last good answer (RFC 8767).

mod content;

use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::op::{self, Message};
use hickory_proto::rr::rdata::opt::EdnsOption;

use self::content::Content;
use crate::fleet::Fleet;
use crate::map::ClientMap;
use crate::outcome::{Kind, Outcome};
use crate::query::Query;
use crate::subnet;
use crate::zone::Zone;

/// Largest answer over UDP without EDNS, in bytes (RFC 1035, section 4.2.1).
const PLAIN_UDP: u16 = 512;
/// Largest answer over UDP, in bytes: one that no network fragments (DNS flag day 2020).
const LARGEST_UDP: u16 = 1232;

/// Everything that answers depend on. Replaced as a whole, so an answer never mixes two states.
#[derive(Clone, Debug)]
pub struct State {
    /// The zone.
    pub zone: Zone,
    /// The regions of clients.
    pub map: Arc<ClientMap>,
    /// The regions and their living gateways.
    pub fleet: Fleet,
}

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram, whose size limits the answer.
    Udp,
    /// Over a connection.
    Tcp,
}

/// An answer, and what it was, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The message.
    pub bytes: Vec<u8>,
    /// The type that was asked for.
    pub kind: Kind,
    /// The result.
    pub outcome: Outcome,
    /// The region whose gateways are in the answer, if it is one region.
    pub region: Option<String>,
    /// Whether the answer was too large for UDP, and only says so.
    pub truncated: bool,
}

/// Answers a query from `source`. `turn` is a number that differs from query to query and rotates
/// the addresses. `None` if no answer should be sent.
///
/// Takes time in proportion to the query, the addresses in the answer and, if the client's region
/// can't serve, the regions.
#[must_use]
pub fn respond(
    state: &State,
    query: &[u8],
    source: IpAddr,
    transport: Transport,
    turn: u64,
) -> Option<Reply> {
    let query = Query::read(query)?;
    let content = Content::new(state, &query, source, turn);
    let kind = query.question.as_ref().map_or(Kind::Other, |asked| Kind::of(asked.query_type));
    let outcome = content.outcome;
    let region = content.region.map(str::to_owned);
    let (bytes, truncated) = encode(message(&query, content), largest(&query, transport))?;
    Some(Reply { bytes, kind, outcome, region, truncated })
}

/// Largest answer that the sender takes, in bytes.
fn largest(query: &Query, transport: Transport) -> u16 {
    match (transport, &query.edns) {
        (Transport::Tcp, _) => u16::MAX,
        (Transport::Udp, None) => PLAIN_UDP,
        (Transport::Udp, Some(edns)) => edns.payload.clamp(PLAIN_UDP, LARGEST_UDP),
    }
}

fn message(query: &Query, content: Content<'_>) -> Message {
    let mut message = Message::response(query.head.id, query.head.op_code);
    message.metadata.response_code = content.outcome.code();
    message.metadata.authoritative = content.outcome.is_authoritative();
    // Copied, as RFC 1035, section 4.1.1, and RFC 4035, section 3.1.6, demand.
    message.metadata.recursion_desired = query.head.recursion_desired;
    message.metadata.checking_disabled = query.head.checking_disabled;
    message.add_queries(query.question.clone());
    message.answers = content.answers;
    message.authorities = content.authorities;
    message.additionals = content.additionals;
    if let Some(asked) = &query.edns {
        let mut edns = op::Edns::new();
        edns.set_max_payload(LARGEST_UDP);
        // Copied, though nothing is signed (RFC 3225, section 3).
        edns.set_dnssec_ok(asked.dnssec_ok);
        if let Some(subnet) = &asked.subnet {
            let data = subnet.response(content.scope);
            edns.options_mut().insert(EdnsOption::Unknown(subnet::CODE, data));
        }
        message.set_edns(edns);
    }
    message
}

/// The message's bytes, and whether it had to be truncated: without the records that may be left
/// out, or else without any, so that a client never takes a part of the addresses for all of them
/// (RFC 2181, section 9). `None` if not even the question fits.
fn encode(mut message: Message, largest: u16) -> Option<(Vec<u8>, bool)> {
    let fits = |bytes: &Vec<u8>| bytes.len() <= usize::from(largest);
    if let Some(bytes) = message.to_vec().ok().filter(fits) {
        return Some((bytes, false));
    }
    message.additionals.clear();
    if let Some(bytes) = message.to_vec().ok().filter(fits) {
        return Some((bytes, false));
    }
    let bytes = message.truncate().to_vec().ok().filter(fits)?;
    Some((bytes, true))
}

#[cfg(test)]
mod tests;
