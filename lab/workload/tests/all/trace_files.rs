//! Excerpts of published traces have the same figures as in an independent count.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Duration;

use meridian_base::Time;
use meridian_workload::trace::{
    EXCERPTS, Format, Lengths, ReadOptions, Reader, ServeGenReader, Shape, Stats, StatsOptions,
    Summary, TraceRequest, find_excerpt, shape,
};

fn open(name: &str) -> BufReader<File> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    BufReader::new(File::open(path).expect("the fixtures are in the repository"))
}

fn requests(name: &str, format: Format, to: &Shape) -> Vec<TraceRequest> {
    let reader = Reader::new(open(name), format, &ReadOptions::default());
    let shaped = shape(reader, to).expect("a good shape");
    shaped.map(|request| request.expect("a good line")).collect()
}

fn summary(requests: &[TraceRequest]) -> Summary {
    let mut stats = Stats::new(StatsOptions::default());
    requests.iter().for_each(|request| stats.add(request));
    stats.finish()
}

fn near(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-6 * want.abs().max(1e-3), "{got} is not {want}");
}

fn lengths_near(got: &Lengths, want: [f64; 5]) {
    let Lengths { mean, p50, p90, p99, max } = *got;
    for (got, want) in [mean, p50, p90, p99, max].into_iter().zip(want) {
        near(got, want);
    }
}

// Mooncake: lengths, arrivals, reuse in an infinite cache and in LRU caches, later turns.
#[test]
fn mooncake() {
    let s = summary(&requests("mooncake_500.jsonl", Format::Mooncake, &Shape::default()));
    assert_eq!(s.requests, 500);
    near(s.seconds, 165.0);
    near(s.gap_cv, 2.841_254_595_413_707_4);
    assert_eq!((s.per_minute.0, s.per_minute.2), (162, 177));
    lengths_near(&s.input, [14_249.71, 8939.0, 27_724.3, 89_997.02, 121_298.0]);
    lengths_near(&s.output, [361.884, 370.0, 604.2, 906.23, 2000.0]);
    let reuse = s.reuse.expect("Mooncake has ids");
    assert_eq!((reuse.blocks, reuse.distinct), (14_162, 11_879));
    near(reuse.of_blocks, 0.161_206_044_344_019_2);
    near(reuse.of_tokens, 0.163_875_475_360_551_2);
    let lru: Vec<f64> = reuse.lru.iter().take(3).map(|(_, share)| *share).collect();
    near(lru[0], 0.035_235_136_280_186_416);
    near(lru[1], 0.055_218_189_521_254_06);
    near(lru[2], 0.159_087_699_477_474_65);
    let turns = s.turns.expect("Mooncake has ids");
    near(turns.share, 0.148);
    assert_eq!(turns.by_turn, [426, 67, 7]);
    lengths_near(&turns.gap_s, [65.999_918_918, 66.0005, 107.1, 140.43, 147.0]);
    lengths_near(&turns.new_tokens, [3_565.878_378_378, 827.5, 11_192.0, 27_635.83, 36_636.0]);
}

// Spread over its grid of three seconds, Mooncake keeps its order, at distinct times within the
// same three seconds, and almost as evenly as a Poisson process.
#[test]
fn mooncake_spread() {
    let plain = requests("mooncake_500.jsonl", Format::Mooncake, &Shape::default());
    let step = Duration::from_secs(3);
    let to = Shape { spread: step, ..Shape::default() };
    let spread = requests("mooncake_500.jsonl", Format::Mooncake, &to);
    for (a, b) in plain.iter().zip(&spread) {
        assert_eq!(a.hash_ids, b.hash_ids);
        assert!(a.at <= b.at && b.at.since(a.at) < step, "{} went to {}", a.at, b.at);
    }
    assert!(spread.windows(2).all(|two| two[0].at < two[1].at));
    assert_eq!(spread, requests("mooncake_500.jsonl", Format::Mooncake, &to));
    let cv = summary(&spread).gap_cv;
    assert!((0.9..1.15).contains(&cv), "gaps vary by {cv}");
}

