//! The memory of replicas whose KV is full.
//!
//! Engines alone, without gateways: each serves chats, one after the other, until it has evicted
//! cached blocks, so that every block was used and nearly all hold a prefix. The chats are those of
//! the planet.

use std::time::Duration;

use anyhow::{Context, ensure};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use meridian_base::{RequestId, Time};
use meridian_engine::{BLOCK_TOKENS, Config, Engine, Input, Submission, TokenOutputs};
use meridian_workload::{
    BYTES_PER_TOKEN, Generator, ProgramKey, content_blocks, find_generator, prompt_of,
};
use serde::Serialize;

use super::world;
use crate::simspeed::{processor, resident};

/// The replicas' GPUs: one with little KV beside the model, and one with much.
const GPUS: [&str; 2] = ["l4", "h100"];
/// Target for ten thousand replicas, in GiB.
const TARGET_GIB: f64 = 2.0;

/// Replicas of one kind, full.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    gpu: &'static str,
    replicas: usize,
    /// KV blocks of each.
    blocks: u32,
    /// Of all replicas' blocks, those that hold a prefix.
    cached: f64,
    /// Requests served by each, on average.
    requests: f64,
    /// CPU time of a request, in us.
    time_us: f64,
    /// Memory of all replicas, in bytes.
    memory: u64,
}

/// Fills `replicas` replicas of each GPU, one kind after the other.
pub(super) fn measure(replicas: usize) -> anyhow::Result<Vec<Row>> {
    GPUS.iter().map(|gpu| row(gpu, replicas)).collect()
}

fn row(gpu: &'static str, replicas: usize) -> anyhow::Result<Row> {
    let profile = world::profile(gpu)?;
    let config = Config {
        token_outputs: TokenOutputs::First,
        decode_stride: BLOCK_TOKENS,
        ..Config::new(profile)
    };
    let generator =
        find_generator(world::GENERATOR).context("the generator is built in")?.published();
    let (before, start) = (resident("VmRSS")?, processor()?);
    let mut engines = Vec::with_capacity(replicas);
    let (mut requests, mut cached) = (0, 0);
    for at in 0..replicas {
        let mut engine = Engine::new(config, at as u64)?;
        requests += fill(&mut engine, &*generator, at as u32)?;
        cached += u64::from(engine.stats().kv_indexed);
        engines.push(engine);
    }
    let memory = resident("VmRSS")?.saturating_sub(before);
    let time_us = (processor()? - start) * 1e6 / requests as f64;
    Ok(Row {
        gpu,
        replicas,
        blocks: config.kv_blocks,
        cached: cached as f64 / (replicas as f64 * f64::from(config.kv_blocks)),
        requests: requests as f64 / replicas as f64,
        time_us,
        memory,
    })
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

pub(super) fn print(rows: &[Row]) {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
        "GPU",
        "replicas",
        "KV blocks each",
        "hold a prefix",
        "requests each",
        "us/request",
        "B/block",
        "GiB",
        "GiB for 10,000",
        "target",
    ]);
    for row in rows {
        let (gib, blocks) = (f64::from(1 << 30), f64::from(row.blocks) * row.replicas as f64);
        let memory = row.memory as f64;
        let scaled = memory / gib * 1e4 / row.replicas as f64;
        table.add_row([
            row.gpu.to_owned(),
            row.replicas.to_string(),
            row.blocks.to_string(),
            format!("{:.1} %", row.cached * 100.0),
            format!("{:.0}", row.requests),
            format!("{:.1}", row.time_us),
            format!("{:.1}", memory / blocks),
            format!("{:.2}", memory / gib),
            format!("{scaled:.2}"),
            format!("<= {TARGET_GIB} {}", if scaled <= TARGET_GIB { "yes" } else { "NO" }),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
