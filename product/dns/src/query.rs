//! A query as bytes.
//!
//! Header and question are read by `hickory-proto`. The records after them are skipped up to the
//! OPT record, which is read here: the checks of RFC 7871 need the option's own bytes. So no other
//! record is decoded, and reading takes time in proportion to the message.

use hickory_proto::op::{self, Header, MessageType, Metadata};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

use crate::subnet::{self, Subnet};

/// The type of an OPT record.
const OPT: u16 = 41;

/// As much of a query as could be read.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) head: Metadata,
    pub(crate) question: Option<op::Query>,
    pub(crate) edns: Option<Edns>,
    /// Whether all of it could be read, and it has exactly one question (RFC 9619).
    pub(crate) well_formed: bool,
}

/// The OPT record of a query (RFC 6891).
#[derive(Debug)]
pub(crate) struct Edns {
    /// Largest UDP message that the sender takes, in bytes.
    pub(crate) payload: u16,
    pub(crate) version: u8,
    pub(crate) dnssec_ok: bool,
    pub(crate) subnet: Option<Subnet>,
}

impl Query {
    /// Reads a query. `None` if no answer should be sent: it is too short for a header, or it is a
    /// response, and two servers that answer each other's responses never stop.
    pub(crate) fn read(bytes: &[u8]) -> Option<Query> {
        let mut decoder = BinDecoder::new(bytes);
        let header = Header::read(&mut decoder).ok()?;
        if header.message_type == MessageType::Response {
            return None;
        }
        let head = header.metadata;
        let mut query = Query { head, question: None, edns: None, well_formed: false };
        if header.counts.queries == 1 {
            query.question = op::Query::read(&mut decoder).ok();
        }
        if query.question.is_some() {
            let mut records = Records { bytes, at: decoder.index() };
            let counts = header.counts;
            let before = u32::from(counts.answers) + u32::from(counts.authorities);
            query.well_formed = query.rest(&mut records, before, counts.additionals).is_some();
        }
        Some(query)
    }

    /// Reads the records after the question. The OPT record is in the additional section, once, and
    /// has the root's name (RFC 6891, section 6.1.1).
    fn rest(&mut self, records: &mut Records<'_>, before: u32, additionals: u16) -> Option<()> {
        for _ in 0..before {
            records.next().filter(|record| record.kind != OPT)?;
        }
        for _ in 0..additionals {
            let record = records.next()?;
            if record.kind != OPT {
                continue;
            }
            if self.edns.is_some() || !record.at_root {
                return None;
            }
            let [_, version, flags, _] = record.ttl;
            // Kept even if an option is malformed: the answer then has an OPT record too.
            let edns = self.edns.insert(Edns {
                payload: record.class,
                version,
                dnssec_ok: flags & 0x80 != 0,
                subnet: None,
            });
            edns.subnet = subnet_of(record.data)?;
        }
        Some(())
    }
}

/// The first subnet among the options of an OPT record.
#[expect(clippy::option_option, reason = "malformed, or without a subnet")]
fn subnet_of(mut options: &[u8]) -> Option<Option<Subnet>> {
    let mut found = None;
    while let Some((&[a, b, c, d], rest)) = options.split_first_chunk() {
        let (code, length) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (data, rest) = rest.split_at_checked(usize::from(length))?;
        if code == subnet::CODE && found.is_none() {
            found = Some(Subnet::read(data)?);
        }
        options = rest;
    }
    options.is_empty().then_some(found)
}

/// The records of a message, one after the other.
struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

struct Record<'a> {
    /// Whether its name is the root's.
    at_root: bool,
    kind: u16,
    class: u16,
    ttl: [u8; 4],
    data: &'a [u8],
}

impl<'a> Records<'a> {
    /// The next record; `None` if the message ends inside it.
    fn next(&mut self) -> Option<Record<'a>> {
        let start = self.at;
        self.skip_name()?;
        let at_root = self.at - start == 1;
        let [kind_high, kind_low, class_high, class_low] = self.take()?;
        let ttl = self.take()?;
        let length = usize::from(u16::from_be_bytes(self.take()?));
        let data = self.bytes.get(self.at..self.at + length)?;
        self.at += length;
        let kind = u16::from_be_bytes([kind_high, kind_low]);
        let class = u16::from_be_bytes([class_high, class_low]);
        Some(Record { at_root, kind, class, ttl, data })
    }

    /// Labels up to the root's, or to a pointer, which ends a name (RFC 1035, section 4.1.4).
    fn skip_name(&mut self) -> Option<()> {
        loop {
            let [length] = self.take()?;
            match length {
                0 => return Some(()),
                1..=63 => self.at += usize::from(length),
                192.. => return self.take::<1>().map(|_| ()),
                64..192 => return None,
            }
        }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(*taken)
    }
}

#[cfg(test)]
mod tests;
