use super::*;
use crate::{Input, Output, Profile, Submission};
use alloc::vec::Vec;
use meridian_base::{RequestId, Rng};

/// A stage whose steps take as many seconds as they have tokens thousands, plus these.
fn stage(fixed: f64) -> Stage {
    let terms = Terms { step: fixed, token: 1e-3, ..Terms::default() };
    Stage { terms, ..Stage::default() }
}

fn config() -> Config {
    Config::new(Profile::named("llama-3.1-8b", "l4", 1).unwrap())
}

fn submission(id: u64, prompt: u32, reply: u32) -> Input {
    let id = RequestId(id);
    Input::Submit(Submission {
        id,
        prompt_tokens: prompt,
        reply_tokens: reply,
        max_tokens: reply,
        blocks: Vec::new(),
    })
}

/// When each token of each request came, in ms.
fn tokens(engine: &mut Engine, inputs: &[(u64, Input)]) -> Vec<(u64, u64)> {
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
        while let Some(output) = engine.poll() {
            if let Output::Tokens { id, at, .. } = output {
                out.push((id.0, (at.as_nanos() + 500_000) / 1_000_000));
            }
        }
    }
}

fn staged(stages: Vec<Stage>) -> Engine {
    Engine::staged(config(), stages, 1).unwrap()
}

// One stage with the profile's own terms is the engine without stages, also when the KV runs out.
#[test]
fn one_stage_is_the_whole_engine() {
    let small = config().with_kv_blocks(300);
    let mut rng = Rng::new(3);
    let inputs: Vec<(u64, Input)> = (0..60)
        .map(|id| (id * 150, submission(id, 50 + rng.below(900) as u32, 1 + rng.below(300) as u32)))
        .collect();
    let stage = Stage { terms: small.profile.terms, ..Stage::default() };
    let one = tokens(&mut Engine::new(small, 1).unwrap(), &inputs);
    let other = tokens(&mut Engine::staged(small, vec![stage], 1).unwrap(), &inputs);
    assert!(one.len() > 5_000);
    assert_eq!(one, other);
}

// A prompt enters the first stage when the one before has left it, and waits for a longer one in the
// second.
#[test]
fn prompts_overlap() {
    let mut engine = staged(vec![stage(0.0), stage(0.1)]);
    let inputs = [(0, submission(1, 400, 1)), (10, submission(2, 100, 1))];
    // The first: 400 and 500 ms. The second enters at 400, leaves the first stage at 500, and the
    // second one from 900 on.
    assert_eq!(tokens(&mut engine, &inputs), [(1, 900), (2, 1100)]);
}

// The chunks of a prompt follow each other through the stages: three of 100 tokens take as long as a
// pipeline of two needs for three.
#[test]
fn chunks_follow_each_other() {
    let chunked = Config { max_num_batched_tokens: 100, ..config() };
    let mut engine = Engine::staged(chunked, vec![stage(0.0), stage(0.0)], 1).unwrap();
    assert_eq!(tokens(&mut engine, &[(0, submission(1, 300, 1))]), [(1, 400)]);
}

// A decode is in one stage at a time, so that its tokens are a whole pass apart; another request
// decodes in the other stage meanwhile and slows it by nothing.
#[test]
fn decodes_take_turns() {
    let gaps = |inputs: &[(u64, Input)]| {
        let mut engine = staged(vec![stage(0.1), stage(0.1)]);
        let all = tokens(&mut engine, inputs);
        let own: Vec<u64> = all.iter().filter(|(id, _)| *id == 1).map(|(_, at)| *at).collect();
        own.windows(2).skip(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    let alone = gaps(&[(0, submission(1, 1, 20))]);
    assert!(alone.iter().all(|gap| *gap == 202), "{alone:?}");
    let both = gaps(&[(0, submission(1, 1, 20)), (130, submission(2, 1, 40))]);
    assert!(both.iter().all(|gap| (202..=203).contains(gap)), "{both:?}");
}

// The cheapest way of an all-reduce counts, and the way to the next stage adds to a step but not to
// the interval between steps.
#[test]
fn ways_cost_time() {
    let (slow, fast) = (Way { fixed: 0.0, token: 1.0 }, Way { fixed: 0.05, token: 0.0 });
    let pass = Way { fixed: 0.02, token: 1e-4 };
    let mut first = stage(0.0);
    (first.reduce, first.pass) = (vec![slow, fast], pass);
    let inputs = [(0, submission(1, 100, 1)), (0, submission(2, 100, 1))];
    let one = Config { max_num_batched_tokens: 100, ..config() };
    let mut engine = Engine::staged(one, vec![first, stage(0.0)], 1).unwrap();
    // 100 + 50 in the first stage, 20 + 10 between them, 100 in the second.
    assert_eq!(tokens(&mut engine, &inputs), [(1, 280), (2, 430)]);
}

// Under a heavy load with too little KV, every request ends, whatever is preempted or aborted in any
// stage, also if a prompt has chunks in all of them.
#[test]
fn a_full_pipeline_loses_nothing() {
    for budget in [2048, 64] {
        full(Config { max_num_batched_tokens: budget, ..config().with_kv_blocks(150) });
    }
}

fn full(small: Config) {
    let mut engine = Engine::staged(small, vec![stage(0.01); 3], 1).unwrap();
    let mut rng = Rng::new(5);
    let mut inputs: Vec<(u64, Input)> = (0..200)
        .map(|id| (id * 40, submission(id, 20 + rng.below(700) as u32, 2 + rng.below(200) as u32)))
        .collect();
    inputs.extend((0..200).step_by(7).map(|id| (id * 40 + 300, Input::Abort(RequestId(id)))));
    inputs.sort_by_key(|(at, _)| *at);
    tokens(&mut engine, &inputs);
    let stats = engine.stats();
    let ended = stats.finished_stop + stats.finished_length + stats.finished_abort;
    assert!(stats.preemptions > 0 && stats.finished_abort > 0, "{stats:?}");
    assert_eq!((ended, stats.running, stats.pending, stats.kv_referenced), (200, 0, 0, 0));
}
