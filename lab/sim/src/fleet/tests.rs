use super::*;
use meridian_base::{PortId, Time};
use meridian_engine::Terms;

/// Always the first way.
struct First;

impl Choose for First {
    fn choose(&mut self, _: Time, _: usize, _: f64, _: f64) -> usize {
        0
    }
}

fn seconds(of: f64) -> Time {
    Time::from_nanos((of * 1e9) as u64)
}

/// A step of this many seconds, with any contents.
fn fixed(of: f64) -> Stage {
    Stage { terms: Terms { step: of, ..Terms::default() }, ..Stage::default() }
}

/// The same before another stage, reached without delay.
fn first(of: f64) -> Stage {
    Stage { pass: Some(Way::default()), ..fixed(of) }
}

fn instance(stages: Vec<Stage>) -> Instance {
    let (together, seats, kv_tokens) = (1, 256, 1e9);
    Instance { stages, token_bytes: 1.0, together, seats, kv_tokens, weight: 1.0 }
}

/// One prefill and one decode instance, `count` requests at intervals of this many seconds.
fn setup(prefill: Vec<Stage>, decode: Vec<Stage>, every: f64, count: u32) -> Setup {
    let request =
        |nth: u32| Request { at: seconds(every * f64::from(nth)), prompt: 100, output: 11 };
    Setup {
        ports: vec![1e6; 4],
        prefill: vec![instance(prefill)],
        decode: vec![instance(decode)],
        aggregated: Vec::new(),
        handoff: vec![vec![Way::default()]],
        layers: 1,
        requests: (0..count).map(request).collect(),
        until: seconds(1e4),
    }
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-6 * b.max(1.0), "{a} {b}");
}

// A single request takes its prompt's step, its KV and a step for each further token.
#[test]
fn one_request_adds_up() {
    let mut one = setup(vec![fixed(0.2)], vec![fixed(0.03)], 1.0, 1);
    one.handoff[0][0] = Way { latency: 0.001, per_byte: 0.0005, loads: Vec::new() };
    let report = run(&one, &mut First);
    let record = report.records[0];
    close(record.ttft.unwrap(), 0.2 + 0.001 + 100.0 * 0.0005);
    close(record.tpot.unwrap(), 0.03);
    assert_eq!((report.prefill.steps, report.decode.steps), (1, 10));
}

// Layer by layer, only the last layer's KV follows the prompt.
#[test]
fn kv_goes_behind_the_computing() {
    let mut one = setup(vec![fixed(0.2)], vec![fixed(0.03)], 1.0, 1);
    one.handoff[0][0] = Way { latency: 0.0, per_byte: 0.001, loads: Vec::new() };
    one.layers = 10;
    close(run(&one, &mut First).records[0].ttft.unwrap(), 0.2 + 0.01);
}

// Prompts wait for each other; a pipeline of two has twice the throughput with the same time for
// one.
#[test]
fn a_pipeline_takes_more_prompts() {
    let mean = |stages: Vec<Stage>| {
        let report = run(&setup(stages, vec![fixed(0.01)], 0.1, 20), &mut First);
        let ttft: f64 = report.records.iter().map(|record| record.ttft.unwrap()).sum();
        ttft / 20.0
    };
    close(mean(vec![first(0.1), fixed(0.1)]), 0.2);
    close(mean(vec![fixed(0.2)]), 0.2 + 0.1 * 9.5);
}

// Two collectives on one port take twice as long as one; on separate ports they do not interfere.
#[test]
fn collectives_share_ports() {
    let way =
        |port: u32| vec![Way { latency: 0.0, per_byte: 1e-6, loads: vec![(PortId(port), 1.0)] }];
    let count = |groups: &[Vec<Way>]| exchanges(&[1e6; 4], groups, 1e5, seconds(10.05), &mut First);
    assert_eq!(count(&[way(0)]), [100]);
    assert_eq!(count(&[way(0), way(0)]), [50, 50]);
    assert_eq!(count(&[way(0), way(1)]), [100, 100]);
}

// A stage's all-reduces are this many operations of its tokens' bytes, after the computation.
#[test]
fn a_step_computes_and_then_joins() {
    let way = Way { latency: 0.001, per_byte: 1e-6, loads: vec![(PortId(0), 1.0)] };
    let stage = Stage { reductions: 8.0, ways: vec![way], ..fixed(0.2) };
    let report = run(&setup(vec![stage], vec![fixed(0.03)], 1.0, 1), &mut First);
    let joins = 8.0 * (0.001 + 100.0 * 1e-6);
    close(report.records[0].ttft.unwrap(), 0.2 + joins);
    close(report.prefill.collectives, joins);
    close(report.prefill.computing, 0.2);
}

