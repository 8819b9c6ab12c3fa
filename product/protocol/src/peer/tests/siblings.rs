//! Records for siblings: as they were sent, within limits, whatever the bytes.

use meridian_base::{
    Branch, ModelId, Priority, PromptTiming, ReplicaId, RequestId, SiblingEnding, SiblingLine,
    SiblingRecord, SiblingRequest,
};

use super::*;

const HOSTS: [&str; 3] = ["10.0.0.1:8000", "gpu-2:8000", "[::1]:9"];

fn request(id: u64, replica: u16, blocks: Vec<u64>) -> SiblingRequest {
    SiblingRequest {
        id: RequestId(id),
        replica: ReplicaId(replica),
        blocks,
        block_tokens: 16.0,
        prompt_tokens: 700.0,
        unmatched_tokens: 30.5,
        reply_tokens: 120.0,
        tenant: id ^ 0xAC3E,
        session: id.is_multiple_of(2).then_some(id),
        counts: !id.is_multiple_of(3),
        priority: Priority::ALL[id as usize % 3],
    }
}

fn record() -> impl Strategy<Value = SiblingRecord> {
    let blocks = || proptest::collection::vec(any::<u64>(), 0..40);
    let sent = (any::<u64>(), 0..3_u16, blocks(), amount(), amount()).prop_map(
        |(id, replica, blocks, prompt_tokens, reply_tokens)| {
            let request = request(id, replica, blocks);
            SiblingRecord::Sent(SiblingRequest { prompt_tokens, reply_tokens, ..request })
        },
    );
    let timing = (amount(), amount(), amount());
    let first = (any::<u64>(), proptest::option::of(timing)).prop_map(|(id, timing)| {
        let prompt =
            timing.map(|(ttft_ms, tokens, in_front)| PromptTiming { ttft_ms, tokens, in_front });
        SiblingRecord::FirstToken { id: RequestId(id), prompt }
    });
    let endings = [SiblingEnding::Answered, SiblingEnding::Failed, SiblingEnding::Neutral];
    let cached = proptest::option::of((0..100_u32, blocks()));
    let ended = (any::<u64>(), 0..3_usize, cached).prop_map(move |(id, ending, cached)| {
        let cached = cached.map(|(keep, blocks)| Branch { keep, blocks });
        SiblingRecord::Ended { id: RequestId(id), ending: endings[ending], cached }
    });
    prop_oneof![sent, first, ended]
}

fn batches(restart: bool, records: &[SiblingRecord], hashes: bool) -> Vec<SiblingBatch> {
    let mut batches = Batches::new(restart);
    for record in records {
        let replica = match record {
            SiblingRecord::Sent(request) => Some(HOSTS[request.replica.index() % HOSTS.len()]),
            _ => None,
        };
        batches.push(record, replica, hashes);
    }
    batches.finish()
}

/// The records of messages that went over the wire, with the replicas' places in `HOSTS`.
fn heard(batches: &[SiblingBatch]) -> Vec<SiblingRecord> {
    let mut all = Vec::new();
    for batch in batches {
        let bytes = encoded(&Tell::Siblings(batch.clone()));
        assert!(bytes.len() <= MOST_MESSAGE && bytes.len() <= batch.bytes() + 5);
        let Ok(Tell::Siblings(heard)) = Tell::decode(bytes.as_slice()) else {
            panic!("is refused: {:?}", Tell::decode(bytes.as_slice()));
        };
        assert_eq!(&heard, batch);
        let (replicas, records) = heard.into_records();
        all.extend(records.into_iter().map(|record| match record {
            SiblingRecord::Sent(request) => {
                let at = HOSTS.iter().position(|host| *host == replicas[request.replica.index()]);
                let replica = ReplicaId(at.expect("was named") as u16);
                SiblingRecord::Sent(SiblingRequest { replica, ..request })
            }
            other => other,
        }));
    }
    all
}

proptest! {
    // Records arrive as they were told, in their order. What was told before counts until a batch says
    // that it does not, and only the first one says so.
    #[test]
    fn records_arrive(records in proptest::collection::vec(record(), 0..700), restart: bool) {
        let batches = batches(restart, &records, true);
        prop_assert_eq!(heard(&batches), records);
        for (at, batch) in batches.iter().enumerate() {
            prop_assert_eq!(batch.restarts(), restart && at == 0);
        }
    }

    // No bytes make a reader panic. Whatever it accepts can be told on.
    #[test]
    fn any_bytes_are_records_or_refused(
        records in proptest::collection::vec(record(), 0..4),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        for batch in batches(false, &records, true) {
            let mut bytes = encoded(&Tell::Siblings(batch));
            for (at, value) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            if let Ok(Tell::Siblings(heard)) = Tell::decode(bytes.as_slice()) {
                let (replicas, records) = heard.into_records();
                for record in records {
                    if let SiblingRecord::Sent(request) = record {
                        prop_assert!(request.replica.index() < replicas.len());
                        prop_assert!(request.reply_tokens.is_finite());
                    }
                }
            }
        }
    }
}