// Sessions inferred from prefixes are the chains that the statistics count, and each stays in one
// region; regions have their weights within 6 %.
#[test]
fn mooncake_regions() {
    let regions = vec![("us".into(), 2.0), ("eu".into(), 1.0), ("asia".into(), 1.0)];
    let to = Shape { sessions_beyond: Some(1), regions, ..Shape::default() };
    let requests = requests("mooncake_500.jsonl", Format::Mooncake, &to);
    let mut region_of = std::collections::BTreeMap::new();
    for request in &requests {
        let session = request.session.expect("every request has one now");
        let region = request.region.clone().expect("every request has one now");
        assert_eq!(*region_of.entry(session).or_insert_with(|| region.clone()), region);
    }
    assert_eq!(region_of.len(), 426);
    for (name, weight) in [("us", 0.5), ("eu", 0.25), ("asia", 0.25)] {
        let share = region_of.values().filter(|region| &***region == name).count() as f64 / 426.0;
        assert!((share - weight).abs() < 0.06, "{name} has {share}");
    }
}

// Azure: lengths and arrivals; prefixes are unknown.
#[test]
fn azure() {
    let requests = requests("azure_1000.csv", Format::Azure, &Shape::default());
    assert_eq!(requests[1].at, Time::from_nanos(4_314_579_000));
    let s = summary(&requests);
    assert_eq!(s.requests, 1000);
    near(s.seconds, 216.027_393);
    near(s.gap_cv, 1.245_474_131_947_471_4);
    assert_eq!((s.per_minute.0, s.per_minute.2), (191, 329));
    lengths_near(&s.input, [1014.189, 999.0, 1380.0, 4096.03, 4145.0]);
    lengths_near(&s.output, [247.262, 203.0, 428.0, 585.08, 1000.0]);
    assert!(s.reuse.is_none() && s.turns.is_none());
}

// ServeGen's rates, and the error for an invalid row.
#[test]
fn servegen() {
    let rows: Vec<_> = ServeGenReader::new(open("servegen_rates.csv"))
        .map(|row| row.expect("a good row"))
        .collect();
    assert_eq!(rows.len(), 399);
    near(rows.iter().map(|row| row.rate_rps).sum(), 730.319_135);
    assert_eq!(rows.iter().filter(|row| &*row.dist == "Gamma").count(), 273);
    let first = &rows[0];
    assert_eq!((first.client, first.window_start_s), (0, 0));
    assert_eq!(first.params, [0.37535, 0.39677]);

    let header = "client,window_start_s,rate_rps,cv,dist,param1,param2\n";
    let error = |rest: &str| {
        let text = format!("{header}{rest}");
        let found = ServeGenReader::new(text.as_bytes()).find_map(Result::err);
        found.expect("a bad row").to_string()
    };
    assert_eq!(error("0,0,0,1,Gamma,1,1\n"), "line 2: rate_rps is 0; give a number above 0");
    assert_eq!(
        error("0,0,1,1,my text,1,1\n"),
        "line 2: dist is not a name; write Gamma or Weibull"
    );
    assert!(error("0,0,1,1,Gamma").starts_with("line 2, the last, ends in the middle"));
    assert!(error("0,0,1,1,Gamma,1,nan\n").starts_with("line 2: param2 is nan"));
}

// The shipped excerpts are the beginnings of the published files: the same times, lengths and
// sharing as in the unchanged fixtures.
#[test]
fn excerpts_are_the_beginnings() {
    let cut = |name: &str, n: usize| -> Vec<TraceRequest> {
        let all = find_excerpt(name).expect("an excerpt").requests();
        assert!(all.is_sorted_by_key(|request| request.at), "{name}");
        all.into_iter().take(n).collect()
    };
    let ours = summary(&cut("mooncake", 500));
    let whole = summary(&requests("mooncake_500.jsonl", Format::Mooncake, &Shape::default()));
    assert_eq!(ours, whole);
    let of = |requests: &[TraceRequest]| -> Vec<(u64, u32, u32)> {
        let each = requests.iter();
        each.map(|r| ((r.at.as_nanos() + 500_000) / 1_000_000, r.input_tokens, r.output_tokens))
            .collect()
    };
    let (ours, whole) =
        (cut("azure", 1000), requests("azure_1000.csv", Format::Azure, &Shape::default()));
    assert_eq!(of(&ours), of(&whole));
    assert_eq!(EXCERPTS.iter().map(|e| e.requests().len()).collect::<Vec<_>>(), [3658, 5985]);
}
