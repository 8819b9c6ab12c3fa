//! Requests of generators survive a round trip through a trace.

use std::time::Duration;

use meridian_base::Time;
use meridian_workload::trace::{
    Answers, Compared, Format, Load, ProgramOptions, ReadOptions, Reader, RecordOptions, Shadowed,
    TraceRequest, Writer, record, to_programs,
};
use meridian_workload::{
    GENERATORS, Generator, Piece, Program, ProgramKey, Reply, Segment, Walk, content_blocks,
    find_generator,
};

const BLOCK: u32 = 16;

fn generator(name: &str) -> Box<dyn Generator> {
    find_generator(name).expect("a generator of the list").published()
}

fn options(load: Load, block_tokens: u32) -> RecordOptions {
    let regions = vec!["us".into(), "eu".into()];
    RecordOptions { seed: 7, load, answers: Answers::default(), block_tokens, regions }
}

fn closed(clients: &[u32]) -> RecordOptions {
    options(Load::Closed { clients: clients.to_vec() }, BLOCK)
}

fn written(requests: &[TraceRequest], format: Format) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), format, BLOCK).expect("a format to write");
    for (number, request) in (0..).zip(requests) {
        writer.write(request.clone(), number).expect("a Vec takes all");
    }
    writer.finish().expect("a Vec takes all")
}

fn read(text: &[u8], format: Format) -> Vec<TraceRequest> {
    let options = ReadOptions { block_tokens: Some(BLOCK), ..ReadOptions::default() };
    Reader::new(text, format, &options).map(|request| request.expect("a good line")).collect()
}

fn programs(requests: &[TraceRequest]) -> Vec<(Time, Program)> {
    let requests = requests.iter().cloned().map(Ok);
    let options = ProgramOptions::default();
    to_programs(requests, &options).map(|program| program.expect("a good trace")).collect()
}

/// Number of common leading blocks of two prompts.
fn shared(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn blocks(segments: Vec<Segment>) -> Vec<u64> {
    let mut out = Vec::new();
    content_blocks(segments, BLOCK * 4, 0, &mut out);
    out
}

// For every generator, a journal restores each request completely, except for the turn, which
// follows from the session; Mooncake's format restores times, lengths and ids.
#[test]
fn every_generator_is_read_as_it_was_written() {
    for spec in GENERATORS {
        let generator = spec.published();
        let made: Vec<_> = record(&*generator, &closed(&[2, 1])).take(60).collect();
        assert_eq!(made.len(), 60, "{}", spec.name);
        let journal = read(&written(&made, Format::Journal), Format::Journal);
        let whole: Vec<_> = made.iter().map(|r| TraceRequest { turn: None, ..r.clone() }).collect();
        assert_eq!(journal, whole, "{}", spec.name);
        let mooncake = read(&written(&made, Format::Mooncake), Format::Mooncake);
        for (got, made) in mooncake.iter().zip(&made) {
            let [got, made] = [got, made].map(|r| (r.at, r.input_tokens, r.output_tokens));
            assert_eq!(got, made, "{}", spec.name);
        }
        let ids = |all: &[TraceRequest]| all.iter().map(|r| r.hash_ids.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&mooncake), ids(&made), "{}", spec.name);
    }
}

/// The prompts of the first programs of one client, walked by hand, as (tokens, blocks, reply).
fn walked(generator: &dyn Generator, programs: u64) -> Vec<(u32, Vec<u64>, u32)> {
    let mut prompts = Vec::new();
    for ordinal in 0..programs {
        let key = ProgramKey { seed: 7, region: 0, client: 0, ordinal };
        let mut walk = Walk::<Reply>::new(generator.program(key));
        // All requests that may be sent at one time are sent before any answer.
        loop {
            let ready: Vec<usize> = std::iter::from_fn(|| walk.take()).collect();
            if ready.is_empty() {
                break;
            }
            for &node in &ready {
                let pieces = walk.prompt(node);
                let segments: Vec<Segment> =
                    pieces.iter().flat_map(Piece::segments).copied().collect();
                let bytes: u32 = segments.iter().map(|segment| segment.bytes).sum();
                let reply = walk.program().nodes[node].max_tokens;
                prompts.push(((bytes / 4).max(1), blocks(segments), reply));
            }
            for node in ready {
                let reply = walk.program().reply(node);
                walk.answered(node, reply);
            }
        }
    }
    prompts
}

