//! The memory of replicas whose KV is full.
//!
//! Engines alone, without gateways: each serves chats, one after the other, until it has evicted
//! cached blocks, so that every block was used and nearly all hold a prefix. The chats are those of
//! the planet.

use std::time::Duration;

use anyhow::{Context, ensure};
use meridian_base::{RequestId, Time};
use meridian_engine::{BLOCK_TOKENS, Config, Engine, Input, Submission, TokenOutputs};
use meridian_workload::{
    BYTES_PER_TOKEN, Generator, ProgramKey, content_blocks, find_generator, prompt_of,
};

use super::world;
use crate::harness::{Results, cpu_time, memory};

/// The replicas' GPUs: one with little KV beside the model, and one with much.
const GPUS: [&str; 2] = ["l4", "h100"];
/// Target for ten thousand replicas, in GiB.
const TARGET_GIB: f64 = 2.0;

/// Fills `replicas` replicas of each GPU, one kind after the other.
pub(super) fn measure(replicas: usize, results: &mut Results) -> anyhow::Result<()> {
    GPUS.iter().try_for_each(|gpu| full(gpu, replicas, results))
}

fn full(gpu: &str, replicas: usize, results: &mut Results) -> anyhow::Result<()> {
    let profile = world::profile(gpu)?;
    let config = Config {
        token_outputs: TokenOutputs::First,
        decode_stride: BLOCK_TOKENS,
        ..Config::new(profile)
    };
    let generator =
        find_generator(world::GENERATOR).context("the generator is built in")?.published();
    let ((before, _), start) = (memory(), cpu_time());
    let mut engines = Vec::with_capacity(replicas);
    let (mut requests, mut cached) = (0, 0);
    for at in 0..replicas {
        let mut engine = Engine::new(config, at as u64)?;
        requests += fill(&mut engine, &*generator, at as u32)?;
        cached += u64::from(engine.stats().kv_indexed);
        engines.push(engine);
    }
    let bytes = memory().0.saturating_sub(before) as f64;
    let us = (cpu_time() - start).as_secs_f64() * 1e6;
    let (count, blocks) = (replicas as f64, f64::from(config.kv_blocks));
    results.case(gpu);
    results.add("replicas", "", count);
    results.add("KV blocks each", "", blocks);
    results.add("hold a prefix", "%", 100.0 * cached as f64 / (count * blocks));
    results.add("requests each", "", (requests as f64 / count).round());
    results.add("time", "us/request", us / requests as f64);
    results.add("memory", "B/block", bytes / (count * blocks));
    let gib = bytes / f64::from(1 << 30);
    results.add("memory", "GiB", gib);
    results.add("for 10,000", "GiB", gib * 1e4 / count).at_most(TARGET_GIB);
    Ok(())
}

/// Chats that are served at a time.
const TOGETHER: u64 = 4;

/// Serves conversations until as many blocks were evicted as there are. Returns the requests.
fn fill(engine: &mut Engine, generator: &dyn Generator, region: u32) -> anyhow::Result<u64> {
    let (mut now, mut requests, mut blocks) = (Time::ZERO, 0, Vec::new());
    for ordinal in 0.. {
        let stats = engine.stats();
        if stats.evictions > u64::from(stats.kv_blocks) {
            break;
        }
        let program = generator.program(ProgramKey { seed: 1, region, client: 0, ordinal });
        for node in 0..program.nodes.len() {
            let mut text = prompt_of(&program, node);
            let prompt: u32 = text.iter().map(|s| s.bytes).sum();
            text.extend_from_slice(program.reply(node).segments());
            let all: u32 = text.iter().map(|s| s.bytes).sum();
            blocks.clear();
            content_blocks(text.iter().copied(), BLOCK_TOKENS * BYTES_PER_TOKEN, 0, &mut blocks);
            let submission = Submission {
                id: RequestId(requests),
                prompt_tokens: prompt.div_ceil(BYTES_PER_TOKEN).max(1),
                reply_tokens: ((all - prompt) / BYTES_PER_TOKEN).max(1),
                max_tokens: u32::MAX,
                blocks: blocks.clone(),
            };
            engine.handle(now, Input::Submit(submission));
            requests += 1;
            if requests.is_multiple_of(TOGETHER) {
                now = drained(engine, now);
            }
        }
    }
    now = drained(engine, now);
    ensure!(engine.stats().kv_referenced == 0, "requests are left at {now:?}");
    Ok(requests)
}

/// Runs all requests to their end.
fn drained(engine: &mut Engine, mut now: Time) -> Time {
    while let Some(due) = engine.poll_timeout() {
        now = due;
        engine.handle_timeout(now);
        while engine.poll().is_some() {}
    }
    now + Duration::from_millis(1)
}
