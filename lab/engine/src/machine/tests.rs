use super::*;
use crate::{Output, Profile, TokenOutputs};
use alloc::vec::Vec;

fn engine(change: impl FnOnce(&mut Config)) -> Engine {
    let mut config = Config::new(Profile::named("llama-3.1-8b", "l4", 1).unwrap());
    change(&mut config);
    Engine::new(config, 1).unwrap()
}

fn submission(id: u64, prompt: u32, reply: u32) -> Submission {
    let blocks = (0..u64::from((prompt + reply) / 16)).map(|b| (id << 32) + b).collect();
    let id = RequestId(id);
    Submission { id, prompt_tokens: prompt, reply_tokens: reply, max_tokens: reply, blocks }
}

fn run(engine: &mut Engine, inputs: &[(u64, Input)]) -> Vec<Output> {
    let mut out = Vec::new();
    let mut inputs = inputs.iter().peekable();
    loop {
        let due = engine.poll_timeout();
        match (inputs.peek(), due) {
            (Some((at, input)), due) if due.is_none_or(|due| Time::from_millis(*at) <= due) => {
                engine.handle(Time::from_millis(*at), input.clone());
                inputs.next();
            }
            (_, Some(due)) => engine.handle_timeout(due),
            (_, None) => return out,
        }
        engine.check_invariants();
        out.extend(core::iter::from_fn(|| engine.poll()));
    }
}

fn ends(outputs: &[Output]) -> Vec<(u64, Time, u32)> {
    let finished = |o: &Output| match o {
        Output::Finished { id, at, usage, .. } => Some((id.0, *at, usage.reply_tokens)),
        _ => None,
    };
    outputs.iter().filter_map(finished).collect()
}

// An abort in the middle of an event of many decode steps counts the tokens of those that ended.
#[test]
fn an_abort_within_a_stride_keeps_its_tokens() {
    let inputs = [(0, Input::Submit(submission(1, 300, 120))), (3_000, Input::Abort(RequestId(1)))];
    let one = ends(&run(&mut engine(|_| {}), &inputs));
    let many = ends(&run(&mut engine(|c| c.decode_stride = 64), &inputs));
    assert!(one[0].2 > 10);
    assert_eq!(one, many);
}

// Combining several decode steps into one event gives the same replies at nearly the same times:
// only the context's growth within an event is averaged. An abort and arrivals fall into events.
#[test]
fn decode_strides_change_no_end() {
    let inputs = [
        (0, Input::Submit(submission(1, 300, 120))),
        (700, Input::Submit(submission(2, 50, 77))),
        (2_345, Input::Submit(submission(3, 900, 200))),
        (5_000, Input::Abort(RequestId(2))),
        (5_001, Input::Submit(submission(4, 20, 9))),
    ];
    let one = run(&mut engine(|_| {}), &inputs);
    let many = run(&mut engine(|c| c.decode_stride = 16), &inputs);
    assert!(many.len() < one.len() / 2, "fewer events");
    for (a, b) in ends(&one).into_iter().zip(ends(&many)) {
        assert_eq!((a.0, a.2), (b.0, b.2));
        assert!((a.1.as_secs_f64() / b.1.as_secs_f64() - 1.0).abs() < 1e-4, "{a:?} {b:?}");
    }
}

// The outputs do not depend on how often or how late the driver calls: one jump to the end gives
// the same as a call for each step.
#[test]
fn a_late_call_gives_the_same_outputs() {
    let inputs = [(0, Input::Submit(submission(1, 3000, 40)))];
    let stepwise = run(&mut engine(|_| {}), &inputs);
    let mut jumped = engine(|_| {});
    jumped.handle(Time::ZERO, inputs[0].1.clone());
    jumped.handle_timeout(Time::from_millis(3_600_000));
    assert_eq!(core::iter::from_fn(|| jumped.poll()).collect::<Vec<_>>(), stepwise);
    assert_eq!(jumped.poll_timeout(), None);
}

// A simulator requests only first tokens: the others are counted, not reported.
#[test]
fn first_tokens_alone_are_reported_when_asked() {
    let mut engine = engine(|c| c.token_outputs = TokenOutputs::First);
    let out = run(&mut engine, &[(0, Input::Submit(submission(1, 100, 50)))]);
    assert_eq!(out.len(), 3, "admitted, first token, finished");
    assert_eq!(engine.stats().reply_tokens, 50);
}

// Aborting at any moment leaves no state behind.
#[test]
fn abort_leaves_nothing() {
    for at in [0, 1, 50, 400, 1_500] {
        let mut engine = engine(|c| c.decode_stride = 8);
        let inputs = [
            (0, Input::Submit(submission(1, 5_000, 500))),
            (0, Input::Submit(submission(2, 100, 500))),
            (at, Input::Abort(RequestId(1))),
            (at, Input::Abort(RequestId(2))),
            (at, Input::Abort(RequestId(3))),
        ];
        let out = run(&mut engine, &inputs);
        let stats = engine.stats();
        assert_eq!((stats.outstanding(), stats.kv_referenced, stats.finished_abort), (0, 0, 2));
        assert_eq!(ends(&out).len(), 2);
    }
}

// With jitter, one seed gives one result, and another seed another.
#[test]
fn jitter_follows_the_seed() {
    let end = |seed| {
        let mut config = Config::new(Profile::named("mistral-7b", "a100", 1).unwrap());
        config.jitter = 0.1;
        let mut engine = Engine::new(config, seed).unwrap();
        ends(&run(&mut engine, &[(0, Input::Submit(submission(1, 100, 50)))]))
    };
    assert_eq!(end(1), end(1));
    assert_ne!(end(1), end(2));
}
