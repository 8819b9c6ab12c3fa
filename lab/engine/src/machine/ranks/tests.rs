use super::*;
use crate::{Profile, Refusal, Schedule, Terms};
use meridian_base::{Duration, RequestId, Rng};

/// A step of a rank takes 10 ms and 1 ms for every 100 tokens.
fn config() -> Config {
    let mut profile = Profile::named("llama-3.1-8b", "l4", 1).unwrap();
    profile.terms = Terms { step: 0.010, token: 0.000_01, ..Terms::default() };
    Config::new(profile).with_kv_blocks(100)
}

/// This many of them together: each does its part of the total work.
fn ranks(config: Config, count: u32, seed: u64) -> Ranks {
    let mut profile = config.profile;
    profile.terms.token /= f64::from(count);
    Ranks::new(config, Together::new(&profile, count, 1.0), seed).unwrap()
}

fn submit(id: u64, prompt: u32, reply: u32) -> Input {
    let blocks = (0..u64::from((prompt + reply) / 16)).map(|b| (id << 32) + b).collect();
    let id = RequestId(id);
    Input::Submit(Submission {
        id,
        prompt_tokens: prompt,
        reply_tokens: reply,
        max_tokens: reply,
        blocks,
    })
}

fn run(ranks: &mut Ranks) -> Vec<Output> {
    while let Some(due) = ranks.poll_timeout() {
        ranks.handle_timeout(due);
        ranks.check_invariants();
    }
    core::iter::from_fn(|| ranks.poll()).collect()
}

/// When each request ended.
fn ends(outputs: &[Output]) -> Vec<(u64, Time)> {
    let end = |output: &Output| match output {
        Output::Finished { id, at, .. } => Some((id.0, *at)),
        _ => None,
    };
    outputs.iter().filter_map(end).collect()
}

// A single rank is an engine: the same outputs at the same times, for any input and either leg.
#[test]
fn one_rank_is_an_engine() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut config = config().with_kv_blocks(10 + rng.below(40) as u32);
        config.schedule = [Schedule::Mixed, Schedule::Ahead][rng.below(2)];
        config.max_num_seqs = 1 + rng.below(6) as u32;
        config.max_num_batched_tokens = 20 + rng.below(200) as u32;
        config.jitter = 0.1;
        let mut engine = Engine::new(config, seed).unwrap();
        let mut ranks = ranks(config, 1, seed);
        let mut now = Time::ZERO;
        for id in 0..40 {
            now = now + Duration::from_millis(rng.below(60) as u64);
            let any = RequestId(rng.below(40) as u64);
            let lease = Duration::from_millis(rng.below(500) as u64);
            let legs = [Leg::Whole, Leg::Whole, Leg::Prefill { lease }, Leg::Decode];
            let input = match rng.below(10) {
                0 => Input::Abort(any),
                1 => Input::Fetched(any),
                2 => Input::FetchFailed { id: any, recompute: rng.below(2) == 0 },
                3 => Input::Release(any),
                4 => Input::Renew { id: any, lease },
                _ => {
                    let leg = legs[rng.below(legs.len())];
                    match submit(id, rng.below(150) as u32, rng.below(20) as u32) {
                        Input::Submit(submission) => Input::SubmitLeg(submission, leg),
                        other => other,
                    }
                }
            };
            engine.handle(now, input.clone());
            ranks.handle(now, input);
            ranks.check_invariants();
            assert_eq!(ranks.poll_timeout(), engine.poll_timeout(), "seed {seed}");
        }
        engine.handle_timeout(Time::MAX);
        let expected: Vec<_> = core::iter::from_fn(|| engine.poll()).collect();
        assert_eq!(run(&mut ranks), expected, "seed {seed}");
    }
}