// The programs of a trace share the same blocks, pair by pair, as the prompts that the generator
// sends, and have the same lengths. Trees of equal replies keep the order of the walk.
#[test]
fn prompts_share_what_they_shared() {
    for name in ["sessions", "tree2", "rag", "single"] {
        let generator = generator(name);
        let by_hand = walked(&*generator, 4);
        let made: Vec<_> = record(&*generator, &closed(&[1])).take(by_hand.len()).collect();
        let replayed = programs(&read(&written(&made, Format::Mooncake), Format::Mooncake));
        let replayed: Vec<_> = replayed
            .into_iter()
            .map(|(_, program)| {
                let node = program.nodes[0].clone();
                let bytes: u32 = node.adds.iter().map(|segment| segment.bytes).sum();
                (bytes / 4, blocks(node.adds), node.max_tokens)
            })
            .collect();
        assert_eq!(replayed.len(), by_hand.len(), "{name}");
        for (a, b) in replayed.iter().zip(&by_hand) {
            assert_eq!((a.0, a.1.len(), a.2), (b.0, b.1.len(), b.2), "{name}");
        }
        let mut pairs = 0;
        for i in 0..by_hand.len() {
            for j in 0..i {
                let want = shared(&by_hand[i].1, &by_hand[j].1);
                assert_eq!(shared(&replayed[i].1, &replayed[j].1), want, "{name} {i} {j}");
                pairs += usize::from(want > 0);
            }
        }
        assert!(pairs > 0, "{name} shares nothing, so that this shows nothing");
    }
}

// Times: a closed loop has as many requests in progress as clients, an open loop its rate (within 5
// %), both are ordered by time, and the same seed gives the same.
#[test]
fn recordings_keep_time() {
    let generator = generator("sessions");
    let made: Vec<_> = record(&*generator, &closed(&[3, 2])).take(500).collect();
    let answers = Answers::default();
    for request in &made {
        let under_way = made.iter().filter(|other| {
            other.at <= request.at && request.at < other.at + answers.e2e(other.output_tokens)
        });
        assert!(under_way.count() <= 5);
    }
    assert_eq!(made.iter().filter(|r| r.region.as_deref() == Some("eu")).count(), 200);
    let open = Load::Open { requests_per_second: 20.0, clients: vec![30, 10] };
    let open = options(open, BLOCK);
    let made: Vec<_> = record(&*generator, &open).take(20_000).collect();
    assert!(made.windows(2).all(|two| two[0].at <= two[1].at));
    let rate = made.len() as f64 / made[made.len() - 1].at.as_secs_f64();
    assert!((rate / 20.0 - 1.0).abs() < 0.05, "{rate} a second");
    let eu = made.iter().filter(|r| r.region.as_deref() == Some("eu")).count() as f64;
    assert!((eu / 20_000.0 - 0.25).abs() < 0.03, "{eu} of 20000");
    let again: Vec<_> = record(&*generator, &open).take(1000).collect();
    assert_eq!(again, made[..1000]);
}

// Cut into other blocks and back again, prompts share the same parts as before.
#[test]
fn other_blocks_share_the_same_parts() {
    let generator = generator("sessions");
    let made: Vec<_> = record(&*generator, &closed(&[4])).take(80).collect();
    let large: Vec<_> = (0..).zip(&made).map(|(n, r)| r.clone().in_blocks(64, n)).collect();
    let small: Vec<_> = (0..).zip(&large).map(|(n, r)| r.clone().in_blocks(BLOCK, n)).collect();
    for i in 0..made.len() {
        assert_eq!(small[i].hash_ids.len(), made[i].hash_ids.len());
        for j in 0..i {
            let fine = shared(&made[i].hash_ids, &made[j].hash_ids);
            let coarse = shared(&large[i].hash_ids, &large[j].hash_ids);
            assert_eq!(coarse, fine / 4, "{i} {j}");
            assert_eq!(shared(&small[i].hash_ids, &small[j].hash_ids), coarse * 4, "{i} {j}");
        }
    }
}

// A journal restores the decision of a shadow policy. Half of its fields are an error.
#[test]
fn a_shadow() {
    let compared = Compared {
        prompt_tokens: 90,
        matched_tokens: 64,
        shadow_matched_tokens: 0,
        first_token: Duration::from_micros(3600),
        shadow_first_token: Duration::from_millis(9),
    };
    let shadow = |compared| Shadowed { policy: "p2c".into(), would: "same".into(), compared };
    let one = |shadow| TraceRequest {
        shadow,
        block_tokens: BLOCK,
        ..TraceRequest::new(Time::ZERO, 100, 5)
    };
    let made = [one(None), one(Some(shadow(None))), one(Some(shadow(Some(compared))))];
    let text = written(&made, Format::Journal);
    assert_eq!(read(&text, Format::Journal), made);
    let half = String::from_utf8(text).unwrap().replace(",\"x_shadow_would\":\"same\"", "");
    let mut reader = Reader::new(half.as_bytes(), Format::Journal, &ReadOptions::default());
    let error = reader.find_map(Result::err).expect("a line lacks a field").to_string();
    assert!(error.contains("x_shadow_would"), "{error}");
    let shadow = ",\"x_shadow\":\"p2c\"";
    let part = half.replace(shadow, &format!("{shadow},\"x_shadow_would\":\"same\""));
    let part = part.replace(",\"x_matched\":64", "");
    let mut reader = Reader::new(part.as_bytes(), Format::Journal, &ReadOptions::default());
    let error = reader.find_map(Result::err).expect("a line lacks a figure").to_string();
    assert!(error.contains("x_matched"), "{error}");
    // Without a shadow, the names are the user's own.
    let own = half.replace(shadow, "").replace("\"x_prompt\":90", "\"x_prompt\":\"mine\"");
    assert!(read(own.as_bytes(), Format::Journal).iter().all(|request| request.shadow.is_none()));
}