// Without anything to tell there is no message, except that what was told before does not count.
#[test]
fn nothing_to_tell() {
    assert_eq!(batches(false, &[], true), []);
    let restart = batches(true, &[], true);
    assert!(restart.len() == 1 && restart[0].restarts() && restart[0].is_empty());
}

// Where hashes are not comparable, only counts arrive.
#[test]
fn without_hashes() {
    let cached = Some(Branch { keep: 2, blocks: vec![3] });
    let ended = |cached| {
        let (id, ending) = (RequestId(7), SiblingEnding::Answered);
        SiblingRecord::Ended { id, ending, cached }
    };
    let told = [SiblingRecord::Sent(request(7, 1, vec![1, 2])), ended(cached)];
    let without = vec![SiblingRecord::Sent(request(7, 1, Vec::new())), ended(None)];
    assert_eq!(heard(&batches(false, &told, false)), without);
}

// The longest prompts and the most replicas fit into messages that are accepted: chains are truncated.
#[test]
fn the_most_fits() {
    let long: Vec<u64> = (0..MOST_BLOCKS as u64 + 500).collect();
    let far = Some(Branch { keep: MOST_BLOCKS as u32 - 1, blocks: long.clone() });
    let ended =
        SiblingRecord::Ended { id: RequestId(1), ending: SiblingEnding::Answered, cached: far };
    let told = [SiblingRecord::Sent(request(1, 0, long.clone())), ended];
    let heard = heard(&batches(true, &told, true));
    let SiblingRecord::Sent(sent) = &heard[0] else { panic!("{heard:?}") };
    assert_eq!(sent.blocks, long[..MOST_BLOCKS]);
    let SiblingRecord::Ended { cached: Some(cached), .. } = &heard[1] else { panic!("{heard:?}") };
    assert_eq!((cached.keep as usize, cached.blocks.len()), (MOST_BLOCKS - 1, 1));

    let mut batches = Batches::new(false);
    for at in 0..MOST_NAMED + 1 {
        let host = format!("{at:0>300}");
        let record = SiblingRecord::Sent(request(u64::MAX, 0, vec![u64::MAX; 80]));
        batches.push(&record, Some(&host), true);
    }
    // A longer name is not told.
    let record = SiblingRecord::Sent(request(1, 0, Vec::new()));
    batches.push(&record, Some(&"h".repeat(301)), true);
    let batches = batches.finish();
    assert_eq!(batches.iter().map(SiblingBatch::len).sum::<usize>(), MOST_NAMED + 1);
    for batch in batches {
        let bytes = encoded(&Tell::Siblings(batch.clone()));
        assert_eq!(Tell::decode(bytes.as_slice()), Ok(Tell::Siblings(batch)));
    }
}

// A number that is none is not told: a sibling would refuse the whole message.
#[test]
fn odd_numbers_are_not_told() {
    let odd = SiblingRequest { reply_tokens: f32::NAN, ..request(1, 0, vec![1]) };
    let prompt = Some(PromptTiming { ttft_ms: f32::INFINITY, tokens: 1.0, in_front: 0.0 });
    let told = [SiblingRecord::Sent(odd), SiblingRecord::FirstToken { id: RequestId(1), prompt }];
    let even = SiblingRequest { reply_tokens: 0.0, ..request(1, 0, vec![1]) };
    let rest = SiblingRecord::FirstToken { id: RequestId(1), prompt: None };
    assert_eq!(heard(&batches(false, &told, true)), [SiblingRecord::Sent(even), rest]);
}

// What breaks a limit is refused with its field.
#[test]
fn broken_batches_are_refused() {
    let sent = |replica, reply_tokens, blocks| proto::SiblingEvent {
        id: 1,
        kind: Some(proto::sibling_event::Kind::Sent(proto::SiblingSent {
            replica,
            reply_tokens,
            blocks,
            ..proto::SiblingSent::default()
        })),
    };
    let batch = |names: Vec<String>, events| {
        let siblings = proto::Siblings { replicas: names, events, ..proto::Siblings::default() };
        let tell = proto::Tell { kind: Some(proto::tell::Kind::Siblings(siblings)) };
        Tell::decode(tell.encode_to_vec().as_slice()).expect_err("is broken").to_string()
    };
    let one = || vec!["gpu:1".to_owned()];
    let error = batch(one(), vec![sent(1, 0.0, Vec::new())]);
    assert_eq!(error, "replica: 1 is not a place in the list of replicas");
    let error = batch(one(), vec![sent(0, f32::NAN, Vec::new())]);
    assert_eq!(error, "reply_tokens: NaN is not a finite number from 0");
    let error = batch(one(), vec![sent(0, f32::INFINITY, Vec::new())]);
    assert_eq!(error, "reply_tokens: inf is not a finite number from 0");
    let error = batch(one(), vec![sent(0, 0.0, vec![1; MOST_BLOCKS + 1])]);
    assert_eq!(error, "blocks: 8193 were sent; send at most 8192");
    let error = batch(one(), vec![sent(0, 0.0, Vec::new()); MOST_EVENTS + 1]);
    assert_eq!(error, "events: 385 were sent; send at most 384");
    let error = batch(vec!["a:1".to_owned(); MOST_NAMED + 1], Vec::new());
    assert_eq!(error, "replicas: 97 were sent; send at most 96");
    let error = batch(vec!["h".repeat(301)], Vec::new());
    assert_eq!(error, "replicas: 301 bytes, over 300");
    let first = proto::SiblingFirstToken {
        timing: Some(proto::SiblingTiming { ttft_ms: -1.0, ..proto::SiblingTiming::default() }),
    };
    let kind = Some(proto::sibling_event::Kind::FirstToken(first));
    let error = batch(one(), vec![proto::SiblingEvent { id: 1, kind }]);
    assert_eq!(error, "ttft_ms: -1 is not a finite number from 0");
    let cached = proto::SiblingCached { keep: MOST_BLOCKS as u32 + 1, blocks: Vec::new() };
    let ended = proto::SiblingEnded { ending: 1, cached: Some(cached) };
    let kind = Some(proto::sibling_event::Kind::Ended(ended));
    let error = batch(one(), vec![proto::SiblingEvent { id: 1, kind }]);
    assert_eq!(error, "keep: 8193 were sent; send at most 8192");
}

