use hickory_proto::op::{Message, OpCode};
use hickory_proto::rr::rdata::NULL;
use hickory_proto::rr::{Name, RData, Record as OtherRecord, RecordType};
use proptest::prelude::*;

use super::*;

/// A question for `a.example` with these bytes after it, and the counts of the three sections.
fn bytes(counts: [u8; 3], after: &[u8]) -> Vec<u8> {
    let [answers, authorities, additionals] = counts;
    let mut bytes = vec![0, 7, 1, 0, 0, 1, 0, answers, 0, authorities, 0, additionals];
    bytes.extend(b"\x01a\x07example\x00\x00\x01\x00\x01");
    bytes.extend(after);
    bytes
}

/// An OPT record with a payload of 4096 bytes, the DO bit and these options.
fn opt(options: &[u8]) -> Vec<u8> {
    let mut opt = vec![0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, u8::try_from(options.len()).unwrap()];
    opt.extend(options);
    opt
}

// A subnet among other options, after a record that is not the OPT record.
#[test]
fn the_opt_record_is_found() {
    let other = b"\x01b\xc0\x0c\x00\x10\x00\x01\x00\x00\x00\x00\x00\x03\x02hi";
    let options = [0, 10, 0, 2, 9, 9, 0, 8, 0, 7, 0, 1, 24, 0, 10, 1, 2];
    let after = [other.as_slice(), &opt(&options)].concat();
    let query = Query::read(&bytes([0, 0, 2], &after)).unwrap();
    assert!(query.well_formed);
    assert_eq!(query.question.unwrap().name.to_ascii(), "a.example.");
    let edns = query.edns.unwrap();
    assert_eq!((edns.payload, edns.version, edns.dnssec_ok), (4096, 0, true));
    assert_eq!(edns.subnet.unwrap().client(), Some("10.1.2.0".parse().unwrap()));
}

// Each malformed query still has its head and question, for the answer.
#[test]
fn malformed_queries_keep_their_question() {
    let subnet_beyond = [0, 8, 0, 7, 0, 1, 20, 0, 10, 1, 255];
    let bad: [(&str, [u8; 3], Vec<u8>); 8] = [
        ("a record that is not there", [0, 0, 1], vec![]),
        ("half an OPT record", [0, 0, 1], opt(&[])[..9].to_vec()),
        ("two OPT records", [0, 0, 2], [opt(&[]), opt(&[])].concat()),
        ("an OPT record as an answer", [1, 0, 0], opt(&[])),
        ("an OPT record with a name", [0, 0, 1], [b"\x01a".as_slice(), &opt(&[])].concat()),
        ("an option that ends too early", [0, 0, 1], opt(&[0, 8, 0, 200, 0])),
        ("half an option", [0, 0, 1], opt(&[0, 8, 0])),
        ("a subnet with bits beyond its length", [0, 0, 1], opt(&subnet_beyond)),
    ];
    for (what, counts, after) in bad {
        let query = Query::read(&bytes(counts, &after)).unwrap();
        assert!(!query.well_formed, "{what}");
        assert!(query.question.is_some(), "{what}");
    }
    let subnet = Query::read(&bytes([0, 0, 1], &opt(&subnet_beyond))).unwrap();
    assert!(subnet.edns.is_some(), "its answer has an OPT record");
}

// No question, two questions, and a name whose pointer leads to itself.
#[test]
fn a_query_has_one_question() {
    let mut none = bytes([0; 3], &[]);
    none[5] = 0;
    let mut two = bytes([0; 3], b"\x01b\x00\x00\x01\x00\x01");
    two[5] = 2;
    let mut circle = bytes([0; 3], &[]);
    circle.truncate(12);
    circle.extend([0xc0, 12, 0, 1, 0, 1]);
    for bytes in [none, two, circle] {
        let query = Query::read(&bytes).unwrap();
        assert!(!query.well_formed && query.question.is_none());
    }
}

// A response gets no answer, nor does a message without a whole header.
#[test]
fn what_gets_no_answer() {
    let mut response = bytes([0; 3], &[]);
    response[2] |= 0x80;
    assert!(Query::read(&response).is_none());
    assert!(Query::read(&response[..11]).is_none());
}

proptest! {
    // Any bytes are read or refused without a panic, after a header and alone.
    #[test]
    fn any_bytes(after in prop::collection::vec(any::<u8>(), 0..80), counts in any::<[u8; 3]>()) {
        Query::read(&after);
        Query::read(&bytes(counts, &after));
    }

    // What hickory writes is read here, whatever records surround the OPT record.
    #[test]
    fn messages_of_hickory_are_read(
        records in prop::collection::vec((0..3_u8, "[a-z]{1,20}", prop::collection::vec(any::<u8>(), 1..40)), 0..6),
        payload in any::<u16>(),
    ) {
        let mut message = Message::new(7, MessageType::Query, OpCode::Query);
        message.add_query(op::Query::query(Name::from_ascii("a.example.").unwrap(), RecordType::A));
        for (section, name, data) in records {
            let data = RData::Unknown { code: RecordType::Unknown(999), rdata: NULL::with(data) };
            let name = Name::from_ascii(format!("{name}.a.example.")).unwrap();
            let record = OtherRecord::from_rdata(name, 0, data);
            match section {
                0 => message.add_answer(record),
                1 => message.add_authority(record),
                _ => message.add_additional(record),
            };
        }
        let mut edns = op::Edns::new();
        edns.set_max_payload(payload);
        message.set_edns(edns);
        let query = Query::read(&message.to_vec().unwrap()).unwrap();
        prop_assert!(query.well_formed);
        prop_assert_eq!(query.edns.unwrap().payload, payload.max(512));
    }
}
