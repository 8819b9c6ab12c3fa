//! No input makes a reader panic, and whatever it reads satisfies its contract.

use meridian_workload::trace::{
    Format, MAX_TOKENS, ProgramOptions, ReadOptions, Reader, ServeGenReader, Shape, Stats,
    StatsOptions, TraceError, shape, to_programs,
};
use proptest::prelude::*;

/// A valid beginning of each format, to be corrupted.
const GOOD: [(Format, &str); 4] = [
    (
        Format::Mooncake,
        "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 500, \"hash_ids\": [0, 1]}\n\
         {\"timestamp\": 3000, \"input_length\": 512, \"output_length\": 5, \"hash_ids\": [0]}\n",
    ),
    (
        Format::Qwen,
        "{\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 1.5, \"input_length\": 17, \
         \"output_length\": 3, \"type\": \"text\", \"turn\": 1, \"hash_ids\": [7, 8]}\n\
         {\"chat_id\": 2, \"parent_chat_id\": 1, \"timestamp\": 2, \"input_length\": 33, \
         \"output_length\": 3, \"type\": \"text\", \"turn\": 2, \"hash_ids\": [7, 8, 9]}\n",
    ),
    (
        Format::Azure,
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n\
         2023-11-16 18:15:50.9951690,396,109\r\n",
    ),
    (
        Format::Journal,
        "{\"meridian_journal\": 1, \"block_tokens\": 16}\n{\"timestamp\": 5.5, \
         \"input_length\": 33, \"output_length\": 5, \"hash_ids\": [1, 2, 3], \"region\": \"eu\", \
         \"tenant\": \"ff\", \"session\": \"ab\", \"outcome\": \"done\", \"ttft_ms\": 2, \
         \"e2e_ms\": 9}\n",
    ),
];

/// Reads `bytes` in every way, up to programs and statistics.
fn read(bytes: &[u8], format: Format, lenient: bool) {
    let options = ReadOptions { lenient, max_line_bytes: 400, ..ReadOptions::default() };
    let mut reader = Reader::new(bytes, format, &options);
    let read: Vec<_> = (&mut reader).collect();
    let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
    assert!(read.len() as u64 + reader.skipped().lines <= lines);
    assert!(!lenient || read.iter().all(Result::is_ok), "lenient skips bad lines");
    for request in read.iter().flatten() {
        assert!((1..=MAX_TOKENS).contains(&request.input_tokens));
        let bytes: u64 = request.segments(1).iter().map(|s| u64::from(s.bytes)).sum();
        assert_eq!(bytes, u64::from(request.input_tokens) * 4);
    }
    let spread = std::time::Duration::from_secs(3);
    let to = Shape { spread, sessions_beyond: Some(0), rate: 0.5, ..Shape::default() };
    let shaped = shape(Reader::new(bytes, format, &options), &to).expect("a good shape");
    let (mut stats, mut last) = (Stats::new(StatsOptions::default()), None);
    let watched = shaped.inspect(|request| {
        if let Ok(request) = request {
            assert!(last <= Some(request.at), "requests come by time");
            last = Some(request.at);
            stats.add(request);
        }
    });
    let options = ProgramOptions::default();
    let made = to_programs(watched, &options).filter(Result::is_ok).count();
    assert_eq!(stats.finish().requests, made as u64);
}

fn in_every_way(bytes: &[u8]) {
    for format in Format::ALL {
        read(bytes, format, false);
        read(bytes, format, true);
    }
    let rates: Vec<Result<_, TraceError>> = ServeGenReader::new(bytes).collect();
    assert!(rates.iter().rev().skip(1).all(Result::is_ok), "nothing follows an error");
    let _ = Format::of_first_line(&String::from_utf8_lossy(bytes));
}

proptest! {
    // Arbitrary bytes.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        in_every_way(&bytes);
    }

    // Valid lines with some bytes changed, missing, or repeated: readers break on almost valid
    // input.
    #[test]
    fn spoilt_lines(
        which in 0..GOOD.len(),
        spoils in prop::collection::vec((any::<prop::sample::Index>(), 0..3, any::<u8>()), 0..6),
    ) {
        let mut bytes = GOOD[which].1.as_bytes().to_vec();
        for (place, how, byte) in spoils {
            let place = place.index(bytes.len().max(1));
            match how {
                _ if bytes.is_empty() => {}
                0 => bytes[place] = byte,
                1 => bytes.truncate(place),
                _ => bytes.insert(place, byte),
            }
        }
        in_every_way(&bytes);
    }

    // Numbers of any size in place of numbers.
    #[test]
    fn any_numbers(at in any::<f64>(), input in any::<i64>(), output in any::<u64>(), id in any::<u64>()) {
        let line = format!(
            "{{\"timestamp\": {at:e}, \"input_length\": {input}, \"output_length\": {output}, \
             \"hash_ids\": [{id}]}}\n"
        );
        in_every_way(line.repeat(2).as_bytes());
    }
}

// The lines corrupted above are valid originally, and recognised by their first line.
#[test]
fn good_lines_are_good() {
    for (format, text) in GOOD {
        let mut reader = Reader::new(text.as_bytes(), format, &ReadOptions::default());
        assert!(reader.next().is_some() && reader.all(|request| request.is_ok()));
        assert_eq!(Format::of_first_line(text.lines().next().unwrap_or("")), Some(format));
    }
}