// A request costs 8 bytes for each block of its prompt, and some 100 more for its three records.
#[test]
fn bytes_of_a_request() {
    let prompt = Some(PromptTiming { ttft_ms: 80.0, tokens: 30.0, in_front: 0.0 });
    let (id, ending) = (RequestId(1 << 20), SiblingEnding::Answered);
    let cached = Some(Branch { keep: 20, blocks: vec![1, 2] });
    let records = [
        SiblingRecord::Sent(request(id.0, 1, (0..20).collect())),
        SiblingRecord::FirstToken { id, prompt },
        SiblingRecord::Ended { id, ending, cached },
    ];
    let bytes = |n| batches(false, &records[..n], true)[0].bytes();
    expect_test::expect!["[223, 20, 32]"]
        .assert_eq(&format!("{:?}", [bytes(1), bytes(2) - bytes(1), bytes(3) - bytes(2)]));
}

// What tenants took is in messages of its own, within their limits; after a restart it is levels.
#[test]
fn units_of_tenants() {
    let all: Vec<(u64, i64, i64)> = (0..1500).map(|n| (n, n as i64 % 7, -(n as i64))).collect();
    for restart in [false, true] {
        let mut batches = Batches::new(restart);
        all.iter().for_each(|units| batches.push_units(*units));
        batches.push(&SiblingRecord::FirstToken { id: RequestId(1), prompt: None }, None, true);
        let sent = batches.finish();
        let (mut taken, mut levels) = (Vec::new(), Vec::new());
        for batch in &sent {
            let bytes = encoded(&Tell::Siblings(batch.clone()));
            let Ok(Tell::Siblings(read)) = Tell::decode(bytes.as_slice()) else {
                panic!("is refused: {:?}", Tell::decode(bytes.as_slice()));
            };
            taken.extend(read.taken());
            levels.extend(read.levels());
        }
        let none = Vec::new();
        let (has, has_not) = if restart { (&levels, &taken) } else { (&taken, &levels) };
        assert_eq!((has, has_not), (&all, &none));
        assert_eq!((sent.len(), sent[0].restarts()), (3, restart));
    }
}

// What waits is in a message of its own, with the listener's numbers of the models. Lines of models
// that one of the two cannot name are left out, and so are those over the most.
#[test]
fn queues_arrive() {
    let line = |model: u16, tenant| SiblingLine {
        priority: Priority::ALL[usize::from(model) % 3],
        tenant,
        model: ModelId(model),
        held: 3,
        oldest: RequestId(tenant << 40),
        waited_ms: 1250.5,
    };
    let told = |lines: &[SiblingLine]| {
        let mut batches = Batches::new(false);
        batches.set_queue(lines, |id| (id.0 < 9).then(|| format!("model-{}", id.0)));
        let batches = batches.finish();
        assert_eq!(batches.len(), 1);
        let bytes = encoded(&Tell::Siblings(batches[0].clone()));
        let Ok(Tell::Siblings(heard)) = Tell::decode(bytes.as_slice()) else {
            panic!("is refused")
        };
        let id =
            |name: &str| Some(ModelId(100 + name.strip_prefix("model-")?.parse::<u16>().ok()?));
        heard.queue(|name| id(name).filter(|id| id.0 != 103)).expect("was told")
    };
    let here = |line: SiblingLine| SiblingLine { model: ModelId(100 + line.model.0), ..line };
    let lines = [line(2, 7), line(0, 8), line(2, 9), line(3, 7), line(9, 7)];
    assert_eq!(told(&lines), lines[..3].iter().copied().map(here).collect::<Vec<_>>());
    assert_eq!(told(&[]), []);
    let many: Vec<_> = (0..100).map(|tenant| line(1, tenant)).collect();
    assert_eq!(told(&many).len(), 64);
    let record = SiblingRecord::FirstToken { id: RequestId(1), prompt: None };
    assert_eq!(batches(false, &[record], true)[0].queue(|_| None), None);
}