// Seats and KV bound a batch: a request that does not fit waits, and all of them end.
#[test]
fn what_has_no_room_waits() {
    let mut tight = setup(vec![fixed(0.001)], vec![fixed(0.03)], 0.0, 6);
    tight.decode[0].kv_tokens = 2.5 * 111.0;
    let slow = |setup: &Setup| {
        let report = run(setup, &mut First);
        assert!(report.records.iter().all(|record| record.tpot.is_some()));
        report.decode.steps
    };
    let two_at_a_time = slow(&tight);
    tight.decode[0].kv_tokens = 1e9;
    assert!(two_at_a_time > 2 * slow(&tight), "{two_at_a_time}");
    tight.decode[0].seats = 2;
    assert!(slow(&tight) >= 30);
}

// Two lanes of a decode pipeline: each stage works for one while the other is elsewhere.
#[test]
fn lanes_fill_a_pipeline() {
    let two = setup(vec![fixed(0.001)], vec![first(0.02), fixed(0.02)], 0.0, 8);
    let report = run(&two, &mut First);
    for record in &report.records {
        let tpot = record.tpot.unwrap();
        assert!((0.04..0.05).contains(&tpot), "{tpot}");
    }
}

// A run that is cut short reports unfinished requests as such; the same setup gives the same
// report.
#[test]
fn a_run_can_be_cut_short() {
    let mut cut = setup(vec![fixed(0.2)], vec![fixed(0.03)], 0.1, 20);
    cut.until = seconds(2.0);
    let report = run(&cut, &mut First);
    assert!(report.records[19].ttft.is_none() && report.records[0].tpot.is_some());
    assert_eq!(report, run(&cut, &mut First));
}

/// Aggregated instances of one GPU each, and their load.
fn aggregated(terms: Terms, count: usize, requests: Vec<Request>) -> Setup {
    let engine = instance(vec![Stage { terms, ..Stage::default() }]);
    let one = Aggregated { engine, budget: 256 };
    Setup { aggregated: vec![one; count], requests, until: seconds(1e4), ..Setup::default() }
}

// An aggregated instance is the engine model: the same requests get the same times.
#[test]
fn aggregated_instances_step_as_the_engine_does() {
    use meridian_base::{RequestId, Rng};
    use meridian_engine::{Config, Engine, Input, Output, Profile, Submission};
    let profile = Profile::named("llama-3.1-8b", "a100", 1).unwrap();
    let mut rng = Rng::new(7);
    let mut at = 0.0;
    let mut request = |_| {
        at += rng.exponential(0.1);
        let (prompt, output) = (1 + rng.below(900) as u32, 2 + rng.below(60) as u32);
        Request { at: seconds(at), prompt, output }
    };
    let requests: Vec<Request> = (0..400).map(&mut request).collect();
    let report = run(&aggregated(profile.terms, 1, requests.clone()), &mut First);
    let config = Config { max_num_batched_tokens: 256, ..Config::new(profile) };
    let mut engine = Engine::new(config, 1).unwrap();
    let mut first = vec![None; requests.len()];
    let mut take = |engine: &mut Engine| {
        while let Some(output) = engine.poll() {
            if let Output::Tokens { id, at, .. } = output {
                first[id.0 as usize].get_or_insert(at);
            }
        }
    };
    for (nth, one) in requests.iter().enumerate() {
        let (prompt_tokens, reply_tokens) = (one.prompt, one.output);
        let id = RequestId(nth as u64);
        let (max_tokens, blocks) = (reply_tokens, Vec::new());
        let submission = Submission { id, prompt_tokens, reply_tokens, max_tokens, blocks };
        engine.handle(one.at, Input::Submit(submission));
        take(&mut engine);
    }
    engine.handle_timeout(seconds(1e4));
    take(&mut engine);
    for ((one, record), first) in requests.iter().zip(&report.records).zip(first) {
        let ttft = first.unwrap().since(one.at).as_secs_f64();
        assert!((record.ttft.unwrap() - ttft).abs() < 1e-4, "{one:?} {record:?} {ttft}");
    }
}

// Without memory for two, the newer one is preempted and both still end; two instances take turns.
#[test]
fn aggregated_requests_end_whatever_the_memory() {
    let terms = Terms { step: 0.01, ..Terms::default() };
    let request =
        |nth: u32| Request { at: seconds(0.001 * f64::from(nth)), prompt: 90, output: 40 };
    let mut setup = aggregated(terms, 1, (0..4).map(request).collect());
    setup.aggregated[0].engine.kv_tokens = 200.0;
    let report = run(&setup, &mut First);
    assert!(report.records.iter().all(|one| one.ttft.is_some() && one.tpot.is_some()));
    let slow =
        |report: &Report| report.records.iter().filter_map(|one| one.tpot).fold(0.0, f64::max);
    assert!(slow(&report) > 0.0101, "{report:?}");
    let two = run(&aggregated(terms, 2, (0..4).map(request).collect()), &mut First);
    close(slow(&two), 0.01);
}
