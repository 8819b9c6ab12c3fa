//! Runs the scenarios: text in, text out. `REWRITE=1 cargo test -p meridian-engine` rewrites the
//! outputs; read the diff before you commit it.
//!
//! A scenario configures an engine, then submits requests and advances the time:
//! * `engine [kv=N] [seqs=N] [tokens=N] [pending=N] [stride=N] [ahead=1]`: a new engine with terms
//!   that are easy to follow: a step takes 10 ms and 1 ms for every 100 tokens.
//! * `submit id=N prompt=N reply=N [max=N] [text=WORD]`: arrives now. Requests of one `text` share
//!   their blocks as far as both reach.
//! * `submit ... leg=prefill [lease=MS]` and `submit ... leg=decode`: one leg of a request.
//! * `fetched id=N`, `failed id=N [recompute=1]`: a decode leg's KV has arrived, or will not.
//! * `renew id=N lease=MS`, `release id=N`: of held blocks.
//! * `abort id=N`, `run [until=MS]` (without: until idle), `stats`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use datadriven::{TestCase, walk};
use meridian_base::{Duration, RequestId, Time, keyed, mix};
use meridian_engine::{Config, Engine, Input, Leg, Output, Profile, Schedule, Submission, Terms};
use std::fmt::Write;

struct World {
    engine: Engine,
    now: Time,
}

fn number(case: &mut TestCase, name: &str, default: u32) -> u32 {
    case.try_take_arg(name).unwrap().unwrap_or(default)
}

fn id(case: &mut TestCase) -> RequestId {
    RequestId(u64::from(number(case, "id", 0)))
}

fn new_world(case: &mut TestCase) -> World {
    let mut profile = Profile::named("llama-3.1-8b", "l4", 1).unwrap();
    profile.terms = Terms { step: 0.010, token_reduce: 0.000_01, ..Terms::default() };
    let mut config = Config::new(profile).with_kv_blocks(number(case, "kv", 100));
    config.max_num_seqs = number(case, "seqs", 8);
    config.max_num_batched_tokens = number(case, "tokens", 2048);
    config.max_pending = number(case, "pending", 100);
    config.decode_stride = number(case, "stride", 1);
    if number(case, "ahead", 0) > 0 {
        config.schedule = Schedule::Ahead;
    }
    World { engine: Engine::new(config, 1).unwrap(), now: Time::ZERO }
}

fn leg(case: &mut TestCase) -> Leg {
    let lease = Duration::from_millis(u64::from(number(case, "lease", 30_000)));
    match case.try_take_arg::<String>("leg").unwrap().as_deref() {
        None => Leg::Whole,
        Some("prefill") => Leg::Prefill { lease },
        Some("decode") => Leg::Decode,
        Some(other) => panic!("unknown leg {other}"),
    }
}

fn submission(case: &mut TestCase) -> Submission {
    let id = number(case, "id", 0);
    let (prompt_tokens, reply_tokens) = (number(case, "prompt", 0), number(case, "reply", 0));
    let text: String = case.try_take_arg("text").unwrap().unwrap_or_else(|| id.to_string());
    let blocks = (prompt_tokens + reply_tokens) / 16;
    let first = Some(keyed(0, text.as_bytes()));
    Submission {
        id: RequestId(u64::from(id)),
        prompt_tokens,
        reply_tokens,
        max_tokens: number(case, "max", u32::MAX),
        blocks: std::iter::successors(first, |hash| Some(mix(*hash, 1)))
            .take(blocks as usize)
            .collect(),
    }
}

impl World {
    fn run(&mut self, until: Time, out: &mut String) {
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.engine.handle_timeout(self.now);
            self.engine.check_invariants();
            self.drain(out);
        }
        if until < Time::MAX {
            self.now = until;
        }
    }

    fn drain(&mut self, out: &mut String) {
        while let Some(output) = self.engine.poll() {
            writeln!(out, "{}", line(&output)).unwrap();
        }
    }
}

fn ms(d: Duration) -> String {
    format!("{:.2}ms", d.as_secs_f64() * 1e3)
}

