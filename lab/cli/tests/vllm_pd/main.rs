//! A real pair: two vLLM engines on the CPU that hand over KV by NIXL, and a gateway in front.
//!
//! A control engine without a connector has the same weights and answers the same requests, so
//! wrong KV shows as another text or another log-probability. Needs 6 GB of Python packages, 10 GB
//! of memory and minutes: `./x test vllm-pd`, not in CI. So cargo runs it by its name only.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]
#![allow(dead_code, reason = "the other test program uses the rest of the common part")]

mod adapters;
mod answers;
mod ask;
mod bench;
mod bodies;
#[path = "../real/common/mod.rs"]
mod common;
mod engines;
mod faults;
#[path = "../programs/mod.rs"]
mod programs;
mod prompts;
mod rendered;
mod requests;
mod trio;
mod world;

use tokio::sync::Mutex;
use trio::Trio;
use world::World;

/// One test at a time: the engines of two do not fit into the memory of a small machine.
static ENGINES: Mutex<()> = Mutex::const_new(());

// Everything with one set of engines, since each takes minutes to start; the faults that end an
// engine come last. What each case showed is printed as a row of a table.
#[tokio::test]
async fn a_real_pair() {
    let _alone = ENGINES.lock().await;
    let mut world = World::start().await;
    answers::twenty_prompts(&world).await;
    requests::hostile_bodies(&mut world).await;
    requests::whole_requests(&world).await;
    requests::refused_by_the_decode_engine(&world).await;
    faults::client_leaves(&world).await;
    faults::decode_killed_after_prefill(&mut world).await;
    faults::prefill_killed_after_its_answer(&mut world).await;
    faults::decode_ended_by_a_body(&mut world).await;
}

// Engines that load and unload an adapter while they run.
#[tokio::test]
async fn an_adapter_in_one_of_three() {
    let _alone = ENGINES.lock().await;
    let trio = Trio::start().await;
    adapters::in_each_in_turn(&trio).await;
    adapters::in_two(&trio).await;
}

// vLLM's own parser reads the start script of a plan.
#[tokio::test]
async fn rendered_commands() {
    rendered::every_command_is_read().await;
}

// vLLM's benchmark as a client.
#[tokio::test]
async fn vllm_bench_serve() {
    let _alone = ENGINES.lock().await;
    bench::both_backends().await;
}