// Every request ends once on one of the ranks, and no state is left on any.
#[test]
fn every_request_ends_on_one_rank() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut config = config().with_kv_blocks(10 + rng.below(40) as u32);
        config.schedule = [Schedule::Mixed, Schedule::Ahead][rng.below(2)];
        config.max_num_seqs = 1 + rng.below(6) as u32;
        let mut ranks = ranks(config, 2 + rng.below(3) as u32, seed);
        let (mut now, mut submitted) = (Time::ZERO, 0);
        for id in 0..50 {
            now = now + Duration::from_millis(rng.below(30) as u64);
            if rng.below(6) == 0 {
                ranks.handle(now, Input::Abort(RequestId(rng.below(50) as u64)));
            } else {
                ranks.handle(now, submit(id, 1 + rng.below(150) as u32, 1 + rng.below(9) as u32));
                submitted += 1;
            }
            ranks.check_invariants();
        }
        let outputs = run(&mut ranks);
        let mut ended: Vec<u64> = ends(&outputs).into_iter().map(|(id, _)| id).collect();
        let refused = |output: &&Output| matches!(output, Output::Refused { .. });
        assert_eq!(ended.len() + outputs.iter().filter(refused).count(), submitted, "seed {seed}");
        ended.sort_unstable();
        ended.dedup();
        let stats = || ranks.engines().iter().map(Engine::stats);
        assert_eq!(stats().map(|s| s.finished()).sum::<u64>(), ended.len() as u64, "seed {seed}");
        assert!(stats().all(|s| s.outstanding() == 0 && s.kv_referenced == 0), "seed {seed}");
    }
}

// A prompt of 1,000 tokens on one rank makes a step of 20 ms for the other one too, whose own takes
// 11.
#[test]
fn all_wait_for_the_busiest() {
    let mut ranks = ranks(config(), 2, 1);
    ranks.handle(Time::ZERO, submit(1, 100, 1));
    ranks.handle(Time::ZERO, submit(2, 1000, 1));
    let at = Time::from_millis(20);
    assert_eq!(ends(&run(&mut ranks)), [(1, at), (2, at)]);
}

// A request that arrives while another rank computes waits for that step to end, though its own
// rank is idle.
#[test]
fn an_idle_rank_is_in_step() {
    let mut ranks = ranks(config(), 2, 1);
    ranks.handle(Time::ZERO, submit(1, 1000, 1));
    ranks.handle(Time::from_millis(5), submit(2, 1000, 1));
    let outputs = run(&mut ranks);
    assert_eq!(ends(&outputs), [(1, Time::from_millis(20)), (2, Time::from_millis(40))]);
}

// The rank with the least of four times pending plus running is chosen, by counts published every
// 100 ms and the requests sent since.
#[test]
fn the_least_loaded_rank_is_chosen() {
    let mut ranks = ranks(config(), 2, 1);
    let outstanding =
        |ranks: &Ranks| [0, 1].map(|at: usize| ranks.engines()[at].stats().outstanding());
    (0..4).for_each(|id| ranks.handle(Time::ZERO, submit(id, 10, 40)));
    assert_eq!(outstanding(&ranks), [2, 2]);
    // The first of them has ended and was reported: two on that rank make up for it.
    ranks.handle(Time::from_millis(1), Input::Abort(RequestId(0)));
    ranks.handle_timeout(Time::from_millis(300));
    assert_eq!(outstanding(&ranks), [1, 2]);
    ranks.handle(Time::from_millis(300), submit(5, 10, 40));
    assert_eq!(outstanding(&ranks), [2, 2]);
}

// A request that one rank already has is refused, although another rank is less loaded.
#[test]
fn a_known_request_is_refused() {
    let mut ranks = ranks(config(), 2, 1);
    ranks.handle(Time::ZERO, submit(1, 10, 2));
    ranks.handle(Time::ZERO, submit(1, 10, 2));
    let (id, at, why) = (RequestId(1), Time::ZERO, Refusal::DuplicateId);
    assert_eq!(ranks.poll(), Some(Output::Refused { id, at, why }));
}