fn line(output: &Output) -> String {
    match output {
        Output::Admitted { id, at, waited, cached_tokens } => {
            format!("{at} {id} admitted after {}, {cached_tokens} cached", ms(*waited))
        }
        Output::Tokens { id, at, total, new } => format!("{at} {id} token {total} (+{new})"),
        Output::Preempted { id, at, by, short_blocks } => {
            format!("{at} {id} preempted by {by}, short of {short_blocks} blocks")
        }
        Output::Finished { id, at, why, usage, timings } => format!(
            "{at} {id} finished {why:?}: {} prompt, {} cached, {} reply, {} preemptions; \
             queued {}, prefill {}, decode {}",
            usage.prompt_tokens,
            usage.cached_tokens,
            usage.reply_tokens,
            usage.preemptions,
            ms(timings.queued),
            ms(timings.prefill),
            ms(timings.decode)
        ),
        Output::Deferred { id, at, cached_blocks, missing_blocks } => {
            format!("{at} {id} deferred: {cached_blocks} blocks cached, {missing_blocks} missing")
        }
        Output::Held { id, at, until, tokens } => {
            format!("{at} {id} held until {until}: {tokens} tokens")
        }
        Output::Released { id, at, expired } => {
            let why = if *expired { "lease expired" } else { "released" };
            format!("{at} {id} {why}")
        }
        Output::Refused { id, at, why } => format!("{at} {id} refused: {why}"),
    }
}

fn stats(world: &World) -> String {
    let s = world.engine.stats();
    let legs = format!(
        "deferred {} held {} fetched {} expired {} late {}\n",
        s.deferred, s.held, s.fetched_tokens, s.leases_expired, s.late_releases
    );
    let none = "deferred 0 held 0 fetched 0 expired 0 late 0\n";
    let legs = if legs == none { "" } else { &legs };
    format!(
        "running {} pending {} arrived {} kv {}/{} indexed {}\n\
         prefix {}/{} reply {} preemptions {} evictions {} steps {} of {}, prefill {}\n{legs}",
        s.running,
        s.pending,
        s.arrived,
        s.kv_referenced,
        s.kv_blocks,
        s.kv_indexed,
        s.prefix_hits,
        s.prefix_queries,
        s.reply_tokens,
        s.preemptions,
        s.evictions,
        s.steps,
        ms(s.step_time),
        ms(s.prefill_time)
    )
}

fn step(world: &mut Option<World>, case: &mut TestCase) -> String {
    let out = answer(world, case);
    case.expect_empty().unwrap();
    out
}

fn answer(world: &mut Option<World>, case: &mut TestCase) -> String {
    let mut out = String::new();
    if case.directive == "engine" {
        *world = Some(new_world(case));
        return "ok\n".to_owned();
    }
    let world = world.as_mut().expect("a scenario begins with an engine");
    match case.directive.as_str() {
        "submit" => {
            let (leg, submission) = (leg(case), submission(case));
            world.engine.handle(world.now, Input::SubmitLeg(submission, leg));
        }
        "abort" => world.engine.handle(world.now, Input::Abort(id(case))),
        "fetched" => world.engine.handle(world.now, Input::Fetched(id(case))),
        "failed" => {
            let (id, recompute) = (id(case), number(case, "recompute", 0) > 0);
            world.engine.handle(world.now, Input::FetchFailed { id, recompute });
        }
        "renew" => {
            let lease = Duration::from_millis(u64::from(number(case, "lease", 0)));
            world.engine.handle(world.now, Input::Renew { id: id(case), lease });
        }
        "release" => world.engine.handle(world.now, Input::Release(id(case))),
        "run" => {
            let until = case.try_take_arg("until").unwrap().map_or(Time::MAX, Time::from_millis);
            world.run(until, &mut out);
        }
        "stats" => return stats(world),
        other => panic!("unknown directive {other}"),
    }
    world.engine.check_invariants();
    world.drain(&mut out);
    if out.is_empty() { "(nothing)\n".to_owned() } else { out }
}

// Each file of tests/scenarios is a sequence of commands and outputs.
#[test]
fn scenarios() {
    walk("tests/scenarios", |file| {
        let mut world = None;
        file.run(|case| step(&mut world, case));
    });
}
