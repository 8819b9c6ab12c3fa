//! A real trace through one engine gives the cache hits that the trace's statistics predict.

use std::collections::{HashMap, HashSet};

use meridian_base::{Duration, Time};
use meridian_engine::{BLOCK_TOKENS, Config, Profile};
use meridian_routing::Admission;
use meridian_routing::policy;
use meridian_sim::{
    Hardware, Load, Measure, Programs, Region, Scenario, Source, System, Topology, Wan, run,
};
use meridian_workload::trace::{
    ProgramOptions, Shape, Stats, StatsOptions, TraceRequest, find_excerpt, shape, to_programs,
};

/// So slow that a request has ended when the next one arrives: the cache contents then depend on
/// the order alone.
const SPEED: f64 = 0.05;

/// The beginning of Mooncake's trace, with sessions inferred from prefixes.
fn mooncake() -> Vec<TraceRequest> {
    let requests = find_excerpt("mooncake").expect("an excerpt").requests();
    let to = Shape {
        spread: Duration::from_secs(3),
        sessions_beyond: Some(1),
        rate: SPEED,
        ..Shape::default()
    };
    let shaped = shape(requests.into_iter().map(Ok), &to).expect("a good shape");
    shaped.map(|request| request.expect("a good row")).collect()
}

/// The share of prompt tokens that one engine finds in a cache of `tokens`.
fn found(requests: &[TraceRequest], tokens: u32, replies: bool) -> f64 {
    let engine = Config::new(Profile::named("llama-3.1-8b", "h100", 1).expect("it fits"));
    let engine = engine.with_kv_blocks(tokens / BLOCK_TOKENS);
    let options = ProgramOptions { seed: 1, replies, ..ProgramOptions::default() };
    let programs: Result<Vec<_>, _> =
        to_programs(requests.iter().cloned().map(Ok), &options).collect();
    let programs: Programs = Box::new(programs.expect("good requests").into_iter());
    let last = requests.last().expect("some requests").at.since(Time::ZERO);
    let policy = policy::find("round_robin").expect("a policy");
    let report = run(Scenario {
        seed: 1,
        regions: vec![Region { name: "here".into(), continent: "one".into() }],
        wan: Wan { rtt_ms: vec![vec![1.0]], jitter: 0.0, loss: 0.0 },
        replicas: vec![Hardware::new(0, engine)],
        system: System { admission: Admission::Blind, ..System::usual(policy, Topology::TwoLayer) },
        loads: vec![Load { region: 0, source: Source::Open(programs), may_run_in: None }],
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::ZERO, window: last + Duration::from_secs(1) },
        paranoid: false,
    })
    .expect("a possible scenario");
    assert_eq!(report.requests.len(), requests.len());
    let sum = |of: fn(&meridian_sim::Record) -> u32| -> f64 {
        report.requests.iter().map(|r| f64::from(of(r))).sum()
    };
    sum(|r| r.cached_tokens) / sum(|r| r.prompt_tokens)
}

/// The share found in an infinite cache of prompts and replies, counted on the trace alone: leading
/// blocks seen before, or an earlier prompt of the session and its reply, if a prompt starts with
/// that prompt's whole blocks and continues with a new one.
fn with_replies(requests: &[TraceRequest]) -> f64 {
    // Mooncake's ids name whole prefixes.
    let mut seen: HashSet<u64> = HashSet::new();
    let mut sessions: HashMap<Option<u64>, Vec<&TraceRequest>> = HashMap::new();
    let (mut known, mut all) = (0.0, 0.0);
    for request in requests {
        let ids = &request.hash_ids;
        let came = ids.iter().take_while(|id| seen.contains(id)).count();
        let before = sessions.entry(request.session).or_default();
        let repeats = before.iter().filter(|earlier| {
            let whole = (earlier.input_tokens / 512) as usize;
            whole == came && ids.len() > whole && ids[..whole] == earlier.hash_ids[..whole]
        });
        let ends = repeats.map(|earlier| earlier.input_tokens + earlier.output_tokens);
        let most = ends.max().unwrap_or(0).max(came as u32 * 512);
        known += f64::from(most.min(request.input_tokens));
        all += f64::from(request.input_tokens);
        before.push(request);
        seen.extend(ids);
    }
    known / all
}

// Without replies the engine finds the same share as the trace's own statistics for an LRU cache of
// that size, within a point. The engine counts tokens and the statistics blocks, and its memory
// also holds replies, which explains the difference.
#[test]
fn caches_find_what_lru_caches_find() {
    let requests = mooncake();
    let mut stats = Stats::new(StatsOptions::default());
    requests.iter().for_each(|request| stats.add(request));
    let reuse = stats.finish().reuse.expect("Mooncake has ids");
    for (blocks, share) in reuse.lru.iter().filter(|(blocks, _)| *blocks <= 30_000) {
        let ours = found(&requests, *blocks as u32 * 512, false);
        assert!((ours - share).abs() < 0.01, "{blocks} blocks: {ours:.4}, the trace {share:.4}");
    }
    let endless = found(&requests, 200_000 * 512, false);
    assert!((endless - reuse.of_tokens).abs() < 0.002, "{endless:.4}, {:.4}", reuse.of_tokens);
}

// With replies inferred from later turns, the engine finds them too, as often as a count on the
// trace alone.
#[test]
fn next_turns_find_the_replies() {
    let requests = mooncake();
    let (without, with) =
        (found(&requests, 200_000 * 512, false), found(&requests, 200_000 * 512, true));
    let counted = with_replies(&requests);
    assert!((with - counted).abs() < 0.002, "{with:.4}, counted {counted:.4}");
    assert!(with > without + 0.01, "{with:.4} with replies, {without:.4} without");
}
